"""Mails as a browser shows them: the HTML part with its pictures, in the system's Chromium.

`python -m tests.lab.browser FOLDER MAIL.eml… REPORT.html…` writes screenshots: of mails at two widths, light and dark; of a report
its first screen on a desk, light, and on a phone, dark, and the charts that answer a question each.
"""

import base64
import contextlib
import shutil
import sys
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import sync_playwright

from tests.lab.process import PATIENCE_S

WIDTHS = (600, 380)
SCHEMES = ("light", "dark")
REPORT_CHARTS = {"causes": "causes", "replay": "replay", "back_tests": "back-tests", "sources": "sources"}
"""File names of charts in `docs/questions`."""
MOST_CHART_PX = 405
REPORT_SCREENS = (
    (1440, 1000, "light"),
    (1200, 1500, "light"),
    (768, 1000, "dark"),
    (768, 1000, "print"),
    (380, 1100, "dark"),
)
LEAST_CONTRAST = 4.5
"""WCAG 2.1, level AA, for text of any size."""
_HEIGHT = 900
CONTRASTS = """() => {
  const luminance = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const colour = text => text.match(/[\\d.]+/g).map(Number);
  const background = node => {
    for (let at = node; at; at = at.parentElement) {
      const found = colour(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] > 0) return found;
    }
    return [255, 255, 255];
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const said = texts.currentNode.textContent.trim();
    const box = node.getBoundingClientRect();
    if (!said || !box.width || !box.height) continue;
    const [one, two] = [luminance(colour(getComputedStyle(node).color)), luminance(background(node))];
    found.push([(Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05), said]);
  }
  return found;
}"""
_OUTSIDE = """() => [...document.querySelectorAll('body *')]
  .filter(node => node.getBoundingClientRect().right > innerWidth + 0.5).map(node => node.outerHTML.slice(0, 200))"""
_BROKEN = "() => [...document.images].filter(image => !image.naturalWidth).map(image => image.src.slice(0, 80))"


_ANSWERS_END = """() => [...document.querySelectorAll('table.brief tr')].slice(0, -1)
  .reduce((end, row) => Math.max(end, row.getBoundingClientRect().bottom), 0)"""


def find_chromium():
    """Path of the system's Chromium, or None."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )


class Shown(NamedTuple):
    """What a browser made of a mail.

    Attributes:
        outside: Elements that stick out to the right.
        broken: Pictures that did not load.
        contrasts: (contrast, text) of every visible text.
        text: Everything visible.
        answers_end_px: Where the last answer of the brief ends, before where the details are; 0 without a brief.
    """

    outside: list[str]
    broken: list[str]
    contrasts: list[tuple[float, str]]
    text: str
    answers_end_px: float


def html_with_pictures(payload):
    """The HTML part of a mail, its inline pictures put into it."""
    mail = message_from_bytes(payload, policy=default)
    html = mail.get_body(("html",)).get_content()
    for part in mail.walk():
        if part.get_content_maintype() == "image":
            data = base64.b64encode(part.get_content()).decode("ascii")
            html = html.replace(f"cid:{part['Content-ID'].strip('<>')}", f"data:image/png;base64,{data}")
    return html


@contextlib.contextmanager
def running_chromium():
    """The system's Chromium, without a window."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-dev-shm-usage"], timeout=PATIENCE_S * 1000
        )
        browser.on("context", lambda context: context.set_default_timeout(PATIENCE_S * 1000))
        yield browser
        browser.close()


@contextlib.contextmanager
def running_browser():
    """Yields `show(payload, width, scheme, screenshot=None) -> Shown`. No page reaches the network."""
    with running_chromium() as browser:

        def show(payload, width, scheme, screenshot=None):
            context = browser.new_context(
                viewport={"width": width, "height": _HEIGHT},
                color_scheme=scheme,
                offline=True,
                java_script_enabled=True,
            )
            try:
                page = context.new_page()
                page.set_content(html_with_pictures(payload), wait_until="load")
                if screenshot is not None:
                    page.screenshot(path=screenshot, full_page=True)
                return Shown(
                    outside=page.evaluate(_OUTSIDE),
                    broken=page.evaluate(_BROKEN),
                    contrasts=[tuple(found) for found in page.evaluate(CONTRASTS)],
                    text=page.inner_text("body"),
                    answers_end_px=page.evaluate(_ANSWERS_END),
                )
            finally:
                context.close()

        yield show


def write_report_screenshots(folder, path):
    """Writes `<report>-<width>-<scheme>.png` of what a person sees first."""
    with running_chromium() as browser:
        for width, height, scheme in REPORT_SCREENS:
            look = {"media": "print"} if scheme == "print" else {"color_scheme": scheme}
            page = browser.new_page(viewport={"width": width, "height": height})
            page.emulate_media(**look)
            page.goto(path.resolve().as_uri(), wait_until="load")
            page.screenshot(path=folder / f"{path.stem}-{width}-{scheme}.png")
        page = browser.new_page(viewport={"width": 1000, "height": 900})
        page.goto(path.resolve().as_uri(), wait_until="load")
        for chart, name in REPORT_CHARTS.items():
            box = page.locator(f"article[data-chart={chart}]").bounding_box()
            clip = box | {"height": min(box["height"], MOST_CHART_PX)}
            page.screenshot(path=folder / f"{path.stem}-{name}.png", clip=clip, full_page=True)


def write_screenshots(folder, paths):
    """Writes `<mail>-<width>-<scheme>.png` for each mail, and those of reports."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in [path for path in paths if path.suffix == ".html"]:
        write_report_screenshots(folder, path)
    mails = [path for path in paths if path.suffix != ".html"]
    with running_browser() as show:
        for path in mails:
            for width in WIDTHS:
                for scheme in SCHEMES:
                    show(path.read_bytes(), width, scheme, folder / f"{path.stem}-{width}-{scheme}.png")


if __name__ == "__main__":
    write_screenshots(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]])
