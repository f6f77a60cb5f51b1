"""The prefix `at/<position or time>`: the whole catalog as it was, for any client, to be read."""

from __future__ import annotations

import pytest
from pyiceberg.catalog.rest import RestCatalog
from rest_client import RestClient, make_table

import icecore
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant


def test_the_catalog_is_as_it_was(rest: RestClient, catalog: icecore.Catalog) -> None:
    make_table(rest)
    before = catalog.position
    catalog.load_table("ns.t").append([{"id": 1, "city": "Oslo"}])
    catalog.create_namespace("later")
    catalog.rename_table("ns.t", "ns.u")
    prefix = rest.get(f"/v1/config?warehouse=at/{before}").json["overrides"]["prefix"]
    assert rest.get(f"/v1/{prefix}/namespaces").json == {"namespaces": [["ns"]]}
    assert rest.get(f"/v1/{prefix}/namespaces/ns/tables/t").json["metadata"].get("snapshots", []) == []
    assert rest.get(f"/v1/{prefix}/namespaces/ns/tables/u").status == 404
    assert rest.post(f"/v1/{prefix}/namespaces", {"namespace": ["x"]}).error[:2] == (403, "ForbiddenException")
    assert rest.get("/v1/at/99/namespaces").status == rest.get("/v1/at/soon/namespaces").status == 400


@pytest.mark.parametrize("what", ["namespaces", "namespaces/ns/tables", "namespaces/ns/views", "namespaces?parent=ns"])
def test_names_of_the_past_come_in_pages_too(rest: RestClient, catalog: icecore.Catalog, what: str) -> None:
    """The same ones as then: whatever is made or dropped between two pages."""
    names = ["b", "ns", "ä", "é", "\U0001f600", "Z"]
    for name in names:
        catalog.create_namespace(name)
    for name in names:
        catalog.create_namespace(("ns", name))
        make_table(rest, name)
        catalog.create_view(("ns", f"{name}!"), "SELECT 1 AS one")
    then = f"/v1/at/{catalog.position}/{what}{'&' if '?' in what else '?'}pageSize=2&pageToken="
    live = rest.get(f"/v1/{what}").json
    key = next(k for k in live if k != "next-page-token")
    found: list[object] = []
    token = ""
    while token is not None:
        page = rest.get(then + token).json
        assert len(page[key]) == 2
        found += page[key]
        token = page.get("next-page-token")
        catalog.create_namespace(f"new{len(found)}")
        catalog.create_namespace(("ns", f"new{len(found)}"))
        catalog.drop_view(("ns", f"{names[len(found) // 2]}!"))
    assert found == live[key] and len(found) == len(names)
    assert rest.get(then + "none").error[2] == "'none' is no page token"


def test_a_time_with_a_space_is_a_prefix_without_one(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Clients put it into their paths as they get it."""
    catalog.create_namespace("ns")
    told = rest.get("/v1/config?warehouse=at/2100-01-31%2012:30:00%2B02:00").json["overrides"]["prefix"]
    assert told == "at/2100-01-31T12:30:00+02:00"
    assert rest.get(f"/v1/{told}/namespaces").json == {"namespaces": [["ns"]]}


def test_a_client_reads_rows_as_they_were(rest: RestClient, catalog: icecore.Catalog) -> None:
    make_table(rest)
    table = catalog.load_table("ns.t")
    table.append([{"id": 1, "city": "Oslo"}])
    before = catalog.position
    table.delete("id = 1")
    table.append([{"id": 2, "city": "Rome"}])
    then = RestCatalog("then", uri=rest.uri, warehouse=f"at/{before}")
    assert then.load_table("ns.t").scan().to_arrow().to_pylist() == [{"id": 1, "city": "Oslo"}]
    assert RestCatalog("now", uri=rest.uri).load_table("ns.t").scan().to_arrow()["id"].to_pylist() == [2]
    with pytest.raises(Exception, match="can only be read"):
        then.drop_table("ns.t")


def test_a_client_reads_rows_of_a_table_whose_files_are_written_by_hand(
    rest: RestClient, catalog: icecore.Catalog
) -> None:
    """Its file of then is an earlier one: a table without rows was shown, or one whose manifest lists are not there."""
    make_table(rest, properties={"icecore.materialize": "manual"})
    for number in (1, 2):
        catalog.load_table("ns.t").append([{"id": number, "city": "Oslo"}])
    end = catalog.position
    for position, ids in ((end - 2, []), (end - 1, [1]), (end, [1, 2])):
        then = RestCatalog("then", uri=rest.uri, warehouse=f"at/{position}").load_table("ns.t")
        assert sorted(then.scan().to_arrow()["id"].to_pylist()) == ids


def test_what_was_forgotten_is_not_told_from_memory(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Another process forgets it, which the server is not told of."""
    make_table(rest, properties={"owner": "Jane Doe"})
    then = f"/v1/at/{catalog.position}/namespaces/ns/tables/t"
    catalog.load_table("ns.t").remove_properties("owner")
    assert b"Jane Doe" in rest.get(then).body
    with icecore.open(catalog.path) as other:
        other.forget_text("Jane Doe")
    assert rest.get(then).status == 200 and b"Jane Doe" not in rest.get(then).body


def test_who_may_not_read_all_is_not_told_how_long_the_log_is(rest: RestClient, catalog: icecore.Catalog) -> None:
    """Clients ask for the configuration before they have a token; that a position is not there they are told later.

    Who may read in some namespaces names a time.
    """
    make_table(rest)
    catalog.create_namespace("hidden")
    tokens = AccessTokens(catalog._warehouse.store)
    some, every = (f"Bearer {tokens.create(grant, [Grant.parse(grant)])[1]}" for grant in ("read:ns", "read:*"))
    there, beyond = (f"at/{catalog.position + more}" for more in (0, 1))
    assert [rest.get(f"/v1/config?warehouse={at}").json["overrides"]["prefix"] for at in (there, beyond)] == [
        there,
        beyond,
    ]
    assert rest.get("/v1/config?warehouse=at/soon").status == 400
    asked = [rest.get(f"/v1/{at}/namespaces") for at in (there, beyond)]
    assert asked[0].body == asked[1].body and asked[0].status == 401
    assert [rest.get(f"/v1/{at}/namespaces", authorization=every).status for at in (there, beyond)] == [200, 400]
    asked = [rest.get(f"/v1/{at}/namespaces", authorization=some) for at in (there, beyond)]
    assert asked[0].body == asked[1].body and asked[0].status == 403
    assert rest.get("/v1/at/2100-01-01/namespaces", authorization=some).json == {"namespaces": [["ns"]]}
    for missing in ("ns/tables/zzz", "ns/views/zzz", "ns%1Fzzz"):
        path = f"/v1/at/2100-01-01/namespaces/{missing}"
        told = [rest.get(path, authorization=by).error[2] for by in (some, every)]
        assert told[1] == f"{told[0]} at position {catalog.position}"
