"""`python -m pipeline.cli.warm_caches`: compiles the kernels and archives Spark's classes, once for an installation."""

import importlib
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import pipeline
from pipeline.progress import Progress

AT_ONCE = 2
REPORT_EVERY_S = 3


def main() -> None:
    progress = Progress(every_s=REPORT_EVERY_S, report=_say)
    _say("loading modules")
    with progress.step("loading modules"):
        from pipeline.storage.catalog import make_archive  # pyspark, whose first start compiles it
    modules, compiled = kernel_modules(), list[str]()
    _say("compiling kernels")
    with progress.step("compiling kernels", lambda: (len(compiled), len(modules)), "modules"):
        processor_s = compile_kernels(modules, compiled)
    _say(f"kernels compiled in {processor_s:.1f} s of processor time")
    _say("archiving Spark's classes: each start then takes half the CPU time")
    try:
        with progress.step("archiving Spark's classes"):
            make_archive()
    except subprocess.TimeoutExpired as error:
        _say(f"not archived within {error.timeout:.0f} s: Spark starts without; .ci/setup tries again")


def kernel_modules() -> list[str]:
    root = Path(pipeline.__file__).parent
    paths = [path for path in root.rglob("*.py") if "\n@kernel(" in path.read_text(encoding="utf-8")]
    parts = [path.relative_to(root).with_suffix("").parts for path in sorted(paths, reverse=True)]
    return [".".join((pipeline.__name__, *names)) for names in parts]


def compile_kernels(modules: Sequence[str], compiled: list[str]) -> float:
    """Imports modules, two at a time, adds each to those compiled; returns processor seconds: few where cached before."""
    processor_s = 0.0
    with ProcessPoolExecutor(AT_ONCE, mp_context=multiprocessing.get_context("spawn")) as pool:
        importing = {pool.submit(_import, name): name for name in modules}
        for future in as_completed(importing):
            processor_s += future.result()
            compiled.append(importing[future])
    return processor_s


def _import(name: str) -> float:
    before_s = time.process_time()
    importlib.import_module(name)
    return time.process_time() - before_s


def _say(line: str) -> None:
    sys.stderr.write(f"setup: {line}\n")


if __name__ == "__main__":
    main()
