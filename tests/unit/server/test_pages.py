"""The pages for people: what they show is text, whatever it is called, and nothing comes from elsewhere."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pytest
from rest_client import RestClient, served

import icecore
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant

EVIL = "<script>alert('x')</script>"
PATHS = ("/", "/tables", f"/table?name={quote(f'ns.{EVIL}')}", "/findings", "/sql?q=SELECT+*+FROM+events")


@pytest.fixture
def evil(catalog: icecore.Catalog) -> icecore.Catalog:
    """A warehouse where a table, an actor and a message are scripts."""
    catalog.create_namespace("ns")
    table = catalog.create_table(("ns", EVIL), parse_schema("id long"), author=EVIL)
    table.append([{"id": 1}], message=EVIL)
    return catalog


def test_pages_show_names_as_text(rest: RestClient, evil: icecore.Catalog) -> None:
    for path in PATHS:
        page = rest.get(path)
        assert page.status == 200 and b"<script>alert" not in page.body, path
        assert "script-src 'self'" in page.headers["content-security-policy"]
    assert b"&lt;script&gt;" in rest.get("/").body
    assert b"SELECT" in rest.get("/sql?q=SELECT+1").body
    assert b'role="alert"' in rest.get(f"/sql?q={quote('DROP TABLE events')}").body
    assert rest.get("/table?name=ns.nope").status == 404
    assert rest.get("/static/../application.py").status == 404


def test_pages_of_other_sites_have_no_say(rest: RestClient, catalog: icecore.Catalog) -> None:
    body = {"namespace": ["made"]}
    by_them = rest.ask("POST", "/v1/namespaces", body, {"Origin": "http://evil.example", "Content-Type": "text/plain"})
    called_so = rest.ask("POST", "/v1/namespaces", body, {"Host": "evil.example"})
    assert by_them.error[:2] == called_so.error[:2] == (403, "ForbiddenException")
    assert not catalog.namespace_exists("made")
    ours = rest.ask("POST", "/v1/namespaces", body, {"Origin": rest.uri, "Host": f"127.0.0.1:{rest.port}"})
    assert ours.status == 200


def test_a_token_is_the_password_of_a_browser(rest: RestClient, evil: icecore.Catalog) -> None:
    tokens = AccessTokens(evil._warehouse.store)
    some = tokens.create("some", [Grant.parse("read:ns")])[1]
    every = tokens.create("every", [Grant.parse("read:*")])[1]
    asked = rest.get("/")
    assert asked.status == 401 and asked.headers["www-authenticate"].startswith("Basic ")

    def shown(secret: str) -> int:
        return rest.ask(
            "GET", "/", headers={"Authorization": f"Basic {base64.b64encode(f'me:{secret}'.encode()).decode()}"}
        ).status

    assert (shown(every), shown(some), shown("x")) == (200, 403, 401)


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no Chromium")
def test_a_browser_draws_ten_thousand_events_and_filters_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    with icecore.open(tmp_path / "w", actor=EVIL) as catalog:
        catalog.create_namespace("hay")
        log = catalog.log()
        catalog.create_namespace("needle")
        many = pa.concat_tables([*[log] * 9_999, catalog.log().slice(1)])
        monkeypatch.setattr(catalog, "log", lambda: many)
        with served(catalog) as rest, playwright.sync_playwright() as browsers:
            browser = browsers.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 400, "height": 800})
            said: list[str] = []
            elsewhere: list[str] = []
            page.on("console", lambda message: said.append(message.text))
            page.on("pageerror", lambda error: said.append(str(error)))
            page.on("request", lambda r: None if r.url.startswith(rest.uri) else elsewhere.append(r.url))
            page.goto(rest.uri)
            page.keyboard.press("/")
            page.keyboard.type("needle created")
            visible = page.locator("#events tbody tr:visible")
            playwright.expect(visible).to_have_count(1)
            assert "needle" in visible.inner_text() and EVIL in visible.inner_text()
            page.keyboard.press("Escape")
            playwright.expect(visible).to_have_count(10_000)
            assert said == [] and elsewhere == []
            browser.close()


@pytest.fixture
def rest(catalog: icecore.Catalog) -> Iterator[RestClient]:
    with served(catalog) as client:
        yield client
