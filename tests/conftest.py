"""A skip hides as well as a pass: ``--allowed-skips FILE`` fails every skip whose reason FILE does not name."""

import functools
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pipeline.sources import kinds  # noqa: F401  (known, as after any configuration was read)
from pipeline.storage import tables_on_disk
from pipeline.tables import TABLES

settings.register_profile(  # no test has a clock: machines differ, and kernels compile at their first call
    "project",
    deadline=None,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
    derandomize="CI" in os.environ,  # the same cases each time; at a desk new ones
)
settings.load_profile("project")

collect_ignore = [
    "lab/bench/kafka_utils_plan.py",
    "lab/bench/forecast_peers.py",
]  # interpreters with the peers run them
ALLOWED = pytest.StashKey[tuple[str, ...]]()
TOGETHER = (
    "tests/integration/test_killed_runs.py",
    "tests/integration/test_scheduler.py",
    "tests/integration/metrics/",
    "tests/integration/live/",
    "tests/integration/test_window_by_window.py",
    "tests/integration/test_replay_on_cluster.py",
    "tests/integration/test_leaders_moved.py",
    "tests/integration/test_small_cluster.py",
    "tests/integration/test_quota.py",
    "tests/integration/test_rules_on_a_cluster.py",
    "tests/integration/test_live_access.py",
    "tests/integration/test_reassignment_plans.py",
    "tests/integration/test_serve.py",
    "tests/integration/test_object_store.py",
    "tests/spark/test_sums_only.py",  # without the session of the others it does without Spark, as a run this small
    "tests/spark/test_session.py",
    ("tests/spark/", "tests/gates/test_data_gates.py"),
    "tests/dags/",
    "tests/gates/",
    "tests/kafka/",
)
"""Files, and folders whose tests share what takes long to make: one of the processes runs each, those that take longest first."""


def pytest_addoption(parser):
    parser.addoption("--allowed-skips", metavar="FILE", help="fail every skip whose reason holds no line of FILE")


def pytest_configure(config):
    file = config.getoption("--allowed-skips")
    if file:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        config.stash[ALLOWED] = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


def find_together(nodeid):
    """Place in the order, and the folder, file or several that have to run in one process."""
    for place, path in enumerate(TOGETHER):
        if nodeid.startswith(path):
            return place, path
    return len(TOGETHER), nodeid.partition("::")[0]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Deals folders and files out to the processes of `-n`, in their order."""
    from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415  # a run in one process does without

    class Dealing(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return find_together(nodeid)[1]

    config.option.loadscopereorder = False
    return Dealing(config, log)


def pytest_collection_modifyitems(config, items):
    if hasattr(config, "workerinput"):  # one process of several
        items.sort(key=lambda item: find_together(item.nodeid)[0])


def fail_unless_allowed(config, report):
    """Turn the report of a skip (or an expected failure) into a failure, unless its reason is allowed."""
    allowed = config.stash.get(ALLOWED, None)
    if allowed is None or not report.skipped:
        return report
    reason = getattr(report, "wasxfail", None) or str(report.longrepr[2])
    if not any(line in reason for line in allowed):
        report.outcome = "failed"
        report.longrepr = f"{reason}\n(a skip that {config.getoption('--allowed-skips')} does not name)"
        report.__dict__.pop("wasxfail", None)
    return report


@pytest.fixture(scope="session")
def classic_session(tmp_path_factory):
    """`local[2]`, UTC, Delta: one session, about 7 s, for all modules of a run that need one."""
    from pipeline.config.pipeline_config import Spark  # noqa: PLC0415  # lanes without Spark do not pay for its import
    from pipeline.storage.session import create_session, stop_session  # noqa: PLC0415
    from tests.engines import on_classic  # noqa: PLC0415

    with on_classic():
        session = create_session(
            Spark(master="local[2]", driver_memory="1g"),
            app_name="tests",
            extra_conf={
                "spark.sql.shuffle.partitions": "2",
                "spark.default.parallelism": "2",
                "spark.databricks.delta.snapshotPartitions": "1",
                "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark-warehouse")),
            },
        )
        yield session
        stop_session(session, timeout_s=600)


@pytest.fixture(scope="module")
def classic(classic_session):
    """Classic Spark, for all tests of a module."""
    from tests.engines import on_classic  # noqa: PLC0415

    with on_classic():
        yield classic_session


@pytest.fixture(scope="module")
def spark():
    """Sail, for all tests of a module: the same DataFrames without a JVM."""
    from tests.engines import on_sail  # noqa: PLC0415

    with on_sail() as session:
        yield session


@pytest.fixture(scope="session")
def capture_folder():
    """The committed capture, unpacked below ``build/`` once for all runs; nobody changes it."""
    from tests.lab.archive import COMMITTED, unpack_once  # noqa: PLC0415

    return unpack_once(COMMITTED, Path(__file__).parents[1] / "build")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return fail_unless_allowed(item.config, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return fail_unless_allowed(collector.config, (yield))


@pytest.fixture(autouse=True, scope="session")
def tables_copied(tmp_path_factory):
    """New tables are copies of the first of their kind that this process made: making all of them takes most of a test."""
    folder, make = tmp_path_factory.mktemp("tables"), tables_on_disk._ensure_at

    @functools.wraps(make)
    def ensure_at(path, table):
        is_new = isinstance(path, Path) and any(table is one for one in TABLES) and not os.path.lexists(path)
        if not is_new or tables_on_disk.has_table(path):
            return make(path, table)
        if not tables_on_disk.has_table(first := folder / table.name):
            make(first, table)
        shutil.copytree(first, path, copy_function=shutil.copy)
        return True

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables_on_disk, "_ensure_at", ensure_at)
        yield
