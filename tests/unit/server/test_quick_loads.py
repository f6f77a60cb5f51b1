"""Loads from memory are what a load would give: not after a commit, a rename, a drop or another engine's commit."""

from __future__ import annotations

import gc
import gzip
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from rest_client import RestClient, make_table, served

import icecore
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.server_settings import ServerSettings
from icecore.engine.server.wire import quick_loads, responses

T = "/v1/namespaces/ns/tables/t"


@pytest.fixture
def hits(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each load since was answered from memory."""
    found: list[bool] = []
    find = quick_loads.QuickLoads.find

    def counted(self: quick_loads.QuickLoads, key: quick_loads.Key) -> quick_loads.QuickLoad | None:
        load = find(self, key)
        found.append(load is not None)
        return load

    monkeypatch.setattr(quick_loads.QuickLoads, "find", counted)
    return found


def by_another_process(catalog: icecore.Catalog) -> None:
    with icecore.open(catalog.path) as other:
        other.load_table("ns.t").append([{"id": 1, "city": "Oslo"}])


def by_another_engine(catalog: icecore.Catalog) -> None:
    uri = f"sqlite:///{catalog.path}/icecore.db"
    SqlCatalog("icecore", uri=uri, warehouse=str(catalog.path)).load_table("ns.t").transaction().set_properties(
        k="v"
    ).commit_transaction()


CHANGES: list[Callable[[icecore.Catalog], object]] = [
    lambda c: c.load_table("ns.t").set_properties({"k": "v"}),
    lambda c: c.rename_table("ns.t", "ns.u"),
    lambda c: c.drop_table("ns.t"),
    by_another_process,
    by_another_engine,
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("mode", ["", "?snapshots=refs"])
def test_no_load_is_older_than_the_log(
    rest: RestClient, catalog: icecore.Catalog, hits: list[bool], change: Callable[[icecore.Catalog], object], mode: str
) -> None:
    make_table(rest)
    first, second, third = (rest.get(T + mode) for _ in range(3))
    assert first.body == second.body == third.body and first.headers["etag"] == second.headers["etag"]
    assert hits[-3:] == [False, True, True]
    catalog.create_namespace("something.else")
    assert rest.get(T + mode).body == first.body and hits[-1]
    change(catalog)
    after = rest.get(T + mode)
    assert not hits[-1] and after.body != first.body
    if after.status == 200:
        state = catalog.load_table("ns.t").state
        assert after.json["metadata-location"] == state.metadata_location
        assert rest.get(T + mode, if_none_match=first.headers["etag"]).status == 200


def test_a_load_from_memory_is_304_for_who_has_it_and_packed_for_who_asks(
    rest: RestClient, catalog: icecore.Catalog, hits: list[bool]
) -> None:
    make_table(rest, properties={f"property-{n}": "x" * 100 for n in range(100)})
    plain = rest.get(T)
    assert rest.get(T, if_none_match=plain.headers["etag"]).status == 304 and hits[-1]
    for asked, is_hit in ((T, True), (f"{T}?new=1", False)):
        for told in ("*", f'"other", W/{plain.headers["etag"]}'):
            assert rest.get(asked, if_none_match=told).status == 304 and hits[-1] == is_hit, told
    first, packed = (rest.get(T, accept_encoding="gzip") for _ in range(2))
    assert hits[-2:] == [False, True] and first.body == packed.body
    assert packed.headers["content-encoding"] == "gzip" and packed.headers["vary"] == "accept-encoding"
    assert gzip.decompress(packed.body) == plain.body and packed.headers["etag"] == plain.headers["etag"]
    for accepted, packs in (("deflate, GZIP;q=0.5", True), ("gzip;q=0", False), ("identity, gzip; q=0.00", False)):
        for asked in (T, f"{T}?new={len(accepted)}"):
            found = rest.get(asked, accept_encoding=accepted)
            assert ("content-encoding" in found.headers, hits[-1]) == (packs, asked == T), accepted
    path = catalog._warehouse.repository.storage.local_path(plain.json["metadata-location"])
    assert path is not None
    os.rename(path, path + ".away")
    assert rest.get(T).status == 404


def test_a_log_that_was_replaced_is_not_answered_from(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Others go by the one that is there, so what was read of the one before is told to nobody, from memory neither."""
    make_table(rest)
    paths = (T, "/v1/namespaces", f"{T}?snapshots=refs", "/")
    assert [rest.get(path).status for path in paths] == [200] * len(paths)
    log = catalog.path / "icecore.db"
    log.rename(log.with_name("before.db"))
    log.touch()
    for path in paths:
        reply = rest.get(path)
        assert reply.status == 403 and b"is not the log that was opened" in reply.body, path
    log.with_name("before.db").rename(log)
    assert [rest.get(path).status for path in paths] == [200] * len(paths)


def test_who_has_no_token_is_not_told_where_a_log_was_that_was_replaced(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "w") as catalog, served(catalog, ServerSettings(readers=1)) as rest:
        token = AccessTokens(catalog._warehouse.store).create("ann", [Grant.parse("read:*")])[1]
        asked = {"authorization": f"Bearer {token}"}
        assert rest.get("/v1/namespaces", **asked).status == 200
        (log := catalog.path / "icecore.db").rename(log.with_name("before.db"))
        assert rest.get("/v1/namespaces").error[:2] == (401, "NotAuthorizedException")
        assert rest.get("/v1/namespaces", **asked).status == 403
        log.with_name("before.db").rename(log)


def test_memory_holds_what_was_asked_for_last(tmp_path: Path) -> None:
    with icecore.open(tmp_path / "w") as catalog:
        loads = quick_loads.QuickLoads(catalog._warehouse.store, catalog.name, 25_000)
        for n in range(5):
            load = quick_loads.QuickLoad(("ns", "t"), "table:x", 1, "m", "/", b"x" * 10_000, {"etag": f"{n}"})
            loads.put((b"%d" % n, b"", b""), load, loads.version())
        assert [k[0] for k in loads._kept] == [b"3", b"4"]


def test_memory_has_a_bound_however_long_the_requests_are(rest: RestClient, catalog: icecore.Catalog) -> None:
    """They are kept beside the answers, which may be far shorter."""
    make_table(rest)
    with served(catalog, ServerSettings(kept_bytes=100_000)) as bounded:
        tracemalloc.start()
        try:
            for n in range(100):
                assert bounded.get(f"{T}?n={n}{'x' * 30_000}").status == 200
            gc.collect()
            assert tracemalloc.get_traced_memory()[0] < 1_500_000
        finally:
            tracemalloc.stop()


def test_large_answers_are_packed_by_the_threads_that_make_them(
    rest: RestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop has all other clients to answer."""
    by: list[str] = []
    compress = responses._compressed

    def noted(chunks: Iterable[bytes]) -> Iterator[bytes]:
        by.append(threading.current_thread().name)
        return compress(chunks)

    monkeypatch.setattr(responses, "_compressed", noted)
    make_table(rest, properties={f"property-{n}": "x" * 100 for n in range(100)})
    asked = {"Accept-Encoding": "gzip"}
    for _ in range(2):
        assert rest.ask("GET", T, headers=asked).headers["content-encoding"] == "gzip"
    change = {"updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
    assert rest.ask("POST", T, change, asked).headers["content-encoding"] == "gzip"
    assert [name.rpartition("_")[0] for name in by] == ["icecore-reader", "icecore-writer"]
