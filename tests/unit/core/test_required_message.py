"""`icecore.require-message`: a commit that does not say why is refused, and nothing is stored."""

from __future__ import annotations

import pytest
from core_tables import ids_of, make_table, pyiceberg_catalog, rows

import icecore
from icecore.engine.errors import ValidationError

NEEDED = {"icecore.require-message": "true"}


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    """A table with a row, that asks for reasons."""
    table = make_table(catalog, properties=NEEDED)
    table.append(rows(0), message="the first row")
    table.overwrite(rows(1), message="another one")
    return table


def test_a_commit_without_a_reason_is_refused(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """Whatever it changes; a text of spaces is no reason. The files that it wrote are gone again."""
    snapshot_id = table.metadata.snapshots[0].snapshot_id
    position, files = catalog.position, sorted(catalog.path.rglob("*.parquet"))
    for commit in (
        lambda: table.append(rows(2)),
        lambda: table.append(rows(2), message="  "),
        lambda: table.delete("id = 1"),
        lambda: table.set_properties({"a": "b"}),
        lambda: table.remove_properties("icecore.require-message"),
        lambda: table.update_schema().rename_column("name", "label").commit(),
        lambda: table.manage_snapshots().create_tag(snapshot_id, "t").commit(),
        lambda: table.maintenance.expire_snapshots().older_than(2**53).commit(),
        lambda: catalog.rename_table("ns.t", "ns.u"),
        lambda: catalog.drop_table("ns.t"),
        lambda: catalog.drop_table("ns.t", purge=True),
    ):
        with pytest.raises(ValidationError, match=r"^ns\.t: a commit must say why, as .* is true of the table: give"):
            commit()
    assert catalog.position == position and ids_of(table.refresh()) == [1]
    assert sorted(catalog.path.rglob("*.parquet")) == files


def test_with_a_reason_all_is_as_ever(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """Maintenance and names too; the property goes by a commit that says why."""
    table.overwrite(rows(2), message="why")
    table.maintenance.expire_snapshots(message="why").older_than(2**53).commit()
    catalog.rename_table("ns.t", "ns.u", message="why")
    catalog.drop_table("ns.u", message="why")
    catalog.undrop_table("ns.u", message="why")
    table = catalog.load_table("ns.u")
    table.remove_properties("icecore.require-message", message="why")
    table.append(rows(3))
    assert ids_of(table) == [2, 3]


def test_a_namespace_asks_for_all_tables_in_it(catalog: icecore.Catalog) -> None:
    """At any depth, their creation too."""
    catalog.create_namespace("strict", NEEDED)
    catalog.create_namespace("strict.inner")
    with pytest.raises(ValidationError, match="true of the namespace strict: give it a message"):
        catalog.create_table("strict.inner.t", rows(1).schema)
    table = catalog.create_table("strict.inner.t", rows(1).schema, message="why")
    with pytest.raises(ValidationError, match="must say why"):
        table.append(rows(1))
    table.append(rows(1), message="why")
    with pytest.raises(ValidationError, match="must say why"), catalog.transaction() as transaction:
        transaction.table("strict.inner.t").append(rows(2))
    with catalog.transaction(message="why") as transaction:
        transaction.table("strict.inner.t").append(rows(2))
    assert ids_of(catalog.load_table("strict.inner.t")) == [1, 2]
    make_table(catalog).append(rows(1))


def test_what_another_engine_committed_is_taken_in(catalog: icecore.Catalog, table: icecore.Table) -> None:
    """It can't be refused any more."""
    peer = pyiceberg_catalog(catalog.path)
    peer.load_table("ns.t").append(rows(2))
    peer.close()
    assert ids_of(catalog.load_table("ns.t")) == [1, 2]
    table.refresh().append(rows(3), message="why")
