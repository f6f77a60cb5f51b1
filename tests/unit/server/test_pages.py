"""The pages for people: what they show is text, whatever it is called, and nothing comes from elsewhere."""

from __future__ import annotations

import base64
import socket
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from html import escape
from pathlib import Path
from typing import Any
from unittest import mock
from urllib.parse import quote, urlencode

import pytest
from rest_client import RestClient, served

import icecore
from icecore.engine.catalog.audits import audit_tools
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.server.application import Threads
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.page import kept_findings, table_page
from icecore.engine.server.page.kept_findings import KEPT_MS
from icecore.engine.server.server_settings import ServerSettings

EVIL = "<script>alert('x')</script>"
OF_EVIL = f"/tables/ns/{quote(EVIL, safe='')}"
PATHS = (
    *("/", "/tables", "/findings", "/sql?q=SELECT+*+FROM+events"),
    *(OF_EVIL, f"{OF_EVIL}/plan?filter=id+%3D+1", f"{OF_EVIL}/blame?of=column&value=id"),
    f"{OF_EVIL}/findings",
)


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
    # Days that Python lacks, of two columns with one name.
    assert b"20000-01-01" in rest.get("/sql?q=SELECT+DATE+'20000-01-01'+AS+d,+1+AS+d").body
    assert b'role="alert"' in rest.get(f"/sql?q={quote('DROP TABLE events')}").body
    missing = rest.get(f"/tables/ns/{quote(EVIL[1:], safe='')}")
    assert missing.status == 404 and b"Table does not exist: ns.script&gt;" in missing.body
    assert rest.get("/static/../application.py").status == 404


def test_answers_of_any_size_are_pages_of_bounded_ones(rest: RestClient) -> None:
    """DuckDB's memory limit counts neither the rows that it hands out nor what a page is made of."""
    for sql, count in (
        ("SELECT * FROM range(1000)", "1,000 rows"),
        ("SELECT * FROM range(1001)", "the first 1,000 rows"),
        ("SELECT range AS a, range AS b FROM range(100000000000)", "the first 1,000 rows"),
        ("SELECT repeat('x', 40000000) AS a, 2 AS b", "1 row"),
        ("SELECT repeat('x', 100000) AS a FROM range(2000)", "the first 1,000 rows"),
        ("SHOW TABLES", " rows"),
    ):
        reply = rest.get(f"/sql?q={quote(sql)}")
        assert f"{count}</p>" in reply.body.decode() and len(reply.body) < 20_000_000, sql


def test_a_table_is_shown_without_an_audit(
    rest: RestClient, evil: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 7,500 commits that took 18 of 21 s of CPU, and a GB; its findings have a page of their own."""
    files = evil.load_table(("ns", EVIL)).files()["file_path"].to_pylist()
    Path(files[0].removeprefix("file://")).unlink()
    page = rest.get(f"{OF_EVIL}/findings").body.decode()
    assert "1 finding<" in page and "is gone" in page and ">error<" in page
    monkeypatch.setattr(table_page, "audit", None)
    page = rest.get(OF_EVIL).body.decode()
    assert f'href="{OF_EVIL}/findings"' in page and ">errors<" not in page


def test_findings_are_found_once_for_all_who_ask_at_one_state_of_the_log(
    rest: RestClient, evil: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are found anew after any event, as one that forgets, and a minute later: files may go without one."""
    clock = [KEPT_MS]
    monkeypatch.setattr(kept_findings, "now_ms", lambda: clock[0])
    looked = mock.Mock(wraps=audit_tools.audit)
    monkeypatch.setattr(table_page, "audit", looked)
    with ThreadPoolExecutor(3) as clients:
        pages = list(clients.map(lambda _: rest.get(f"{OF_EVIL}/findings").body, range(3)))
    assert (looked.call_count, len(set(pages))) == (1, 1)
    table = evil.load_table(("ns", EVIL))
    table.append([{"id": 2}], message="for Jane Doe")
    assert rest.get(f"{OF_EVIL}/findings").status == 200 and looked.call_count == 2
    with icecore.open(evil.path) as other:
        other.forget_text("Jane Doe")
    assert rest.get(f"{OF_EVIL}/findings").status == 200 and looked.call_count == 3
    Path(table.files()["file_path"].to_pylist()[0].removeprefix("file://")).unlink()
    clock[0] += KEPT_MS
    assert b"is gone" in rest.get(f"{OF_EVIL}/findings").body and looked.call_count == 4


def test_who_waits_for_findings_holds_nobody_else_up(evil: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four audits held up all who loaded tables. Of more than may wait one is told so, who has no token before that."""
    begun, end = threading.Event(), threading.Event()
    real = audit_tools.audit

    def held(*args: Any, **options: Any) -> Any:
        begun.set()
        assert end.wait(60)
        return real(*args, **options)

    monkeypatch.setattr(table_page, "audit", held)
    settings = ServerSettings(readers=1, page_makers=1, most_audits=3)
    path = f"{OF_EVIL}/findings"
    with served(evil, settings) as rest, ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(rest.get, path) for _ in range(4)]
        try:
            full = next(as_completed(asked)).result()
            assert begun.wait(60)
            others = ("/v1/namespaces/ns/tables", "/tables", "/sql?q=SELECT+1")
            assert [rest.get(other).status for other in others] == [200] * 3
            assert (full.status, int(full.headers["retry-after"]) > 0) == (429, True)
            assert b"wait for findings already" in full.body and full.headers["content-type"].startswith("text/html")
            AccessTokens(evil._warehouse.store).create("ann", [Grant.parse("read:*")])
            assert rest.get(path).status == 401
        finally:
            end.set()
        assert sorted(a.result().status for a in asked) == [200, 401, 401, 429]


def test_nothing_is_found_for_who_is_gone(evil: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who leaves while others' findings are found no longer waits for its own, and no thread looks for them."""
    begun, end, waits, left = (threading.Event() for _ in range(4))
    looked, run = list[str](), Threads.run
    for name in ("a", "b"):
        evil.create_table(("ns", name), parse_schema("id long"))

    def held(_: icecore.Catalog, *, tables: list[Any], **options: Any) -> Any:
        looked.append(tables[0][-1])
        begun.set()
        assert end.wait(60)
        return audit_tools.audit(evil, tables=tables, **options)

    async def noted(threads: Threads, *args: Any) -> Any:
        if begun.is_set():
            waits.set()
        try:
            return await run(threads, *args)
        finally:
            left.set()

    monkeypatch.setattr(table_page, "audit", held)
    monkeypatch.setattr(Threads, "run", noted)
    with served(evil) as rest, ThreadPoolExecutor(1) as clients:
        first = clients.submit(rest.get, f"{OF_EVIL}/findings")
        try:
            assert begun.wait(60)
            with socket.create_connection(("127.0.0.1", rest.port), timeout=60) as leaving:
                leaving.sendall(b"GET /tables/ns/a/findings HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
                assert waits.wait(60)
            assert left.wait(60), "while the thread is busy"
        finally:
            end.set()
        assert (first.result().status, rest.get("/tables/ns/b/findings").status) == (200, 200)
    assert looked == [EVIL, "b"]


def test_pages_of_other_sites_have_no_say(rest: RestClient, catalog: icecore.Catalog) -> None:
    body = {"namespace": ["made"]}
    by_them = rest.ask("POST", "/v1/namespaces", body, {"Origin": "http://evil.example", "Content-Type": "text/plain"})
    called_so = rest.ask("POST", "/v1/namespaces", body, {"Host": "evil.example"})
    assert by_them.error[:2] == called_so.error[:2] == (403, "ForbiddenException")
    for no_url in ({"Origin": "http://["}, {"Host": "["}, {"Origin": "null"}):
        assert rest.ask("POST", "/v1/namespaces", body, no_url).error[:2] == (403, "ForbiddenException"), no_url
    assert not catalog.namespace_exists("made")
    ours = rest.ask("POST", "/v1/namespaces", body, {"Origin": rest.uri, "Host": f"127.0.0.1:{rest.port}"})
    assert ours.status == 200


def test_a_plan_tells_why_each_file_and_manifest_is_in_it_or_not(rest: RestClient, evil: icecore.Catalog) -> None:
    evil.load_table(("ns", EVIL)).append([{"id": 7}])
    body = rest.get(f"{OF_EVIL}/plan?filter=id+%3E+5").body.decode()
    for told in (
        "1 of 2 files planned",
        "by column metrics of id: id &gt; 5",
        "id from 1 to 1, nulls 0 of 1",
        "0 of 1",
    ):
        assert told in body, told
    assert "2 of 2 files planned" in rest.get(f"{OF_EVIL}/plan").body.decode()
    assert 'role="alert"' in rest.get(f"{OF_EVIL}/plan?filter=nope+%3D+1").body.decode()


def test_blame_tells_who_changed_a_thing(rest: RestClient, evil: icecore.Catalog) -> None:
    """A table's page leads there, by names of now and before, whatever they hold."""
    table = evil.load_table(("ns", EVIL))
    table.set_properties({EVIL: "1"}, author="bob", message="asked for")
    with table.update_schema() as schema:
        schema.rename_column("id", "key")
    page = rest.get(OF_EVIL).body.decode()
    way = f"{OF_EVIL}/blame?{urlencode({'of': 'property', 'value': EVIL})}"
    assert escape(way) in page and escape(f"{OF_EVIL}/blame?of=ref&value=main") in page
    found = rest.get(way).body.decode()
    assert "bob" in found and "asked for" in found
    for name in ("id", "key"):
        assert "2 changes of column" in rest.get(f"{OF_EVIL}/blame?of=column&value={name}").body.decode()
    (path,) = table.files()["file_path"].to_pylist()
    assert "1 change of file" in rest.get(f"{OF_EVIL}/blame?{urlencode({'of': 'file', 'value': path})}").body.decode()
    assert rest.get(f"{OF_EVIL}/blame?of=dream&value=x").status == 400


def test_a_token_is_the_password_of_a_browser(rest: RestClient, evil: icecore.Catalog) -> None:
    """It is shown what it may read, and no more."""
    evil.create_namespace("secret")
    pay = evil.create_table("secret.pay", parse_schema("id long"))
    evil.create_table("ns.inside", parse_schema("id long"), location=f"{pay.location()}/inside")
    tokens = AccessTokens(evil._warehouse.store)
    some = tokens.create("some", [Grant.parse("read:ns")])[1]
    every = tokens.create("every", [Grant.parse("read:*")])[1]
    asked = rest.get("/")
    assert asked.status == 401 and asked.headers["www-authenticate"].startswith("Basic ")

    def page(secret: str, path: str) -> tuple[int, bool]:
        """The status, and whether the secret table is told of."""
        by = base64.b64encode(f"me:{secret}".encode()).decode()
        told = rest.ask("GET", path, headers={"Authorization": f"Basic {by}"})
        return told.status, b"secret.pay" in told.body

    assert (page(every, "/"), page(every, "/tables"), page("x", "/")) == ((200, True), (200, True), (401, False))
    pages_of_it = ("/tables/secret/pay", "/tables/secret/pay/blame", "/tables/secret/pay/findings")
    for path in ("/", "/sql?q=SELECT+*+FROM+log", "/findings", *pages_of_it):
        assert page(some, path) == (403, False), path
    for path in ("/tables", "/tables/ns/inside", *PATHS[-4:]):
        assert page(some, path) == (200, False), path
    assert (page(every, "/tables/ns/inside/findings"), page(every, "/findings")) == ((200, False), (200, True))
