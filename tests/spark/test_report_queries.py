"""Numbers read out of the report are those that Spark gives for the statement next to them, for every chart.

Oracle: Spark SQL on the tables by name; the report itself asks DataFusion.
"""

import re
from pathlib import Path

import pytest

from pipeline.model.number_text import format_cell
from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow
from pipeline.report.page import gather_report, render_report
from pipeline.runs import plan_runs
from pipeline.storage.catalog import register_tables
from pipeline.tables import TABLES
from tests.report_page import read_answers, read_page
from tests.report_tables import T0_MS, write_config, write_warehouse

QUESTIONS = "".join(page.read_text() for page in sorted(Path(__file__).parents[2].glob("docs/questions/*.md")))
NAMES = ("orders", 'it\'s \\a "topic"', "<script>alert(1)</script>")
CHARTS = {
    "verdicts", "incidents", "judged", "shares", "share_lines", "causes", "topics", "partitions", "hot_partitions", "hot_keys", "latency",
    "latency_lines", "room", "waiting", "advice", "promises", "replay", "back_tests", "sources", "abstentions", "quarantine",
    "zones",
}  # fmt: skip  # names, several a line


@pytest.fixture(scope="module")
def answers(tmp_path_factory, classic):
    folder = tmp_path_factory.mktemp("report")
    write_warehouse(folder / "warehouse", topics=NAMES, client=NAMES[1])
    end_ms = T0_MS + 6 * HOUR_MS
    (run,) = plan_runs(write_config(folder), TimeWindow(end_ms - HOUR_MS, end_ms), run_id="r", now_ms=end_ms)
    report = gather_report(run, until_ms=end_ms, length_ms=DAY_MS)
    answers = read_answers(read_page(render_report([report], now_ms=end_ms, command="sql")))
    asked = " ".join(sql for sql, _, _ in answers.values())
    asked += QUESTIONS
    register_tables(classic, folder / "warehouse", [table for table in TABLES if table.name in asked])
    return answers


def test_every_chart_is_compared(answers):
    assert set(answers) == CHARTS


@pytest.mark.parametrize("statement", re.findall(r"```sql\n(.*?)```", QUESTIONS, re.DOTALL))
def test_the_statements_of_the_questions_run(statement, answers, classic):
    assert answers
    assert classic.sql(statement).count() > 0


@pytest.mark.parametrize("chart", sorted(CHARTS))
def test_a_chart_shows_what_its_statement_gives_in_spark(chart, answers, classic):
    sql, columns, rows = answers[chart]
    found = classic.sql(sql.removesuffix(";")).toArrow()
    assert columns == found.column_names
    assert rows
    assert rows == [[format_cell(row[name]) for name in columns] for row in found.to_pylist()]
