"""The report as people see it, in a real browser: nothing sticks out, every text is legible, no name acts.

The page holds names that would act if anything let them. Oracles: Chromium's layout, its console, WCAG's contrast, axe-core.
"""

import pytest

from pipeline.model.window import DAY_MS, HOUR_MS, TimeWindow
from pipeline.report.page import gather_report, render_report
from pipeline.runs import plan_runs
from tests.lab.browser import CONTRASTS, LEAST_CONTRAST, find_chromium
from tests.report_page import read_answers, read_page
from tests.report_tables import CLUSTER, T0_MS, write_config, write_warehouse

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium here: apt-get install chromium")

WIDTHS = (1440, 768, 380)
LOOKS = ("light", "dark", "print")
ACTS = "document.title='pwned'"
HOSTILE = (
    f"<script>{ACTS}</script>",
    f'"><img src=x onerror={ACTS}>',
    f"javascript:{ACTS}",
    f"</style></title><svg onload={ACTS}>",
    "W" * 200,
    "orders",
)
OVERFLOWING = """() => [...document.querySelectorAll('body *')]
  .filter(node => !node.closest('.wide, .hidden, thead') && node.getBoundingClientRect().width)
  .filter(node => node.getBoundingClientRect().right > innerWidth + 0.5
    || node instanceof HTMLElement && node.scrollWidth > node.clientWidth + 1
      && /block|grid|flex/.test(getComputedStyle(node).display) && !node.querySelector('svg'))
  .map(node => node.outerHTML.slice(0, 200))"""
"""What sticks out of the page or of its own box; tables of numbers scroll within theirs, and marks reach over a plot's edge."""


@pytest.fixture(scope="module")
def html(tmp_path_factory):
    return write_html(tmp_path_factory.mktemp("report"), brokers=3)


def write_html(folder, brokers):
    write_warehouse(folder / "warehouse", topics=HOSTILE, client=HOSTILE[1], key=HOSTILE[0], brokers=brokers)
    end_ms = T0_MS + 6 * HOUR_MS
    config = write_config(folder)
    config.data_docs_index(CLUSTER).parent.mkdir(parents=True)
    config.data_docs_index(CLUSTER).touch()  # the page links it then
    (run,) = plan_runs(config, TimeWindow(end_ms - HOUR_MS, end_ms), run_id="r", now_ms=end_ms)
    report = gather_report(run, until_ms=end_ms, length_ms=DAY_MS)
    return render_report([report], now_ms=end_ms, command="partition-health sql")


@pytest.fixture
def open_page(browser, html):
    """Opens the report in a fresh context; `said` gathers what the console and the network were asked."""
    contexts = []

    def open_it(width=1440, look="light", *, scripts=True, bypass_csp=False):
        scheme = "dark" if look == "dark" else "light"
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            offline=True,
            java_script_enabled=scripts,
            bypass_csp=bypass_csp,
        )
        contexts.append(context)
        page = context.new_page()
        page.emulate_media(media="print" if look == "print" else "screen", color_scheme=scheme)
        said = []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url))
        page.on("dialog", lambda dialog: said.append(dialog.message))
        page.set_content(html, wait_until="load")
        return page, said

    yield open_it
    for context in contexts:
        context.close()


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("width", WIDTHS)
def test_the_report_fits_and_can_be_read(width, look, open_page):
    page, said = open_page(width, look)
    page.evaluate("() => document.querySelectorAll('details').forEach(node => { node.open = true })")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []
    faint = [(ratio, text) for ratio, text in page.evaluate(CONTRASTS) if ratio < LEAST_CONTRAST]
    assert faint == []
    assert said == []
    assert "pwned" not in page.title()


@pytest.mark.parametrize("width", WIDTHS)
def test_strips_of_many_brokers_fit_and_can_be_read(width, open_page, tmp_path):
    page, said = open_page(width)
    page.set_content(write_html(tmp_path, brokers=14), wait_until="load")
    assert page.locator("[data-chart=share_lines] .strip-row path.line").count() == 12
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERFLOWING) == []
    assert [text for ratio, text in page.evaluate(CONTRASTS) if ratio < LEAST_CONTRAST] == []
    assert said == []


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("width", WIDTHS)
def test_axe_finds_no_violation(width, look, open_page, axe):
    page, _ = open_page(width, look, bypass_csp=True)
    page.evaluate("() => document.querySelectorAll('details').forEach(node => { node.open = true })")
    assert axe(page) == []


def test_no_name_acts_and_nothing_is_fetched(open_page):
    page, said = open_page()
    assert page.evaluate("document.scripts.length") == 1
    assert page.evaluate("document.images.length") == 0
    assert page.title() == "FAIL demo · partition health"
    assert said == []


def test_the_policy_stops_a_script_that_got_in(open_page):
    page, said = open_page()
    page.evaluate(
        "() => { const a = document.createElement('p'); a.setAttribute('onclick', \"document.title='pwned'\"); "
        "a.id = 'bait'; a.textContent = 'bait'; document.body.append(a) }"
    )
    page.click("#bait")
    assert page.title() != "pwned"
    assert any("Content Security Policy" in text for text in said)


def test_the_filter_keeps_the_topics_asked_for(open_page):
    page, _ = open_page()
    page.fill("input[type=search]", "orders")
    shown = page.locator(".heat .topic:visible")
    assert shown.count() == 1
    assert shown.first.inner_text().startswith("orders")
    page.fill("input[type=search]", "")
    assert page.locator(".heat .topic:visible").count() == len(HOSTILE)


def test_numbers_sort_by_the_column_that_is_clicked(open_page, html):
    page, _ = open_page()
    _, columns, rows = read_answers(read_page(html))["partitions"]
    details = page.locator("details[data-answer=partitions]")
    details.locator("summary").click()
    for order, falls in (("descending", True), ("ascending", False)):
        details.locator("th button", has_text="size_bytes").click()
        shown = [
            int(text) for text in details.locator(f"td:nth-child({columns.index('size_bytes') + 1})").all_inner_texts()
        ]
        assert shown == sorted((int(row[columns.index("size_bytes")]) for row in rows), reverse=falls)
        assert details.locator(f"th[aria-sort={order}]").inner_text().startswith("size_bytes")


def test_without_script_everything_is_there(open_page):
    page, _ = open_page(scripts=False)
    assert not page.locator(".filter").is_visible()
    page.locator("details[data-answer=shares] summary").click()
    assert page.locator("details[data-answer=shares] tbody tr").count() == 3
