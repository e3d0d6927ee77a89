"""The page in a real browser: Chromium, without a network."""

import os
import shutil
from pathlib import Path

import pytest

from mgnni.html_report.page import write_page
from mgnni.train.fit import fit
from train.cases import graph_task

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
if CHROMIUM is None:
    pytest.skip("no Chromium found; install it, or set CHROMIUM=PATH", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")

OPEN_ALL = "document.querySelectorAll('.fold').forEach(part => { part.open = true; })"
PRINT = "dispatchEvent(new Event('beforeprint'))"
DRAW_ALL = f"{PRINT}; dispatchEvent(new Event('afterprint'))"
FIGURE = "document.querySelector('.main-svg').clientWidth"  # the first figure
# Marks that were drawn: points, line segments, bars, and the image of a heat map.
DRAWN = """plot => plot.querySelectorAll('.points path, .js-line, .hm image').length"""
TICKS = "getComputedStyle(document.querySelector('.plot .xtick text')).fill"  # their colour
CONTRAST = """() => {
  const part = (c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const lum = ([r, g, b]) => .2126 * part(r / 255) + .7152 * part(g / 255) + .0722 * part(b / 255);
  const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (!colour.endsWith(', 0)')) return rgb(colour);
    }
    return [255, 255, 255];
  };
  let worst = 21;
  const texts = 'h1,h2,h3,h4,p,a,th,td,dt,dd,code,caption,figcaption,summary';
  for (const e of document.querySelectorAll(texts)) {
    if (!e.offsetParent) continue;
    const [a, b] = [lum(rgb(getComputedStyle(e).color)), lum(behind(e))];
    worst = Math.min(worst, (Math.max(a, b) + .05) / (Math.min(a, b) + .05));
  }
  return worst;
}"""


# Numbers of an axis that lie on its title, or are cut off.
OVERLAPS = """plot => {
  const box = (e) => e.getBoundingClientRect(), frame = box(plot);
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom
    && b.top < a.bottom;
  const ticks = [...plot.querySelectorAll('.xtick text')];
  const titles = [...plot.querySelectorAll('.xtitle')];
  const wrong = (tick) => box(tick).right > frame.right + 1
    || titles.some((title) => meet(box(title), box(tick)));
  return ticks.filter(wrong).map((tick) => tick.textContent);
}"""


@pytest.fixture(scope="module")
def page_file(trainings: Path, stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    few = {"hidden_channels": 4, "epochs": 2, "device": "cpu"}
    fit(graph_task(splits=1), model="auto", output=folder / "chosen", **few)
    found = [trainings, stored / "results", folder / "chosen"]
    write_page(found, folder / "report.html", stored / "experiments")
    return folder / "report.html"


def eventually(page, expression, value):
    """Whether an expression has a value within some seconds.

    The page forbids ``eval``, which waiting functions of Playwright use.
    """
    for _ in range(100):
        if page.evaluate(expression) == value:
            return True
        page.wait_for_timeout(100)
    return False


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield launched
        launched.close()


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_complete_in_a_browser(browser, page_file, width, scheme):
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    requests, problems = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(page_file.as_uri())
    page.evaluate(OPEN_ALL)
    page.evaluate(DRAW_ALL)
    plots = page.query_selector_all(".plot")
    assert len(plots) > 10
    undrawn = "document.querySelectorAll('.plot:not(:has(.main-svg))').length"
    assert eventually(page, undrawn, 0)
    for plot in plots:
        name = plot.get_attribute("aria-label")
        assert plot.evaluate(DRAWN) > 0, name
        assert plot.evaluate(OVERLAPS) == [], name
        if name.startswith(("Classes", "Calibration")):
            assert "100" in plot.eval_on_selector_all(
                ".xtick", "all => all.map(e => e.textContent)"
            )
        if name.startswith("Certified errors"):
            assert len(plot.query_selector_all(".xtick")) > 1
        if name.startswith("Confusion matrix"):
            assert len(plot.query_selector_all(".annotation")) in (4, 9)  # the counts
    assert page.get_by_text("Models compared for").first.is_visible()
    # No part of the page is wider than the window; wide tables scroll on their own.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(18, 23, 30)")
    text = page.evaluate(TICKS)
    assert text == ("rgb(27, 36, 48)" if scheme == "light" else "rgb(231, 236, 242)")
    assert page.evaluate(CONTRAST) >= 4.5
    assert requests == [page_file.as_uri()]
    assert problems == []
    context.close()


def test_scores_are_visible_on_a_narrow_screen(browser, page_file):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(page_file.as_uri())
    score = page.query_selector("#overview tbody td:nth-child(3)").bounding_box()
    assert score["x"] + score["width"] <= 390
    assert page.evaluate("document.querySelector('pre').scrollWidth") <= 390  # lines are wrapped
    page.close()


def test_a_browser_that_cannot_draw_says_so(browser, page_file):
    page = browser.new_page()
    page.add_init_script("delete window.DecompressionStream")
    page.goto(page_file.as_uri())
    assert eventually(page, "document.getElementById('no-figures').hidden", False)
    page.close()


def test_figures_follow_a_change_of_the_colour_scheme(browser, page_file):
    page = browser.new_page(color_scheme="light")
    page.goto(page_file.as_uri())
    page.evaluate(OPEN_ALL)
    page.wait_for_selector(".plot .xtick text")
    page.emulate_media(color_scheme="dark")
    assert eventually(page, TICKS, "rgb(231, 236, 242)")
    page.close()


def test_the_page_can_be_used_with_a_keyboard(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.focus("summary")
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('details').open")
    page.close()


def test_a_link_opens_the_closed_parts_around_its_target(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    links = page.query_selector_all("#overview td a")
    target = links[-1].get_attribute("href")
    assert page.query_selector(target).is_hidden()
    links[-1].click()
    assert page.query_selector(target).is_visible()
    assert page.query_selector(links[0].get_attribute("href")).is_hidden()
    page.goto("about:blank")
    page.goto(page_file.as_uri() + target)  # a link from elsewhere
    assert page.query_selector(target).is_visible()
    page.close()


def test_dark_figures_are_printed_light_and_fit_on_paper(browser, page_file):
    page = browser.new_page(color_scheme="dark", viewport={"width": 1280, "height": 900})
    page.goto(page_file.as_uri())
    page.evaluate(OPEN_ALL)
    page.wait_for_selector(".plot .xtick text")
    wide = page.evaluate(FIGURE)
    page.evaluate(PRINT)
    assert eventually(page, TICKS, "rgb(27, 36, 48)")
    assert page.evaluate(FIGURE) <= 640 < wide
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert eventually(page, TICKS, "rgb(231, 236, 242)")
    assert page.evaluate(FIGURE) == wide
    page.emulate_media(media="print")  # and tables are not cut off
    cut = "getComputedStyle(document.querySelector('.scroll')).overflow"
    assert page.evaluate(cut) == "visible"
    page.close()


def test_captions_are_not_cut_off_on_a_narrow_screen(browser, page_file):
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(page_file.as_uri())
    page.evaluate(OPEN_ALL)
    ends = """[...document.querySelectorAll('caption')].map(caption => {
      const text = document.createRange();
      text.selectNodeContents(caption);
      return text.getBoundingClientRect().right;
    })"""
    assert max(page.evaluate(ends)) <= 390
    page.close()


def test_closed_parts_are_not_printed(browser, page_file):
    page = browser.new_page()
    page.goto(page_file.as_uri())
    page.evaluate(DRAW_ALL)
    page.query_selector(".fold summary").click()
    drawn = "document.querySelectorAll('.fold[open] .main-svg').length > 0"
    assert eventually(page, drawn, True)
    assert page.query_selector(".fold:not([open]) .main-svg") is None
    page.close()
