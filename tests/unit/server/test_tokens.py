"""Tokens: who shows none gets nothing, who shows one gets what it grants and is the actor of the commits."""

from __future__ import annotations

import base64
import re
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from rest_client import SCHEMA, RestClient, served
from token_clients import T, asked, made

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import NoSuchNamespaceError, NoSuchTableError, NoSuchViewError, ValidationError
from icecore.engine.evolution.schema_text import parse_schema
from icecore.engine.log.store import EventStore
from icecore.engine.server.auth import access_tokens
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant, Level, is_allowed
from icecore.engine.server.serve import serve
from icecore.engine.server.server_settings import ServerSettings
from icecore.engine.server.wire import quick_loads


def table(*namespace: str) -> dict[str, Any]:
    return {"namespace": list(namespace), "name": "t"}


def test_grants_hold_in_a_namespace_and_inside_of_it() -> None:
    grants = [Grant.parse("write:a.b"), Grant.parse("read:c")]
    assert str(grants[0]) == "write:a.b" and Grant.from_dict(grants[0].to_dict()) == grants[0]
    told = "a.b write, a.b.c read, a read, a.bc read, c read, c write, x read"
    asked_for = [t.split() for t in told.split(", ")]
    allowed = [is_allowed(grants, Level.of(level), tuple(n.split("."))) for n, level in asked_for]
    assert allowed == [True, True, False, False, True, False, False]
    assert is_allowed([Grant.parse("manage:*")], Level.WRITE, ("x",))
    for wrong in ("read", "own:a", "read:"):
        with pytest.raises(ValidationError):
            Grant.parse(wrong)


def test_who_shows_no_token_gets_nothing(rest: RestClient, tokens: AccessTokens) -> None:
    assert rest.get(T).status == 200, "before there is a token, none is asked for"
    assert asked(rest, "None", "GET", T).status == 200, "whatever a client sends"
    secret = made(tokens, "manage:*")
    for shown in ("", "None", secret[:-1], "x" * 5000):
        refused = asked(rest, shown, "GET", T)
        assert refused.error[:2] == (401, "NotAuthorizedException")
        assert refused.headers["www-authenticate"].startswith("Bearer ")
    assert rest.get("/v1/config").status == 200
    assert asked(rest, secret, "GET", T).status == 200
    assert secret.encode() not in b"".join(p.read_bytes() for p in Path(tokens._store.path).parent.glob("icecore.db*"))


def test_a_token_opens_what_it_grants(rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog) -> None:
    secret = made(tokens, "write:sales.orders", "read:people")
    change = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": "v"}}]}
    assert asked(rest, secret, "POST", T, change).status == 200
    last = catalog.log().to_pylist()[-1]
    assert last["actor"] == "ann"
    other = "/v1/namespaces/people/tables/t"
    assert asked(rest, secret, "GET", other).status == 200
    own, theirs = ({"identifier": table(*n)} for n in (("sales", "orders"), ("people",)))
    names = {"source": table("people"), "destination": table("sales", "orders")}
    refused = [
        asked(rest, secret, "POST", other, change),
        asked(rest, secret, "DELETE", T),
        asked(rest, secret, "POST", "/v1/namespaces", {"namespace": ["new"]}),
        asked(rest, secret, "GET", "/v1/namespaces/sales"),
        asked(rest, secret, "POST", "/v1/events", {}),
        asked(rest, secret, "POST", "/v1/events", {"namespace": ["people"]}),
        asked(rest, secret, "POST", "/v1/events", {"source": {"namespace": ["people"]}}),
        asked(rest, secret, "POST", "/v1/at/1/events", {}),
        asked(rest, secret, "POST", "/v1/namespaces/people/tables", {"name": "x", "schema": SCHEMA}),
        asked(rest, secret, "POST", "/v1/transactions/commit", {"table-changes": [own | change, theirs | change]}),
        asked(rest, secret, "POST", "/v1/tables/rename", names),
    ]
    assert [r.error[:2] for r in refused] == [(403, "ForbiddenException")] * len(refused)
    assert asked(rest, secret, "GET", "/v1/namespaces").json == {"namespaces": [["people"], ["sales"]]}
    only = made(tokens, "read:people", name="bob")
    assert asked(rest, only, "GET", "/v1/namespaces").json == {"namespaces": [["people"]]}
    hidden = [asked(rest, only, "GET", f"/v1/namespaces?parent={parent}") for parent in ("sales", "nothing")]
    told = [(404, "NoSuchNamespaceException", f"Namespace does not exist: {name}") for name in ("sales", "nothing")]
    assert [r.error for r in hidden] == told, "what is hidden is as what is not there"


def test_what_became_of_a_name_is_told_to_who_may_read_there(
    rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog
) -> None:
    """Who dropped a table, and where one went that was renamed: not into which namespace to who can't read there."""
    catalog.drop_table(("people", "t"), message="old", author="eve")
    catalog.rename_table(("sales", "orders", "t"), ("sales", "u"))
    catalog.drop_namespace("people")
    anyone, here = made(tokens, "read:*"), made(tokens, "read:sales.orders", name="bob")
    took = catalog.position - 2
    gone = f"Table does not exist: people.t; it was dropped at position {took} by eve ('old'); undrop brings it back"
    went = "Table does not exist: sales.orders.t"
    by = catalog.log().to_pylist()[-1]["actor"]
    assert asked(rest, anyone, "GET", "/v1/namespaces/people/tables/t").error[2] == gone
    assert asked(rest, anyone, "GET", T).error[2] == f"{went}; it was renamed to sales.u at position {took + 1} by {by}"
    assert asked(rest, here, "GET", T).error[2] == went
    assert asked(rest, here, "GET", "/v1/namespaces?parent=people").error[2] == "Namespace does not exist: people"


def test_a_refusal_that_comes_again_tells_no_more_than_the_first(
    rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog
) -> None:
    """Under its key the second one told where the table went, into a namespace that is hidden from who asks."""
    catalog.rename_table("people.t", ("sales", "hidden"))
    shown = {"Authorization": f"Bearer {made(tokens, 'manage:people')}", "Idempotency-Key": str(uuid.uuid4())}
    told = [rest.ask("DELETE", "/v1/namespaces/people/tables/t", None, shown).error[2] for _ in range(2)]
    assert told == ["Table does not exist: people.t"] * 2


def test_names_that_are_alike_are_told_to_who_may_read_there(
    rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog
) -> None:
    """In the namespace first, then elsewhere; as of a position too. Whose token ends before that is told nothing."""
    catalog.create_table(("sales", "orders", "wanted"), pa.schema([("id", pa.int64())]))
    anyone, here = made(tokens, "read:*"), made(tokens, "read:people", name="bob")
    near, other = "/v1/namespaces/sales%1Forders/tables/wantd", "/v1/namespaces/people/tables/wanted"
    like = "; did you mean 'sales.orders.wanted'?"
    assert asked(rest, anyone, "GET", near).error[1:] == (
        "NoSuchTableException",
        f"Table does not exist: sales.orders.wantd{like}",
    )
    assert asked(rest, anyone, "GET", other).error[2] == f"Table does not exist: people.wanted{like}"
    assert asked(rest, here, "GET", other).error[2] == "Table does not exist: people.wanted"
    # What is hidden has no part in it: neither told of, nor in the place of what may be told.
    catalog.create_table("people.wantel", pa.schema([("id", pa.int64())]))
    told = "Table does not exist: people.wanted; did you mean "
    assert asked(rest, here, "GET", other).error[2] == f"{told}'people.wantel'?"
    assert asked(rest, anyone, "GET", other).error[2] == f"{told}'sales.orders.wanted' or 'people.wantel'?"
    spelt = "Namespace does not exist: sales.order"
    told = f"{spelt}; did you mean 'sales.orders'?"
    assert asked(rest, anyone, "GET", "/v1/namespaces/sales%1Forder").error[1:] == ("NoSuchNamespaceException", told)
    assert asked(rest, here, "GET", "/v1/namespaces?parent=sales%1Forder").error[2] == spelt
    with pytest.raises(NoSuchNamespaceError, match="did you mean 'people'"):
        catalog.at(catalog.position).load_namespace_properties("peopel")
    with pytest.raises(NoSuchTableError, match=re.escape(like)):
        catalog.at(catalog.position).load_table("sales.orders.Wanted")
    with pytest.raises(NoSuchViewError, match=r"wantd$"):
        catalog.load_view("sales.orders.wantd")


def test_who_is_in_the_way_of_a_location_is_told_to_who_may_read_there(tmp_path: Path) -> None:
    """A folder that holds all tables would tell the name of one after the other, to who moves a table there too."""
    with icecore.open(tmp_path / "lake", unique_locations=True) as catalog, served(catalog) as rest:
        for name in ("sales", "people"):
            catalog.create_namespace(name)
        people = catalog.create_table("people.t", parse_schema("id long")).location()
        tokens = AccessTokens(catalog._warehouse.store)
        some, every = (tokens.create(g, [Grant.parse(g)])[1] for g in ("write:sales", "manage:*"))
        body = {"name": "mine", "location": people.rpartition("/")[0], "schema": SCHEMA}
        catalog.create_table("sales.t", parse_schema("id long"))
        move = {"action": "set-location", "location": body["location"]}
        lead = {"action": "set-properties", "updates": {"write.data.path": body["location"]}}
        calls = [("", body), *(("/t", {"requirements": [], "updates": [update]}) for update in (move, lead))]
        for of, sent in calls:
            path = f"/v1/namespaces/sales/tables{of}"
            hidden, told = (asked(rest, by, "POST", path, sent) for by in (some, every))
            assert hidden.error[:2] == told.error[:2] == (403, "ForbiddenException")
            assert told.error[2] == f"{hidden.error[2]}: {people}, where files of people.t are"


def test_pages_tell_nothing_of_namespaces_that_are_not_shown(
    rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog
) -> None:
    """Neither their number by empty pages, nor their names by the tokens of these."""
    names = ["alpha", "some", "mid", "some2", "zeta"]
    for name in names:
        catalog.create_namespace(name)
    some = tokens.create("some", [Grant.parse("read:some"), Grant.parse("read:some2")])[1]
    first, second = "/v1/namespaces?pageSize=1", "/v1/namespaces?pageSize=1&pageToken="
    page = asked(rest, some, "GET", first).json
    assert page["namespaces"] == [["some"]]
    assert orjson.loads(base64.b64decode(page["next-page-token"] + "==")) == ["namespace", [], "some"]
    assert asked(rest, some, "GET", second + page["next-page-token"]).json == {"namespaces": [["some2"]]}
    assert asked(rest, some, "GET", "/v1/at/2100-01-01/namespaces").json == {"namespaces": [["some"], ["some2"]]}


def test_a_revoked_or_expired_token_opens_nothing_more(
    rest: RestClient, tokens: AccessTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not from memory either, by which loads are answered the second time."""
    first, second = made(tokens, "read:*"), tokens.create("eve", [Grant.parse("read:*")], 60_000)[1]
    for secret in (first, second) * 3:
        assert asked(rest, secret, "GET", T).status == 200
    tokens.revoke("ann")
    assert asked(rest, first, "GET", T).status == 401
    assert [asked(rest, second, "GET", T).status for _ in range(3)] == [200] * 3
    now = now_ms()
    for module in (access_tokens, quick_loads):
        monkeypatch.setattr(module, "now_ms", lambda: now + 61_000)
    assert asked(rest, second, "GET", T).error[:2] == (419, "AuthenticationTimeoutException")


def test_who_knows_an_etag_is_told_no_more_by_it(rest: RestClient, tokens: AccessTokens) -> None:
    """Neither that a table is as it was, nor what another one was just told of it, from memory too."""
    reader, other, few = made(tokens, "read:*"), made(tokens, "manage:people", name="bob"), f"{T}?snapshots=refs"
    for path in (T, few):
        tag = asked(rest, reader, "GET", path).headers["etag"]
        shown = {"If-None-Match": tag, "Authorization": f"Bearer {reader}"}
        assert [rest.ask("GET", path, None, shown).status for _ in range(2)] == [304, 304]
        for secret, status in ((other, 403), ("", 401), (reader[:-1], 401)):
            shown["Authorization"] = f"Bearer {secret}"
            assert [rest.ask("GET", path, None, shown).status for _ in range(2)] == [status] * 2


def test_a_token_that_is_revoked_while_a_body_comes_commits_nothing(
    rest: RestClient, tokens: AccessTokens, catalog: icecore.Catalog
) -> None:
    """A body may come for half an hour."""
    secret, body = made(tokens, "manage:*"), b'{"namespace": ["late"]}'
    head = f"POST /v1/namespaces HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {secret}\r\n"
    with socket.create_connection(("127.0.0.1", rest.port), timeout=60) as client:
        client.sendall(f"{head}expect: 100-continue\r\ncontent-length: {len(body)}\r\n\r\n".encode())
        assert client.recv(65536).startswith(b"HTTP/1.1 100 "), "it was let in"
        tokens.revoke("ann")
        client.sendall(body)
        assert client.recv(65536).startswith(b"HTTP/1.1 401 ")
    assert not catalog.namespace_exists("late")


def test_of_two_who_make_a_token_of_one_name_at_once_one_is_refused(
    tokens: AccessTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To revoke it by its name ended both, or who made the second shut out the first."""
    write = EventStore.write

    def after_another(store: EventStore) -> Any:
        monkeypatch.undo()
        with icecore.open(store.path.parent) as other:
            made(AccessTokens(other._warehouse.store), "read:*")
        return write(store)

    monkeypatch.setattr(EventStore, "write", after_another)
    with pytest.raises(ValidationError, match="there is a token 'ann' already"):
        made(tokens, "manage:*")
    assert [t.name for t in tokens.all()] == ["ann"]


def test_tokens_of_one_millisecond_are_listed_by_name(tokens: AccessTokens, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their random ids they came in another order each time that they were made."""
    monkeypatch.setattr(access_tokens, "now_ms", lambda: 1)
    for name in "fbdaec":
        tokens.create(name, [Grant.parse("read:*")])
    assert "".join(t.name for t in tokens.all()) == "abcdef"


def test_no_one_from_elsewhere_is_let_in_without_a_token(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="has no tokens"):
        serve(tmp_path / "w", host="0.0.0.0", port=0)


@pytest.fixture
def rest(catalog: icecore.Catalog) -> Iterator[RestClient]:
    with served(catalog, ServerSettings(readers=2)) as client:
        yield client
