"""Great Expectations' Data Docs in a real browser: no name acts, nothing is fetched, every text is legible.

Oracles: Chromium's layout, its console and its requests, WCAG's contrast, axe-core.
"""

import pytest

from tests.gates.data_docs import write_pages
from tests.lab.browser import CONTRASTS, LEAST_CONTRAST, find_chromium

pytestmark = pytest.mark.skipif(find_chromium() is None, reason="no Chromium here: apt-get install chromium")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pages(tmp_path_factory.mktemp("docs"))


@pytest.mark.parametrize(("width", "look"), [(1440, "light"), (380, "dark")])
def test_no_name_acts_nothing_is_fetched_and_all_can_be_read(width, look, browser, folder):
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=look)
    page = context.new_page()
    said, asked = [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    pages = sorted(folder.glob("*.html"))
    for path in pages:
        page.goto(path.as_uri(), wait_until="load")
        assert "pwned" not in page.title().replace("document.title='pwned'", "")  # the cluster's name
        assert page.evaluate("document.scripts.length + document.images.length") == 0
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path.name
        faint = [(ratio, text) for ratio, text in page.evaluate(CONTRASTS) if ratio < LEAST_CONTRAST]
        assert faint == [], path.name
    assert asked == [path.as_uri() for path in pages]
    assert said == []
    context.close()


def test_axe_finds_no_violation(browser, folder, axe):
    context = browser.new_context(viewport={"width": 380, "height": 900}, color_scheme="dark", bypass_csp=True)
    page = context.new_page()
    for path in sorted(folder.glob("*.html")):
        page.goto(path.as_uri(), wait_until="load")
        assert axe(page) == [], path.name
    context.close()


def test_the_policy_stops_a_script_that_got_in(browser, folder, tmp_path):
    html = (folder / "health_gate.html").read_text()
    acts = "document.title='pwned'"
    bait = f'<script>{acts}</script><img src=x onerror={acts}><a id="bait" href="javascript:{acts}">bait</a><main>'
    (tmp_path / "page.html").write_text(html.replace("<main>", bait))
    page = browser.new_page()
    said = []
    page.on("console", lambda message: said.append(message.text))
    page.goto((tmp_path / "page.html").as_uri(), wait_until="load")
    page.click("#bait")
    assert page.title().startswith("FAIL health_gate")
    assert sum("Content Security Policy" in text for text in said) >= 2
    page.close()
