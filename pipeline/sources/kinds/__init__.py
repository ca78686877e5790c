"""Every kind of source, a file each; see `pipeline.sources.source` for what a new one takes."""

import importlib
import pkgutil

from pipeline.config.section import known_kinds
from pipeline.sources.source import Source

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

_FOUND = {name: kind for name, kind in known_kinds().items() if issubclass(kind, Source)}
KINDS = dict(sorted(_FOUND.items(), key=lambda item: item[1].rank))  # classes by `kind`, in order of rank
