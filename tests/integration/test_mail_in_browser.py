"""Mails as people see them, in a real browser. Oracle: nothing sticks out, every picture shows, every text is legible."""

from dataclasses import replace

import pytest

from pipeline.advice.following import BrokerAnswers, HotBroker, check_broker
from pipeline.alerting.digest import describe_digest
from pipeline.alerting.incident_mail import describe_broker_share, describe_rule, describe_source
from pipeline.alerting.message import render_message
from pipeline.evidence.incident import IncidentEvidence
from tests.lab.browser import LEAST_CONTRAST, SCHEMES, WIDTHS, find_chromium, running_browser
from tests.unit.alerting.examples import MINUTE_MS, T0_MS, new_evidence, new_recommendation, resolved_evidence

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium here: apt-get install chromium")

HOSTILE = '<script>document.title="pwned"</script>' + "W" * 230


def state(name):
    opened = new_evidence(time_zone="Europe/Berlin")
    return replace(opened, change=replace(opened.change, state=name))


def hostile():
    evidence = state("new")
    return replace(evidence, cluster=HOSTILE, owner=HOSTILE, topics=(HOSTILE,))


def advised():
    """Actions whose predicted share is a range: the widest table there is."""
    of = {"action": "replay:upgrade", "moved_bytes": 39_500_000, "moved_partition_count": 1}
    of |= {"predicted_ratio": 1.07, "predicted_ratio_low": 1.01, "predicted_ratio_high": 1.12}
    of |= {"predicted_peak_ratio": 1.07, "broker_ratios": {1: 1.07, 2: 0.98, 3: 0.95}, "config_diff": "+linger.ms=5"}
    of |= {"text": "The replay of the window's own traffic puts the highest broker at 1.07x. " * 2}
    titles = ("upgrade producers of orders to Kafka client 3.3+", f"set {'W' * 60}")
    actions = [new_recommendation(rank=rank, title=title, **of) for rank, title in enumerate(titles, start=1)]
    return replace(state("new"), recommendations=tuple(actions))


def slow():
    """A broker that answers late, with all that its metrics can say, and what to do if looking at it does not help."""
    answers = BrokerAnswers(
        latency_avg_ms=535.0,
        ratio_to_peers=41.0,
        since_ms=T0_MS,
        stages_ms={"total": 520.0, "local": 480.0, "requestqueue": 40.0},
        peer_stages_ms={"total": 12.0, "local": 3.0, "requestqueue": 1.0},
        idle_ratios={"request handlers": 0.12},
        changes=("broker 2 was out of the cluster for 30 s", "leaders moved"),
    )
    healed = dict.fromkeys((1, 2, 3), (0.98, 1.0, 1.03))
    hot = HotBroker(
        broker_id=1, window_start_ms=T0_MS, share_ratio=1.65, target_ratio=1.1, load_follows=True, answers=answers,
        healed=healed,
    )  # fmt: skip  # fields of a value, several a line
    check = check_broker(hot)
    upgrade = new_recommendation(rank=2, title="upgrade producers of orders to Kafka client 3.3+", is_enough=False)
    evidence = replace(state("new"), events=("broker 2: away since 2026-11-21 09:06:22 UTC (38 s of the window)",))
    return replace(evidence, recommendations=(replace(check, rank=1), upgrade))


def blind():
    change = replace(new_evidence().change, rule="source_arrival", subject="log_directories", value=1.0)
    return IncidentEvidence(
        cluster="demo", change=change, reason="broker 2: no answer " * 20, window_ms=MINUTE_MS, limits_at="freshness"
    )


def rule():
    change = replace(new_evidence().change, rule="disk_hours_to_full", subject="broker 2", value=11.0, limit_value=48.0)
    return replace(blind(), change=change, reason="/var/lib/kafka is 91% full, and at this pace all of it in 11 h")


def digest():
    opened = new_evidence().change
    changes = [replace(opened, incident_id=f"K-{n:08}", subject=f"broker {n}", value=1.2 + n / 99) for n in range(40)]
    return describe_digest("demo", changes, owner="platform team")


MAILS = {
    "new": lambda: describe_broker_share(state("new")),
    "advised": lambda: describe_broker_share(advised()),
    "slow": lambda: describe_broker_share(slow()),
    "worse": lambda: describe_broker_share(state("worse")),
    "resolved": lambda: describe_broker_share(resolved_evidence()),
    "hostile names": lambda: describe_broker_share(hostile()),
    "rule": lambda: describe_rule(rule()),
    "blind": lambda: describe_source(blind()),
    "digest": digest,
}


@pytest.fixture(scope="module")
def show():
    with running_browser() as show:
        yield show


def rendered(content):
    return render_message(content, sender="a@x.org", recipients=["b@x.org"], now_ms=T0_MS).payload


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", MAILS)
def test_a_mail_fits_shows_its_pictures_and_can_be_read(name, width, scheme, show):
    content = MAILS[name]()
    shown = show(rendered(content), width, scheme)
    assert (shown.outside, shown.broken) == ([], [])
    assert [(ratio, text) for ratio, text in shown.contrasts if ratio < LEAST_CONTRAST] == []
    assert all(section.title in shown.text for section in content.sections)


@pytest.mark.parametrize("name", sorted(set(MAILS) - {"hostile names"}))
def test_the_answers_are_on_the_first_screen_of_a_phone(name, show):
    """Screen: 844 CSS pixels of a common phone, less 180 for the mail program's own bars."""
    assert 0 < show(rendered(MAILS[name]()), min(WIDTHS), "light").answers_end_px < 664
