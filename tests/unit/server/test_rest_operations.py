"""The operations of the REST document, one after another as a client sends them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType
from rest_client import SCHEMA, VIEW_VERSION, RestClient, make_table, served

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.server.application import OPERATIONS
from icecore.engine.server.server_settings import ServerSettings


def test_configuration_lists_what_is_served(rest: RestClient, catalog: icecore.Catalog) -> None:
    found = rest.get("/v1/config?warehouse=anything").json
    assert found["endpoints"] == [e.documented for e in OPERATIONS if e.has_prefix]
    code, kind, message = rest.get("/v1/config?warehouse=/somewhere/else").error
    assert (code, kind) == (404, "NoSuchWarehouseException")
    assert str(catalog.path) not in message, "anybody may ask"


def test_a_warehouse_that_has_names_is_told_by_them(catalog: icecore.Catalog) -> None:
    """So that who means another server writes nothing here; who names none means the one there is."""
    with served(catalog, ServerSettings(names=("lake", "prod"))) as rest:
        for name in ("", "lake", "prod", str(catalog.path), catalog.path.as_uri(), "at/0"):
            assert rest.get(f"/v1/config?warehouse={quote(name)}").status == 200, name
        for name in ("dev", "LAKE", "lake/", "at"):
            assert rest.get(f"/v1/config?warehouse={quote(name)}").error[:2] == (404, "NoSuchWarehouseException"), name


def test_a_table_may_begin_without_columns(rest: RestClient, catalog: icecore.Catalog) -> None:
    """PyIceberg's own tests make such ones, and give them columns later."""
    client = RestCatalog("client", uri=rest.uri)
    client.create_namespace("ns")
    made = client.create_table("ns.t", Schema(), properties={"format-version": "3"})
    assert catalog.load_table("ns.t").scan().to_arrow().shape == (0, 0)
    made.update_schema().add_column("id", IntegerType(), required=True, default_value=5).commit()
    catalog.load_table("ns.t").append(pa.table({"id": [1]}))
    assert made.refresh().scan().to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("name", ["a%41", "100%25", "%1F", "%2E", "c d+é", "50%"])
def test_the_parent_of_namespaces_is_encoded_once_or_its_levels_twice(rest: RestClient, name: str) -> None:
    """Java's clients and the document do the one, PyIceberg does the other: a name may look like an encoded one."""
    for level in ([name], [name, "in"], [name, "in", "side"]):
        assert rest.post("/v1/namespaces", {"namespace": level}).json["namespace"] == level
    once = quote(name, safe="")
    for levels in ([name], [name, "in"]):
        for parts in (once, quote(once, safe="")):
            parent = "%1F".join((parts, *levels[1:]))
            found = rest.get(f"/v1/namespaces?parent={parent}").json
            assert found == {"namespaces": [[name, "in", "side"][: len(levels) + 1]]}, parent
    assert RestCatalog("lake", uri=rest.uri).list_namespaces((name, "in")) == [(name, "in", "side")]
    assert rest.get(f"/v1/namespaces?parent={once}%1Fnone").error[:2] == (404, "NoSuchNamespaceException")


def test_properties_may_have_values_that_only_the_client_reads(rest: RestClient, catalog: icecore.Catalog) -> None:
    """DuckDB's own tests give sizes with a unit, which Java's and other servers take too; who writes by it is told."""
    for more in ({}, {"stage-create": True}):
        made = make_table(rest, "t" + "2" * len(more), properties={"write.target-file-size-bytes": "200KB"}, **more)
        codec = {"write.parquet.compression-codec": "zstd"}
        assert made["metadata"]["properties"] == {"write.target-file-size-bytes": "200KB", **codec}, (
            "as of Java's server"
        )
    with pytest.raises(ValidationError, match="must be a whole number"):
        catalog.load_table("ns.t").append(pa.table({"id": [1], "city": ["Oslo"]}))


def test_namespaces_are_made_listed_changed_and_dropped(rest: RestClient, catalog: icecore.Catalog) -> None:
    made = rest.post("/v1/namespaces", {"namespace": ["a"], "properties": {"k": "1", "gone": "x"}})
    place = {"location": f"file://{catalog.path}/a"}
    assert made.json == {"namespace": ["a"], "properties": {"k": "1", "gone": "x", **place}}, "Trino needs a place"
    assert rest.post("/v1/namespaces", {"namespace": ["a", "b"]}).status == 200
    assert rest.get("/v1/namespaces?parent=a").json == {"namespaces": [["a", "b"]]}
    assert rest.get("/v1/namespaces/a%1Fb").json["namespace"] == ["a", "b"]
    assert rest.post("/v1/namespaces", {"namespace": ["c d+é"]}).status == 200
    assert rest.get("/v1/namespaces/c%20d%2B%C3%A9").json["namespace"] == ["c d+é"]
    missing = rest.ask("HEAD", "/v1/namespaces/nope")
    assert (missing.status, missing.body, missing.headers["content-type"]) == (404, b"", "application/json")
    changed = rest.post("/v1/namespaces/a/properties", {"removals": ["gone", "never"], "updates": {"k": "2"}})
    assert changed.json == {"updated": ["k"], "removed": ["gone"], "missing": ["never"]}
    assert catalog.load_namespace_properties("a") == {"k": "2"}
    assert rest.ask("DELETE", "/v1/namespaces/a").error[:2] == (409, "NamespaceNotEmptyException")
    assert rest.ask("DELETE", "/v1/namespaces/a%1Fb").status == 204


def test_a_plus_in_a_path_is_a_space_of_old_java_clients_alone(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Java's up to Iceberg 1.11 write `+` as %2B; Go's and Rust's clients leave it as it is."""
    old_java = {"x_client_version": "Apache Iceberg 1.8.1 (commit 9ce0fcf)"}
    for name in ("a b", "a+b"):
        assert rest.post("/v1/namespaces", {"namespace": [name]}).status == 200
        path = f"/v1/namespaces/{quote(name)}"
        assert rest.post(f"{path}/tables", {"name": name, "schema": SCHEMA}).status == 200
        made = {"name": f"v {name}", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
        assert rest.post(f"{path}/views", made).status == 200
    for _ in range(2):
        for headers, meant in (({}, "a+b"), (old_java, "a b")):
            assert rest.get("/v1/namespaces/a+b", **headers).json["namespace"] == [meant]
            table = rest.get("/v1/namespaces/a+b/tables/a+b", **headers).json["metadata"]["table-uuid"]
            assert table == str(catalog.load_table((meant, meant)).metadata.table_uuid)
            view = rest.get("/v1/namespaces/a+b/views/v%20a+b", **headers).json["metadata"]["view-uuid"]
            assert view == str(catalog.load_view((meant, f"v {meant}")).metadata.view_uuid)
    assert rest.ask("DELETE", "/v1/namespaces/a+b/tables/a+b").status == 204
    assert rest.ask("DELETE", "/v1/namespaces/a+b/tables/a+b").status == 404 and catalog.table_exists(("a b", "a b"))


def test_names_come_in_pages(rest: RestClient) -> None:
    for name in "abc":
        make_table(rest, name)
    first = rest.get("/v1/namespaces/ns/tables?pageSize=2").json
    assert [i["name"] for i in first["identifiers"]] == ["a", "b"]
    rest_of_them = rest.get(f"/v1/namespaces/ns/tables?pageSize=2&pageToken={first['next-page-token']}").json
    assert rest_of_them == {"identifiers": [{"namespace": ["ns"], "name": "c"}]}
    assert rest.get("/v1/namespaces/ns/tables?pageToken=!").status == 400
    for kind in ("tables", "views", "functions"):
        assert rest.get(f"/v1/namespaces/ns/{kind}?pageSize=0").status == 400


@pytest.mark.parametrize("digits", ["9" * 5_000, "%C2%B2"], ids=["too many", "of no number"])
def test_digits_that_python_makes_no_number_of_are_refused(rest: RestClient, digits: str) -> None:
    make_table(rest, "t")
    for path in (f"namespaces?pageSize={digits}", f"config?warehouse=at/{digits}"):
        assert rest.get(f"/v1/{path}").status == 400
    assert rest.post(f"/v1/namespaces/ns/tables/t/explain?limit={digits}", {}).status == 400


def test_a_table_is_made_loaded_changed_renamed_and_dropped(rest: RestClient, catalog: icecore.Catalog) -> None:
    made = make_table(rest, properties={"p": "1"})
    assert [f["id"] for f in made["metadata"]["schemas"][0]["fields"]] == [1, 2]
    loaded = rest.get("/v1/namespaces/ns/tables/t")
    assert loaded.json["metadata"] == made["metadata"]
    assert rest.get("/v1/namespaces/ns/tables/t", if_none_match=loaded.headers["etag"]).status == 304
    change = {
        "requirements": [{"type": "assert-table-uuid", "uuid": made["metadata"]["table-uuid"]}],
        "updates": [{"action": "set-properties", "updates": {"p": "2"}}],
    }
    changed = rest.post("/v1/namespaces/ns/tables/t", change, user_agent="A client/1.0", x_request_id="r-1")
    assert changed.json["metadata"]["properties"]["p"] == "2"
    last = catalog.log().to_pylist()[-1]
    assert (last["engine"], last["correlation_id"], last["actor"]) == ("A client/1.0", "r-1", "tester")
    assert rest.get("/v1/namespaces/ns/tables/t", if_none_match=loaded.headers["etag"]).status == 200
    stale = {**change, "requirements": [{"type": "assert-current-schema-id", "current-schema-id": 5}]}
    assert rest.post("/v1/namespaces/ns/tables/t", stale).error[:2] == (409, "CommitFailedException")
    names = {"source": {"namespace": ["ns"], "name": "t"}, "destination": {"namespace": ["ns"], "name": "u/1"}}
    assert rest.post("/v1/tables/rename", names).status == 204
    assert rest.ask("HEAD", "/v1/namespaces/ns/tables/u%2F1").status == 204
    assert rest.get("/v1/namespaces/ns/tables/t").error[:2] == (404, "NoSuchTableException")
    assert rest.ask("DELETE", "/v1/namespaces/ns/tables/u%2F1").status == 204
    assert rest.get("/v1/namespaces/ns/tables").json == {"identifiers": []}


def test_a_client_is_told_anew_where_a_table_is_and_how_it_is_read(tmp_path: Path) -> None:
    """What it has is old where the warehouse was moved or the server plans scans now, though no commit came."""
    path, there, moved = "/v1/namespaces/ns/tables/t", tmp_path / "lake", tmp_path / "moved"
    with icecore.open(there) as catalog, served(catalog) as rest:
        make_table(rest)
        tag = rest.get(path).headers["etag"]
        assert rest.get(path, if_none_match=tag).status == 304
    with icecore.open(there) as catalog, served(catalog, ServerSettings(plans_scans=True)) as rest:
        assert rest.get(path, if_none_match=tag).json["config"] == {"scan-planning-mode": "server"}
    icecore.move_warehouse(there, moved)
    with icecore.open(moved) as catalog, served(catalog) as rest:
        assert "/moved/" in rest.get(path, if_none_match=tag).json["metadata-location"]


def test_the_engine_is_the_one_that_the_snapshot_names(rest: RestClient, catalog: icecore.Catalog) -> None:
    """By their User-Agent all of Java's clients are `Apache-HttpClient`."""
    make_table(rest)
    table = RestCatalog("client", uri=rest.uri).load_table("ns.t")
    rows = catalog.load_table("ns.t").scan().to_arrow()
    table.append(rows)
    table.append(rows, snapshot_properties={"engine-name": "trino", "engine-version": "483"})
    first, second = (row["engine"] for row in catalog.log().to_pylist()[-2:])
    assert first.startswith("PyIceberg/") and second == f"trino 483 ({first})"
    odd = {"action": "set-properties", "updates": {"a": "b"}, "snapshot": [1]}
    for updates in (None, [odd]):
        assert rest.post("/v1/namespaces/ns/tables/t", {"requirements": [], "updates": updates}).status == 200


def test_several_tables_change_together_or_not_at_all(rest: RestClient, catalog: icecore.Catalog) -> None:
    make_table(rest, "a")
    make_table(rest, "b")

    def change(name: str, schema_id: int) -> dict[str, Any]:
        return {
            "identifier": {"namespace": ["ns"], "name": name},
            "requirements": [{"type": "assert-current-schema-id", "current-schema-id": schema_id}],
            "updates": [{"action": "set-properties", "updates": {"k": name}}],
        }

    refused = rest.post("/v1/transactions/commit", {"table-changes": [change("a", 0), change("b", 3)]})
    assert refused.status == 409
    assert "k" not in catalog.load_table("ns.a").properties
    assert rest.post("/v1/transactions/commit", {"table-changes": [change("a", 0), change("b", 0)]}).status == 204
    assert [catalog.load_table(f"ns.{n}").properties["k"] for n in "ab"] == ["a", "b"]


def test_a_staged_table_is_made_by_its_commit(rest: RestClient, catalog: icecore.Catalog) -> None:
    staged = make_table(rest, "s", **{"stage-create": True})["metadata"]
    assert not catalog.table_exists("ns.s")
    updates = [
        {"action": "assign-uuid", "uuid": staged["table-uuid"]},
        {"action": "upgrade-format-version", "format-version": staged["format-version"]},
        {"action": "add-schema", "schema": staged["schemas"][0], "last-column-id": 2},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": staged["partition-specs"][0]},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": staged["sort-orders"][0]},
        {"action": "set-default-sort-order", "sort-order-id": -1},
        {"action": "set-location", "location": staged["location"]},
    ]
    body = {"requirements": [{"type": "assert-create"}], "updates": updates}
    assert rest.post("/v1/namespaces/ns/tables/s", body).status == 200
    assert catalog.load_table("ns.s").metadata.table_uuid == staged["table-uuid"]
    assert rest.post("/v1/namespaces/ns/tables/s", body).status == 409
    # What a client leaves out is as in other tables, but there must be a schema.
    lesser = {**body, "updates": updates[2:-1]}
    made = rest.post("/v1/namespaces/ns/tables/lesser", lesser)
    assert made.status == 200 and catalog.load_table("ns.lesser").location().endswith("/ns/lesser")
    assert rest.post("/v1/namespaces/ns/tables/none", {**body, "updates": updates[4:]}).error == (
        400,
        "ValidationException",
        "the updates make no table: a table needs a schema",
    )


@pytest.mark.parametrize("ruled", [False, True], ids=["anywhere", "in the warehouse"])
@pytest.mark.parametrize("name", ["", "a\0b", "n" * 256], ids=["empty", "with NUL", "too long"])
def test_no_way_of_creating_takes_a_name_that_nothing_can_have(tmp_path: Path, name: str, ruled: bool) -> None:
    """A view named '' was stored and answered 500, a table by `assert-create` in no namespace at all with 204."""
    updates = [
        {"action": "add-schema", "schema": SCHEMA},
        {"action": "set-current-schema", "schema-id": -1},
        {"action": "add-spec", "spec": {"fields": []}},
        {"action": "set-default-spec", "spec-id": -1},
        {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
        {"action": "set-default-sort-order", "sort-order-id": -1},
    ]
    creation = {"requirements": [{"type": "assert-create"}], "updates": updates}
    view = {"name": name, "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    asked: list[tuple[str, Any]] = [("/v1/namespaces/ns/views", view)]
    for namespace in (["ns"], [], [""], ["n.s"]):
        change = {"identifier": {"namespace": namespace, "name": name if namespace == ["ns"] else "u"}, **creation}
        asked.append(("/v1/transactions/commit", {"table-changes": [change]}))
    if name:
        asked.append((f"/v1/namespaces/ns/tables/{quote(name)}", creation))
    roots = () if ruled else None
    with icecore.open(tmp_path / "w", location_roots=roots, unique_locations=ruled) as catalog, served(catalog) as rest:
        catalog.create_namespace("ns")
        refused = [rest.post(path, body).error[:2] for path, body in asked]
        assert refused == [(400, "ValidationException")] * len(asked)
        assert catalog.position == 1


def test_a_table_whose_metadata_file_is_gone_says_so(rest: RestClient, catalog: icecore.Catalog) -> None:
    location = make_table(rest)["metadata-location"]
    file = catalog._warehouse.repository.storage.local_path(location)
    assert file is not None

    os.rename(file, file + ".away")
    code, kind, message = rest.get("/v1/namespaces/ns/tables/t").error
    assert (code, kind) == (404, "NotFoundException")
    assert message.startswith("Failed to open input stream for file: ")
    os.rename(file + ".away", file)
    assert rest.get("/v1/namespaces/ns/tables/t").status == 200


def test_a_file_that_can_not_be_registered_is_the_clients_fault(rest: RestClient, catalog: icecore.Catalog) -> None:
    """It was answered 500, as if the server had failed: of another kind, no metadata, or where no file can be."""
    table = make_table(rest)["metadata-location"]
    view = {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    of_view = rest.post("/v1/namespaces/ns/views", view).json["metadata-location"]
    nonsense = catalog.path / "x.metadata.json"
    nonsense.write_bytes(b"{")
    position = catalog.position
    elsewhere = (nonsense.as_uri(), "http://127.0.0.1:1/x.metadata.json")
    for what, own, other in (("register", table, of_view), ("register-view", of_view, table)):
        for location in (other, *elsewhere):
            body = {"name": "x", "metadata-location": location}
            assert rest.post(f"/v1/namespaces/ns/{what}", body).error[0] == 400
        gone = rest.post(f"/v1/namespaces/ns/{what}", {"name": "x", "metadata-location": f"{own}.none"})
        assert gone.error[:2] == (404, "NotFoundException")
    assert catalog.position == position


@pytest.mark.parametrize(
    ("method", "path", "raw", "status"),
    [
        ("POST", "/v1/namespaces", b"{", 400),
        ("POST", "/v1/namespaces", b"[]", 400),
        ("POST", "/v1/namespaces", b'{"namespace": "ns"}', 400),
        ("POST", "/v1/namespaces", b'{"namespace": [1]}', 400),
        ("GET", "/v1/namespaces/%FF", b"", 400),
        ("GET", "/v1/nothing", b"", 404),
        # Who asks whether there is a namespace without a name was led to the list of all.
        ("GET", "/v1/namespaces/", b"", 404),
        ("GET", "/v1/namespaces/ns/tables/", b"", 404),
        ("PATCH", "/v1/namespaces", b"", 405),
        ("DELETE", "/v1/namespaces/ns/tables/t?purgeRequested=maybe", b"", 400),
        ("POST", "/v1/namespaces/ns/tables/t", b"", 400),
        ("POST", "/v1/namespaces/ns/properties", b"", 400),
        ("POST", "/v1/namespaces/ns/views/v", b"", 400),
        # What clients that are no engines' send for a commit: it was answered 200, and nothing was done.
        ("POST", "/v1/namespaces/ns/tables/t", b'{"properties": {"k": "v"}}', 400),
        ("POST", "/v1/namespaces/ns/views/v", b'{"properties": {"k": "v"}}', 400),
        (
            "POST",
            "/v1/transactions/commit",
            b'{"table-changes": [{"identifier": {"namespace": ["ns"], "name": "t"}, "properties": {"k": "v"}}]}',
            400,
        ),
        ("GET", "/v1/namespaces/nope/functions/f", b"", 404),
    ],
)
def test_what_is_malformed_is_the_clients_fault(
    rest: RestClient, method: str, path: str, raw: bytes, status: int
) -> None:
    make_table(rest)
    rest.post(
        "/v1/namespaces/ns/views", {"name": "v", "schema": SCHEMA, "view-version": VIEW_VERSION, "properties": {}}
    )
    reply = rest.ask(method, path, raw=raw)
    assert reply.status == reply.error[0] == status


def test_what_there_is_at_a_path_is_told(rest: RestClient) -> None:
    """The methods where it is asked by another, and by HEAD no length but that of what GET says."""
    make_table(rest)
    assert rest.ask("PATCH", "/v1/namespaces/ns/tables/t").headers["allow"] == "DELETE, GET, HEAD, POST"
    assert rest.ask("PATCH", "/v1/at/1/namespaces").headers["allow"] == "GET, HEAD, POST"
    for path, status in (("/v1/config", 200), ("/v1/namespaces", 200), ("/v1/namespaces/nope", 404)):
        found = rest.ask("HEAD", path)
        assert (found.status, found.headers["content-type"]) == (status, "application/json")
        assert "content-length" not in found.headers
    asked = rest.get("/v1/namespaces/ns/functions/f")
    assert asked.error == (404, "NoSuchFunctionException", "Function does not exist: ns.f")


@pytest.mark.parametrize("wrong", [{}, [], 1.5, None], ids=lambda wrong: type(wrong).__name__)
@pytest.mark.parametrize(
    ("action", "key"),
    [("remove-properties", "removals"), ("remove-schemas", "schema-ids"), ("remove-partition-specs", "spec-ids")],
)
def test_what_lists_hold_is_looked_at(
    rest: RestClient, catalog: icecore.Catalog, action: str, key: str, wrong: object
) -> None:
    """What can't be looked up was answered 500, which leaves clients in doubt; other values went into the log."""
    make_table(rest)
    position = catalog.position
    body: dict[str, Any] = {"requirements": [], "updates": [{"action": action, key: [wrong]}]}
    code, kind, message = rest.post("/v1/namespaces/ns/tables/t", body).error
    assert (code, kind) == (400, "ValidationException") and f"'{key}' must hold" in message
    blob = {"type": "t", "snapshot-id": 1, "sequence-number": 1, "fields": [wrong]}
    sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1}
    statistics = {"snapshot-id": 1, "statistics-path": "x", **sizes, "blob-metadata": [blob]}
    body["updates"] = [{"action": "set-statistics", "statistics": statistics}]
    assert "'fields' must hold" in rest.post("/v1/namespaces/ns/tables/t", body).error[2]
    version = {**VIEW_VERSION, "default-namespace": [wrong]}
    view = {"name": "v", "schema": SCHEMA, "view-version": version, "properties": {}}
    assert "'default-namespace' must hold" in rest.post("/v1/namespaces/ns/views", view).error[2]
    assert catalog.position == position


def test_namespaces_are_made_for_what_is_created_where_the_server_does_so(catalog: icecore.Catalog) -> None:
    body = {"name": "t", "schema": SCHEMA}
    with served(catalog) as strict:
        assert strict.post("/v1/namespaces/a%1Fb/tables", body).error[:2] == (404, "NoSuchNamespaceException")
    with served(catalog, ServerSettings(makes_namespaces=True)) as lenient:
        assert lenient.post("/v1/namespaces/a%1Fb/tables", body).status == 200
    assert catalog.namespace_exists("a.b")


def test_a_dry_run_says_what_a_commit_would_be(rest: RestClient, catalog: icecore.Catalog) -> None:
    make_table(rest)
    position = catalog.position
    updates = [{"action": "set-properties", "updates": {"k": "v"}}]
    told = rest.post("/v1/namespaces/ns/tables/t", {"updates": updates}, x_icecore_dry_run="true").json
    assert told["conflicts"] == [] and told["events"][0]["payload"]["updates"] == updates
    stale = {"updates": updates, "requirements": [{"type": "assert-current-schema-id", "current-schema-id": 4}]}
    told = rest.post("/v1/namespaces/ns/tables/t", stale, x_icecore_dry_run="true").json
    assert told["events"] == [] and "current schema" in told["conflicts"][0]
    assert catalog.position == position
