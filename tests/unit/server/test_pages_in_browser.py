"""The pages in a real browser: keys are enough, all is legible in any light and width, nothing is from elsewhere."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from rest_client import RestClient, served

import icecore
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.page import log_page
from icecore.projections.inspect.log_table import log_lines

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EVIL = "<script>alert('x')</script>"
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")
PATHS = (
    *("/", "/tables", "/findings", "/sql?q=SELECT+*+FROM+files", "/sql?q=nonsense"),
    *("/tables/ns/t", "/tables/ns/t/plan?filter=id+%3D+1", "/tables/ns/t/blame?of=column&value=id"),
    "/tables/ns/t/findings",
)
pytestmark = pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")

PALE_TEXTS = """() => {
  const pixel = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => {
    pixel.clearRect(0, 0, 1, 1); pixel.fillStyle = colour; pixel.fillRect(0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data];
  };
  const part = (v) => v / 255 <= .03928 ? v / 255 / 12.92 : ((v / 255 + .055) / 1.055) ** 2.4;
  const light = (colour) => { const [r, g, b] = rgba(colour).map(part); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = (e) => {
    for (; e; e = e.parentElement) {
      const colour = getComputedStyle(e).backgroundColor;
      if (rgba(colour)[3] === 255) return colour;
    }
    return 'Canvas';
  };
  const isText = (e) => [...e.childNodes].some((c) => c.nodeType === 3 && c.data.trim());
  const isShown = (e) => isText(e) && !e.closest('title, datalist, option');
  const all = [...document.querySelectorAll('body *')].filter(isShown);
  const contrast = (e) => {
    const style = getComputedStyle(e);
    const [low, high] = [e.ownerSVGElement ? style.fill : style.color, behind(e)].map(light).sort((a, b) => a - b);
    return (high + .05) / (low + .05);
  };
  return all.length < 5 ? ['nothing is shown'] : all.filter((e) => contrast(e) < 4.5).map((e) => e.outerHTML);
}"""
"""What has less contrast than WCAG's AA asks of text."""

UNNAMED = """() => [...document.querySelectorAll('input, select, textarea')].filter((e) => !e.labels.length)
  .concat([...document.querySelectorAll('nav, table, [role=region]')].filter((e) => !e.ariaLabel))
  .map((e) => e.outerHTML)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect.set_options(timeout=60_000)
    with playwright.sync_playwright() as browsers:
        started = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A table of two partitions, with deletes, a long unbroken name and a hostile one."""
    with icecore.open(tmp_path_factory.mktemp("pages") / "w", actor=EVIL) as catalog:
        catalog.create_namespace("ns")
        made = catalog.create_table(
            "ns.t",
            parse_schema(f"id long, day date, {'n' * 80} string"),
            partition_spec=["day"],
            properties={"write.delete.mode": "merge-on-read", "p" * 90: EVIL},
        )
        rows = [{"id": i, "day": dt.date(2024, 1, 1 + i % 2)} for i in range(6)]
        made.append(rows, message="m" * 120)
        made.delete("id = 3", message=EVIL)
        catalog.create_table(("ns", EVIL), parse_schema("id long")).append([{"id": 1}])
        yield catalog


@pytest.fixture(scope="module")
def rest(lake: icecore.Catalog) -> Iterator[RestClient]:
    with served(lake) as client:
        yield client


@pytest.mark.parametrize(("scheme", "width"), [("dark", 400), ("light", 1280)])
def test_everything_can_be_read(
    browser: Browser, rest: RestClient, scheme: Literal["dark", "light"], width: int
) -> None:
    """No page moves sideways or has pale text, fields without a label, or anything from elsewhere."""
    with _page(browser, rest, width, scheme) as page:
        for path in PATHS:
            page.goto(rest.uri + path)
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            assert page.evaluate(PALE_TEXTS) == [] and page.evaluate(UNNAMED) == [], path
            assert page.evaluate("['main', 'header', 'h1'].map((n) => document.querySelectorAll(n).length)") == [
                1,
                1,
                1,
            ]


def test_keys_are_enough(browser: Browser, rest: RestClient) -> None:
    """From the top over the skip link to a table, its plan by a typed filter, and the blame of a file."""
    from playwright.sync_api import expect

    with _page(browser, rest, 1280, "light") as page:
        page.goto(f"{rest.uri}/tables")
        page.keyboard.press("Tab")
        assert (
            page.evaluate("document.activeElement.getBoundingClientRect().top >= 0 && document.activeElement.hash")
            == "#content"
        )
        page.keyboard.press("Enter")
        page.keyboard.press("/")
        page.keyboard.type("ns.t")
        expect(page.locator("output")).to_have_text("1 of 2")
        _tab_to(page, "ns.t")
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        page.keyboard.press("Enter")
        page.wait_for_url("**/tables/ns/t")
        _tab_to(page, "Plan")
        page.keyboard.press("Enter")
        page.wait_for_url("**/plan")
        page.locator("#filter").focus()
        page.keyboard.type("day = '2024-01-02'")
        page.keyboard.press("Enter")
        expect(page.locator("p[role=status]")).to_contain_text("1 of 2 files planned")
        _tab_to(page, ".parquet")
        page.keyboard.press("Enter")
        expect(page.locator("p[role=status]")).to_contain_text("1 change of file")


def test_ten_thousand_events_are_drawn_and_filtered(
    browser: Browser, rest: RestClient, lake: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from playwright.sync_api import expect

    store = lake._warehouse.store
    first, *_, last = log_lines(store, store.events())
    needle = last[0].position - 1
    monkeypatch.setattr(log_page, "log_lines", lambda *_: [*[first] * 9_999, last])
    with _page(browser, rest, 400, "light") as page:
        page.goto(rest.uri)
        page.keyboard.press("/")
        page.keyboard.type(f"{needle + 1} append")
        rows = page.locator("#events tbody tr:not([hidden])")
        expect(page.locator("output")).to_have_text("1 of 10,000")
        expect(rows).to_have_count(1)
        assert EVIL in rows.inner_text()
        page.keyboard.press("Escape")
        expect(rows).to_have_count(10_000)


@contextmanager
def _page(browser: Browser, rest: RestClient, width: int, scheme: Literal["dark", "light"]) -> Iterator[Page]:
    """A page of the browser, which has nothing to complain about and asks for nothing from elsewhere."""
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(rest.uri) else complaints.append(r.url))
    yield page
    page.close()
    assert complaints == []


def test_the_log_grows_as_it_is_looked_at(browser: Browser, rest: RestClient, lake: icecore.Catalog) -> None:
    """What is committed comes on top, once, also while a filter is typed; its texts are text."""
    from playwright.sync_api import expect

    with _page(browser, rest, 1280, "light") as page:
        page.goto(rest.uri)
        page.locator("#events-filter").fill("fresh")
        expect(page.locator("output")).to_have_text(f"0 of {lake.position}")
        for n in range(3):
            lake.create_namespace(f"fresh{n}", {EVIL: EVIL})
        lake.create_namespace("other")
        shown = page.locator("#events tbody tr:not([hidden])")
        expect(page.locator("output")).to_have_text(f"3 of {lake.position}")
        positions = [int(text.split()[0]) for text in shown.all_inner_texts()]
        assert positions == [lake.position - n for n in (1, 2, 3)]


def test_what_a_server_ended_over_is_shown_when_it_is_back(browser: Browser, tmp_path: Path) -> None:
    """The stream told of it, and then the page could not fetch it any more; no later commit has to come."""
    from playwright.sync_api import expect

    with icecore.open(tmp_path / "w") as catalog, closing(browser.new_page()) as page:
        with served(catalog) as client:
            page.goto(client.uri)
            page.route("**/?after=*", lambda route: route.abort())
            with page.expect_event("requestfailed", lambda request: "?after=" in request.url):
                catalog.create_namespace("late")
            page.unroute("**/?after=*")
        expect(page.locator("#events tbody tr")).to_have_count(0)
        with served(catalog, port=client.port):
            expect(page.locator("#events tbody tr")).to_have_count(1)


def test_a_page_that_follows_the_log_no_longer_says_so(browser: Browser, tmp_path: Path) -> None:
    """As when its token is revoked: it looks as if nothing was committed any more. A restart is no such end."""
    from playwright.sync_api import expect

    with icecore.open(tmp_path / "w") as catalog:
        tokens = AccessTokens(catalog._warehouse.store)
        _, secret = tokens.create("reader", [Grant.parse("read:*")])
        context = browser.new_context(http_credentials={"username": "-", "password": secret})
        with closing(context), closing(context.new_page()) as page:
            with served(catalog) as client:
                page.goto(client.uri)
                catalog.create_namespace("seen")
                expect(page.locator("#events tbody tr")).to_have_count(1)
            with served(catalog, port=client.port):
                catalog.create_namespace("again")
                expect(page.locator("#events tbody tr")).to_have_count(2)
                expect(page.get_by_role("alert")).to_have_count(0)
                tokens.revoke("reader")
                catalog.create_namespace("unseen")
                expect(page.get_by_role("alert")).to_contain_text("load the page again")
                expect(page.locator("#events tbody tr")).to_have_count(2)


def _tab_to(page: Page, text: str) -> None:
    """Presses Tab until what ends so has the focus."""
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent").endswith(text):
            return
    raise AssertionError(f"Tab never came to {text}")
