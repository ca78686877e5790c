"""Configurations as files, for tests that read them as the commands do."""

import yaml

from tests.engines import SAIL


def write_configuration(folder, clusters, *, name="partition-health.yaml", **settings):
    """Writes the configuration of some clusters, by name, with tables and mails beside it; returns its path.

    Sail runs it, unless `settings` say otherwise: it needs no JVM.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    document = {"warehouse": "warehouse", "outbox": "outbox", "clusters": clusters, "spark": SAIL} | settings
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path
