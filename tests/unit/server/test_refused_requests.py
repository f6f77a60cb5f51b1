"""Requests that the server could not carry out: their status says whether anything may have been stored."""

from __future__ import annotations

import base64
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from core_tables import make_table, rows, store_of
from rest_client import SCHEMA, Reply, RestClient, served
from rest_client import make_table as make_rest_table

import icecore
import icecore.projections.segments.manifest_selection
from icecore.engine import errors
from icecore.engine.common import json_reader
from icecore.engine.errors import CommitStateUnknownError, IcecoreError
from icecore.engine.joint_commit.joint_commit import commit_jointly
from icecore.engine.server.resources import commits, loaded
from icecore.engine.server.resources.loaded import state_committed
from icecore.engine.server.wire.refusal import Refusal

NOT_KNOWN = CommitStateUnknownError
OF_NAMES = (errors.NoSuchTableError, errors.NoSuchViewError, errors.NoSuchNamespaceError)


def every_error(kind: type[IcecoreError] = IcecoreError) -> Iterator[type[IcecoreError]]:
    """All classes of errors that icecore raises on purpose."""
    yield kind
    for below in kind.__subclasses__():
        yield from every_error(below)


@pytest.mark.parametrize("kind", dict.fromkeys(every_error()), ids=lambda kind: kind.__name__)
def test_only_what_may_be_stored_is_answered_as_if_it_were(kind: type[IcecoreError]) -> None:
    """Java reads 5xx of a commit as that it may have been made, and 404 as that the table is not there."""
    error = kind.__new__(kind)
    for refusal in (Refusal.COMMIT, Refusal.CREATION):
        status, java_class = refusal.answer_to(error, is_stored=False)
        assert (status >= 500) == issubclass(kind, NOT_KNOWN)
        assert status != 404 or issubclass(kind, (*OF_NAMES, errors.NotFoundError))
        assert java_class.endswith("Exception")
        assert refusal.answer_to(error, is_stored=True) == (500, "CommitStateUnknownException")
    taken = errors.AlreadyExistsError | errors.CommitConflictError | errors.UnwritableCommitError
    taken |= errors.NamespaceNotEmptyError
    status, _ = Refusal.CREATION.answer_to(error, is_stored=False)
    assert status != 409 or issubclass(kind, taken), "IF NOT EXISTS would pass over it"
    assert Refusal.AS_IT_IS.answer_to(error, is_stored=False) == (kind.http_status, kind.rest_type)


def test_a_staged_table_is_refused_as_a_creation() -> None:
    body = {"requirements": [{"type": "assert-create"}]}
    assert Refusal.COMMIT.of(body) is Refusal.CREATION
    for other in ({"requirements": None}, {"requirements": 5}, {"requirements": [1]}, {}):
        assert Refusal.COMMIT.of(other) is Refusal.COMMIT
    assert Refusal.AS_IT_IS.of(body) is Refusal.AS_IT_IS


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[icecore.Catalog]:
    """A warehouse whose lock is waited for a moment only, with the table `ns.t`."""
    with icecore.open(tmp_path / "warehouse") as catalog:
        store_of(catalog)._lock_timeout_s = 0.05
        catalog.create_namespace("ns")
        make_table(catalog).append(rows(1))
        yield catalog


def set_property(value: str) -> dict[str, Any]:
    return {"requirements": [], "updates": [{"action": "set-properties", "updates": {"k": value}}]}


def test_a_lock_that_is_not_got_is_a_refusal_without_doubt(impatient: icecore.Catalog) -> None:
    """Nothing is stored, and the answer says that a retry is safe; a creation does not say that the name is taken."""
    column = {"id": 1, "name": "id", "required": False, "type": "long"}
    new = {"name": "u", "schema": {"type": "struct", "fields": [column]}}
    other = sqlite3.connect(Path(impatient.path) / "icecore.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    before = impatient.position
    with served(impatient) as rest:
        assert rest.post("/v1/namespaces/ns/tables/t", set_property("1")).error[:2] == (409, "CommitFailedException")
        assert rest.post("/v1/namespaces/ns/tables", new).error[:2] == (400, "BadRequestException")
        name = {"namespace": ["ns"], "name": "t"}
        for method, path, body in (
            ("POST", "/v1/namespaces", {"namespace": ["x"]}),
            ("POST", "/v1/namespaces/ns/properties", {"updates": {"k": "1"}}),
            ("DELETE", "/v1/namespaces/ns", None),
            ("POST", "/v1/tables/rename", {"source": name, "destination": {**name, "name": "u"}}),
            ("DELETE", "/v1/namespaces/ns/tables/t", None),
        ):
            reply = rest.ask(method, path, body)
            assert reply.error[:2] == (429, "TooManyRequestsException")
            assert int(reply.headers["retry-after"]) > 0
        other.execute("ROLLBACK")
        other.close()
        assert impatient.position == before
        assert rest.post("/v1/namespaces/ns/tables/t", set_property("1")).status == 200


def test_a_commit_that_can_not_be_shown_again_is_not_refused(
    impatient: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that hears of a refusal deletes the files that it wrote for the commit, which is in the log."""

    def fails(*_: object) -> None:
        raise errors.StorageError("the disk went away")

    monkeypatch.setattr(commits, "state_committed", fails)
    before = impatient.position
    with served(impatient) as rest:
        told = rest.post("/v1/namespaces/ns/tables/t", set_property("2")).error
    assert told == (500, "CommitStateUnknownException", "the disk went away")
    assert impatient.position == before + 1


def test_a_commit_that_comes_again_by_its_key_is_not_refused_either(
    impatient: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the first time can't be made again right now: the commit is in the log all the same."""

    def fails(*_: object) -> None:
        raise errors.StorageError("the disk went away")

    before = impatient.position
    key = {"Idempotency-Key": "0198c0f0-7b8e-7000-8000-000000000001"}
    path = "/v1/namespaces/ns/tables/t"
    with served(impatient) as rest:
        with monkeypatch.context() as patched:
            patched.setattr(loaded, "_whole_table", fails)
            for _ in range(2):
                told = rest.ask("POST", path, set_property("3"), key).error
                assert told == (500, "CommitStateUnknownException", "the disk went away")
        assert rest.ask("POST", path, set_property("3"), key).status == 200
    assert impatient.position == before + 1


def test_a_commit_that_comes_again_has_its_files_where_they_are_written_by_hand(
    impatient: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written for the answer: the first time that was cut off, the second one told of files not there."""
    table = make_table(impatient, "u", properties={"icecore.materialize": "manual"})
    table.append(rows(1))
    key, path = {"Idempotency-Key": "0198c0f0-7b8e-7000-8000-000000000002"}, "/v1/namespaces/ns/tables/u"

    def fails(*_: object) -> None:
        raise errors.StorageError("the disk went away")

    with served(impatient) as rest:
        with monkeypatch.context() as patched:
            patched.setattr(commits, "state_committed", fails)
            assert rest.ask("POST", path, set_property("1"), key).status == 500
        again = rest.ask("POST", path, set_property("1"), key)
        assert rest.ask("POST", path, set_property("1"), key).body == again.body
        told, storage = again.json, table.scan().storage
        assert told["metadata"]["properties"]["k"] == "1"
        assert orjson.loads(storage.read_bytes(told["metadata-location"])) == told["metadata"]
        assert storage.exists(told["metadata"]["snapshots"][0]["manifest-list"])


def test_a_commit_is_to_the_table_that_has_the_name_when_it_is_made(
    impatient: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A register with overwrite, between the look at the name and the lock, made it a 404 of a table that is there."""
    table, other = impatient.load_table("ns.t"), make_table(impatient, "u")
    ours, theirs = (t.state.metadata_location for t in (table, other))
    assert ours is not None and theirs is not None
    impatient.unregister_table("ns.u")
    path = "/v1/namespaces/ns/tables/t"
    asserted = [{"type": "assert-table-uuid", "uuid": str(table.metadata.table_uuid)}]
    change = {"identifier": {"namespace": ["ns"], "name": "t"}, **set_property("3")}

    def raced(happens: Callable[[], object], path: str, body: object) -> Reply:
        def after(*given: Any) -> Any:
            with ThreadPoolExecutor(1) as others:
                others.submit(happens).result()
            return commit_jointly(*given)

        with monkeypatch.context() as patched:
            patched.setattr(commits, "commit_jointly", after)
            return rest.post(path, body)

    with served(impatient) as rest:
        made = raced(lambda: impatient.register_table("ns.t", theirs, overwrite=True), path, set_property("1")).json
        assert made["metadata"]["table-uuid"] == str(other.metadata.table_uuid)
        assert made["metadata"]["properties"]["k"] == "1"
        again = raced(
            lambda: impatient.register_table("ns.t", ours, overwrite=True),
            "/v1/transactions/commit",
            {"table-changes": [change]},
        )
        assert again.status == 204 and impatient.load_table("ns.t").properties["k"] == "3"
        body = {**set_property("2"), "requirements": asserted}
        told = raced(lambda: impatient.register_table("ns.t", theirs, overwrite=True), path, body).error
        assert told[:2] == (409, "CommitFailedException") and "UUID does not match" in told[2]
        gone = raced(lambda: impatient.rename_table("ns.t", "ns.elsewhere"), path, set_property("4"))
        assert gone.error[:2] == (404, "NoSuchTableException")
    assert "k" not in impatient.load_table("ns.elsewhere").properties


def test_a_commit_is_answered_with_its_table_whoever_has_the_name_by_then(
    impatient: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table whose files are written by hand they are written for the answer, under whatever name it has."""
    uuid = str(make_table(impatient, "u", properties={"icecore.materialize": "manual"}).metadata.table_uuid)

    def another_of_the_name() -> None:
        impatient.rename_table("ns.u", "ns.w")
        make_table(impatient, "u")

    def raced(name: str, value: str, happens: Callable[[], object]) -> Any:
        def after(*given: Any) -> Any:
            with ThreadPoolExecutor(1) as others:
                others.submit(happens).result()
            return state_committed(*given)

        with monkeypatch.context() as patched:
            patched.setattr(commits, "state_committed", after)
            made = rest.post(f"/v1/namespaces/ns/tables/{name}", set_property(value))
        assert made.status == 200, made.body
        return made.json

    with served(impatient) as rest:
        for name, value, happens in (
            ("u", "1", another_of_the_name),
            ("w", "2", lambda: impatient.drop_table("ns.w")),
        ):
            made = raced(name, value, happens)
            assert (made["metadata"]["table-uuid"], made["metadata"]["properties"]["k"]) == (uuid, value)


def test_a_staged_table_that_lost_the_race_says_so_in_the_words_of_java(impatient: icecore.Catalog) -> None:
    with served(impatient) as rest:
        told = rest.post("/v1/namespaces/ns/tables/t", {"requirements": [{"type": "assert-create"}], "updates": []})
    code, java_class, text = told.error
    assert (code, java_class) == (409, "AlreadyExistsException")
    assert text.startswith("Requirement failed: table already exists: ns.t; its last commit is position 3 by ")


@pytest.mark.parametrize(("name", "transform"), [("city", "bucket[2]"), ("city", "identity"), ("", "identity")])
def test_a_table_that_java_could_not_read_is_not_made(rest: RestClient, name: str, transform: str) -> None:
    """Its clients refuse metadata whose partition field has the name of a column other than its source, or none."""
    path, field = "/v1/namespaces/ns/tables", {"name": name, "transform": transform}
    make_rest_table(rest)
    spec = {"partition-spec": {"fields": [{**field, "source-id": 7}]}}
    added = {"updates": [{"action": "add-spec", "spec": {"fields": [{**field, "source-id": 1}]}}]}
    for staged in (False, True):
        asked = {"name": "u", "schema": SCHEMA, **spec, "stage-create": staged}
        assert rest.post(path, asked).error[0] == 400
    assert rest.post(f"{path}/t", added).error[0] == 400
    fine = {"fields": [{"name": "x", "transform": transform, "source-id": 1}]}
    assert rest.post(f"{path}/t", {"updates": [{"action": "add-spec", "spec": fine}]}).status == 200
    named = [(1, "id", "long", True), (2, "city", "string", False), (3, "x", "long", False)]
    fields = [{"id": i, "name": n, "type": t, "required": r} for i, n, t, r in named]
    column = {"action": "add-schema", "schema": {"type": "struct", "fields": fields}}
    told = rest.post(f"{path}/t", {"updates": [column, {"action": "set-current-schema", "schema-id": -1}]}).error
    assert told[0] == 400 and "'x'" in told[2]


def test_two_columns_of_one_name_are_refused(rest: RestClient) -> None:
    """Java refuses to load a table with a column `a.b` beside a struct `a` with a field `b`."""
    path = "/v1/namespaces/ns/tables"
    inner = {"type": "struct", "fields": [{"id": 3, "name": "b", "type": "long", "required": False}]}
    fields = [(1, "a.b", "long"), (2, "a", inner)]
    schema = {"type": "struct", "fields": [{"id": i, "name": n, "type": t, "required": False} for i, n, t in fields]}
    make_rest_table(rest)
    assert "name 'a.b'" in rest.post(path, {"name": "u", "schema": schema}).error[2]
    told = rest.post(f"{path}/t", {"updates": [{"action": "add-schema", "schema": schema}]}).error
    assert told[0] == 400 and "name 'a.b'" in told[2]


def test_what_python_takes_long_to_read_is_refused_unread(rest: RestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other client is answered meanwhile. It may come packed: the token of a plan task takes a thousandth."""
    make_rest_table(rest)
    monkeypatch.setattr(json_reader, "MOST_INSIDE", 1_000)
    read: list[str] = []

    def noted(data: bytes, what: str) -> Any:
        read.append(what)
        return orjson.loads(data)

    monkeypatch.setattr(json_reader, "loads", noted)
    many = b'{"x":[' + b",".join([b"[]"] * 999) + b"]}"
    fewer = many.replace(b"[],", b"", 1)
    token = {"plan-task": base64.urlsafe_b64encode(zlib.compress(many)).decode()}
    path = "/v1/namespaces/ns/tables/t"
    for ask in (rest.ask("POST", path, raw=many), rest.ask("POST", f"{path}/plan", raw=many)):
        assert ask.error[0] == 400 and "lists and objects" in ask.error[2]
    assert not read
    assert rest.post(f"{path}/tasks", token).error[:2] == (404, "NoSuchPlanTaskException")
    assert read == ["the request"]
    assert rest.ask("POST", f"{path}/plan", raw=fewer).status == 200
