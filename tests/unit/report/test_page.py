"""The report over made-up tables: what its first screen says, what its charts draw, and that no name can act.

Oracles: the rows that were written; Python's own HTML parser.
"""

import base64
import hashlib
import re
import shutil

import polars as pl
import pytest
from deltalake import DeltaTable

from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow, instant_of
from pipeline.report.answers import Answer
from pipeline.report.page import gather_report, render_report
from pipeline.report.status import SOURCES
from pipeline.report.topics import ADVICE, draw_heat_map
from pipeline.runs import plan_runs
from pipeline.tables.gold import VERDICTS
from pipeline.tables.incidents import INCIDENTS
from tests.incident_rows import new_change
from tests.report_page import read_answers, read_page
from tests.report_tables import CLUSTER, T0_MS, write_config, write_rows, write_warehouse

HOSTILE = ("<script>alert(1)</script>", "javascript:alert(1)", "\"' onload='alert(1)", "{{ 7 * 7 }}", "a\u202eb\r\n")


def gather(config, hours=6):
    end_ms = T0_MS + hours * HOUR_MS
    (run,) = plan_runs(config, TimeWindow(end_ms - HOUR_MS, end_ms), run_id="r", now_ms=end_ms)
    return gather_report(run, until_ms=end_ms, length_ms=DAY_MS)


def render(*reports):
    return render_report(reports, now_ms=T0_MS, command="partition-health sql")


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_warehouse(folder / "warehouse", topics=HOSTILE, client=HOSTILE[0], key=HOSTILE[0])
    return write_config(folder)


@pytest.fixture(scope="module")
def page(config):
    return read_page(render(gather(config)))


@pytest.mark.parametrize(("leader", "shown", "said"), [(0, "0", "leader 0"), (-1, "", "no leader")])
def test_broker_0_is_a_leader_and_no_broker_is_none(leader, shown, said):
    row = {"topic": "clicks", "partition": 2, "size_bytes": 9_000.0, "leader_id": leader, "ratio_to_mean": None}
    partitions, topics = (Answer(name="partitions", sql="", columns=(), rows=rows) for rows in ((row,), ()))
    drawn = draw_heat_map(partitions, topics, 0)
    (cell,) = drawn["rows"][0]["cells"]
    assert (cell["leader"], cell["title"], cell["is_own"]) == (shown, f"clicks-2: 9.00 kB, {said}", leader == 0)


def test_the_first_screen_says_what_is_wrong_since_when_and_what_to_do(page):
    header = page.one("header")
    assert header.attributes["class"] == "alarm"
    headline = "FAIL Broker 1 carries 50.0 % of the bytes, 33.3 % would be fair (1.50x, limit 1.20x)"
    assert header.one("h1").text == headline
    facts = {pair.one("dt").text: pair.one("dd").text for pair in header.one("dl").all("div")}
    assert facts["Since"] == "2026-11-21 03:00 UTC (3 h), in 3 of the last 4 windows"
    assert facts["Why"].startswith("producers send more to its partitions, not because of keys, most in topic ")
    assert facts["Do first"].startswith("set linger.ms=5 on producers of ")
    assert facts["Predicted"] == "share then 35.0 % [33.3, 36.7], enough to resolve it"


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        (("key", "no_key"), "producers send more to its partitions, not because of keys"),
        (
            ("other_keys", "no_key"),
            "its partitions get more than others of their topics",
        ),  # `keys: {mode: counts_only}`
        ((), "its partitions get more than others of their topics"),
    ],
)
def test_keys_that_are_not_stored_may_be_the_cause(tmp_path, kinds, said):
    """A mail said of a heavy key that it was not because of keys."""
    write_warehouse(tmp_path / "warehouse", windows=4, kinds=kinds)
    facts = read_page(render(gather(write_config(tmp_path), hours=4))).one("header").one("dl").all("div")
    (why,) = (pair.one("dd").text for pair in facts if pair.one("dt").text == "Why")
    assert why.startswith(said)


def test_a_heavy_key_is_named_where_others_are_not_stored(tmp_path):
    """There were more keys than memory holds: a mail told that partitions get more, and not of the key that is known."""
    write_warehouse(tmp_path / "warehouse", windows=4, kinds=("key", "other_keys"))
    shares = DeltaTable(tmp_path / "warehouse" / "gold" / "broker_share")
    shares.update(updates={"heavy_keys_term": "0.15", "remainder_term": "0.02"})
    report = gather(write_config(tmp_path), hours=4)
    assert dict(report.status.facts)["Why"].startswith("its partitions hold heavy keys")


def test_before_the_incident_nothing_is_wrong(config):
    report = gather(config, hours=3)
    assert (report.status.tone, report.status.badge, report.status.headline) == ("calm", "OK", "Nothing is wrong")
    assert report.window == "2026-11-21 02:00 to 03:00 UTC"


@pytest.mark.parametrize(
    ("verdict", "why"),
    [
        (None, "it was measured and not judged: run it again"),
        ("not_enough_traffic", "no traffic in this window"),
        ("incomplete", "not judged: live_cluster brought 2 of 3"),
    ],
)
def test_a_window_that_was_not_judged_is_not_called_well(tmp_path, verdict, why):
    """A run that died between measures and verdicts, a silent window, a source that lacks something."""
    write_warehouse(tmp_path / "warehouse", windows=6)
    config = write_config(tmp_path)
    (run,) = plan_runs(config, TimeWindow(T0_MS + HOUR_MS, T0_MS + 2 * HOUR_MS), run_id="r", now_ms=T0_MS)
    of_broker = {"rule": "broker_share", "subject": "broker 1", "limit_value": 1.2, "is_above": False, "above_count": 0}
    row = {"window_start": instant_of(run.windows[0].start_ms), "verdict": verdict, "reason": why, **of_broker}
    run.replace(VERDICTS, [] if verdict is None else [row], run.windows)
    status = gather(config, hours=2).status
    assert (status.tone, status.badge, dict(status.facts)["Why"]) == ("unknown", "UNKNOWN", why)


def test_a_broker_above_its_limit_before_the_incident_is_named(config):
    status = gather(config, hours=5).status
    assert (status.tone, status.badge) == ("calm", "OK")
    assert status.headline == "No incident, but above the limit in this window: broker 1"
    assert dict(status.facts)["Broker 1"] == "50.0% of the bytes"


def test_an_incident_that_only_hash_luck_ended_is_not_said_to_have_been_none(tmp_path):
    write_warehouse(tmp_path / "warehouse", windows=6)
    config = write_config(tmp_path)
    (run,) = plan_runs(config, TimeWindow(T0_MS + 2 * HOUR_MS, T0_MS + 3 * HOUR_MS), run_id="r", now_ms=T0_MS)
    start = {"window_start": instant_of(run.windows[0].start_ms), "rule": "broker_share", "subject": "broker 1"}
    verdict = {"verdict": "warn", "reason": "by chance", "is_above": False, "above_count": 0}
    run.replace(VERDICTS, [{**start, **verdict, "value": 1.5, "limit_value": 1.2}], run.windows)
    told = {"incident_id": "K-1", "state": "withdrawn", "since": instant_of(T0_MS), "window_count": 3}
    run.replace(INCIDENTS, [{**start, **told, "value": 1.5, "peak_value": 1.5, "limit_value": 1.2}], run.windows)
    since = dict(gather(config, hours=3).status.facts)["Since"]
    excused = "withdrawn: it is above the limit by hash luck alone, which gate.hash_luck excuses"
    assert since == f"2026-11-21 03:00 UTC, when incident K-1 was {excused}"


@pytest.mark.parametrize(
    ("state", "value", "said"),
    [
        ("resolved", 1.0, "resolved"),
        ("withdrawn", 1.0, "withdrawn: by the windows and limits known now there was no incident"),
        ("withdrawn", None, "withdrawn: no window of its subject is judged any more"),
    ],
)
def test_how_the_last_incident_ended_is_said_as_the_mail_says_it(tmp_path, state, value, said):
    write_warehouse(tmp_path / "warehouse", windows=6)
    config = write_config(tmp_path)
    (run,) = plan_runs(config, TimeWindow(T0_MS, T0_MS + 2 * HOUR_MS), run_id="r", now_ms=T0_MS)
    at_ms = T0_MS + HOUR_MS  # an end may lie in the window of a message that left
    changes = [new_change("new", T0_MS), new_change("worse", at_ms), new_change(state, at_ms, value=value)]
    run.replace(INCIDENTS, changes, run.windows)
    since = dict(gather(config, hours=2).status.facts)["Since"]
    assert since == f"2026-11-21 02:00 UTC, when incident K-1 was {said}"


def test_an_incident_of_a_disk_is_shown_with_the_fewest_hours_that_were_left(tmp_path):
    write_warehouse(tmp_path / "warehouse")
    of = {"rule": "disk_hours_to_full", "subject": "broker 1", "incident_id": "K-DISK", "limit_value": 48.0}
    hours = pl.DataFrame(
        {"window_start": [instant_of(T0_MS + at * HOUR_MS) for at in (3, 5)], "state": ["new", "worse"]}
    )
    since = pl.lit(instant_of(T0_MS + 3 * HOUR_MS))
    write_rows(
        tmp_path / "warehouse",
        "gold.incidents",
        hours.with_columns(
            **{name: pl.lit(value) for name, value in of.items()}, since=since, peak_value=pl.Series([40.0, 2.0])
        ),
    )
    text = render(gather(write_config(tmp_path)))
    assert "at most 2 h" in text
    assert "at most 40 h" not in text


def test_every_chart_has_its_statement_and_its_numbers(page):
    charts = {element.attributes["data-chart"] for element in page.all() if "data-chart" in element.attributes}
    answers = read_answers(page)
    assert charts - set(answers) == set()
    assert len(answers) >= 17
    empty = {name for name, (_, _, rows) in answers.items() if not rows}
    assert empty == set()
    assert all(sql.startswith("SELECT") and sql.endswith(";") for sql, _, _ in answers.values())


def test_bars_are_as_long_as_their_numbers(page):
    chart = page.one("article", data_chart="shares")
    _, columns, rows = read_answers(chart)["shares"]
    drawn = {row.one("th").text.strip(): row for row in chart.one("table", class_="rows").one("tbody").all("tr")}
    scales = set()
    for row in rows:
        known = dict(zip(columns, row, strict=True))
        marks = drawn[f"broker {known['broker_id']}"].one("svg")
        (bar,) = [m for m in marks.all("rect") if m.attributes["class"] in {"bar", "hot"}]
        fair, limit = (float(marks.one("line", class_=name).attributes["x1"][:-1]) for name in ("fair", "limit"))
        scales.add(round(float(bar.attributes["width"][:-1]) / float(known["share"]), 1))
        scales.add(round(fair / float(known["expected_share"]), 1))
        scales.add(round(limit / float(known["expected_share"]) / float(known["limit_value"]), 1))
    assert len(scales) == 1


def test_the_three_terms_lead_from_the_fair_share_to_the_share(page):
    chart = page.one("article", data_chart="causes")
    fair, *steps, share = chart.one("tbody").all("tr")
    ends = [edges(row) for row in steps[:3]]
    at = edges(fair)[1]
    for low, high in ends:
        assert min(abs(at - low), abs(at - high)) < 0.01
        at = high if abs(at - low) < abs(at - high) else low
    assert at == pytest.approx(edges(share)[1], abs=0.01)
    assert "33.33 + 1.00 \N{MINUS SIGN} 2.00 + 17.67 = 50.00 %" in chart.text


def edges(row):
    mark = row.one("rect").attributes
    at, width = float(mark["x"][:-1]), float(mark["width"][:-1])
    return at, at + width


def test_of_many_brokers_each_has_a_strip_in_the_range_of_all(tmp_path):
    write_warehouse(tmp_path / "warehouse", brokers=14, hot=3)
    page = read_page(render(gather(write_config(tmp_path))))
    _, columns, rows = read_answers(page)["share_lines"]
    chart = page.one("article", data_chart="share_lines")
    strips = [strip for strip in chart.all("div", class_="strip-row") if strip.attributes["class"] == "strip-row"]
    assert [strip.one("b").text for strip in strips] == [name.replace("_", " ") for name in columns[1:13]]
    assert columns[1] == "broker_3"
    assert columns[13:] == ["lowest", "highest"]
    fair, hot = 1 / 14, 1.5 / 14
    assert [float(row[-1]) for row in rows] == pytest.approx([fair] * 3 + [hot] * 3, rel=1e-5)
    assert [float(row[-2]) for row in rows] == pytest.approx([fair] * 3 + [fair * (1 - 0.5 / 13)] * 3, rel=1e-5)
    path = strips[0].one("path", class_="line").attributes["d"]
    assert "hot" in strips[0].one("path", class_="line").attributes["class"]
    heights = [float(place) for place in re.findall(r"[ML][\d.]+ ([\d.]+)", path)][1:]
    low, top = fair * (1 - 0.5 / 13), hot * 1.06
    assert heights == pytest.approx([100 * (top - share) / (top - low) for share in [fair] * 3 + [hot] * 3], abs=0.01)
    assert strips[0].one("small").text == "11 %, at most 11 %"
    band = chart.one("path", class_="band")
    assert {use.attributes["href"] for use in chart.all("use")} == {f"#{band.attributes['id']}"}
    edges = re.findall(r"M[\d.]+ ([\d.]+)H[\d.]+V([\d.]+)H[\d.]+Z", band.attributes["d"])
    assert edges[-1] == (f"{heights[-1]:.2f}", "100.00")


def test_the_heat_map_has_every_partition_and_frames_the_brokers_own(page):
    chart = page.one("article", data_chart="partitions")
    cells = list(chart.one("div", class_="heat").all("i"))
    assert len(cells) == len(HOSTILE) * 6
    assert all(("own" in cell.attributes["class"].split()) == (cell.text == "1") for cell in cells)


def test_no_name_becomes_markup(config):
    html = render(gather(config))
    page = read_page(html)
    assert len(list(page.all("script"))) == 1
    attributes = {name for element in page.all() for name in element.attributes}
    assert not {name for name in attributes if name.startswith("on")} | attributes & {"style", "src", "srcdoc", "href"}
    assert HOSTILE[0] in page.text  # it is shown, as text
    assert "\u202e" not in page.one("header").text


def test_a_forecast_that_is_not_trusted_is_no_figure_of_the_report(tmp_path):
    """The highest of the next seven days was told of all forecasts, also of those whose back-test failed."""
    config = write_config(tmp_path)
    write_warehouse(config.warehouse)
    told = {"subject": ["broker 0", "broker 1"], "value": [1.1, 3.0], "is_trusted": [True, False]}
    rows = pl.DataFrame(told).with_columns(
        window_start=pl.lit(instant_of(T0_MS + 5 * HOUR_MS)), measure=pl.lit("share_ratio")
    )
    write_rows(config.warehouse, "gold.forecast", rows)
    says = next(one.says for section in gather(config).sections for one in section.rows if one.answer.name == "room")
    assert "the next seven days is broker 0 at 1.10x" in says


def test_data_docs_are_linked_where_there_are_some(config):
    assert not list(read_page(render(gather(config))).all("a"))
    index = config.data_docs_index(CLUSTER)
    index.parent.mkdir(parents=True)
    index.touch()
    link = read_page(render(gather(config))).one("section", id="quality-1").one("a")
    assert config.report_path(CLUSTER, T0_MS).parent / link.attributes["href"] == index
    shutil.rmtree(index.parent)


def test_the_policy_allows_the_pages_own_style_and_script_alone(page):
    policy = page.one("meta", http_equiv="Content-Security-Policy").attributes["content"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    for tag in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(page.one(tag).text.encode()).digest()).decode()
        assert rules[f"{tag}-src"] == f"'sha256-{digest}'"


def test_the_same_tables_give_the_same_page(config):
    assert render(gather(config)) == render(gather(config))


def test_a_page_of_two_clusters_has_no_id_twice(config):
    report = gather(config)
    ids = re.findall(r' id="([^"]+)"', render(report, report))
    assert len(ids) == len(set(ids)) > 2


def test_the_configured_cluster_is_asked_for(config):
    assert f"cluster = '{CLUSTER}'" in render(gather(config)).replace("&#39;", "'")


@pytest.mark.parametrize(("rank", "is_enough", "is_marked"), [(1, True, True), (1, False, False), (2, True, False)])
def test_only_the_best_action_is_marked_and_only_where_it_is_enough(rank, is_enough, is_marked):
    assert ADVICE.is_marked({"rank": rank, "is_enough": is_enough}) is is_marked


@pytest.mark.parametrize(("arrived", "expected", "is_marked"), [(2, 2, False), (1, 2, True), (1, 0, False)])
def test_sources_that_lack_something_are_marked(arrived, expected, is_marked):
    assert SOURCES.is_marked({"arrived_count": arrived, "expected_count": expected}) is is_marked
