"""A skip hides as well as a pass: ``--allowed-skips FILE`` fails every skip whose reason FILE does not name."""

from __future__ import annotations

from pathlib import Path

import pytest

ALLOWED = pytest.StashKey[tuple[str, ...]]()


def pytest_addoption(parser):
    parser.addoption("--allowed-skips", metavar="FILE", help="fail every skip whose reason holds no line of FILE")


def pytest_configure(config):
    file = config.getoption("--allowed-skips")
    if file:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        config.stash[ALLOWED] = tuple(line.strip() for line in lines if line.strip() and not line.startswith("#"))


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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    return fail_unless_allowed(item.config, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    return fail_unless_allowed(collector.config, (yield))
