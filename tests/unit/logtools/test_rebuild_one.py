"""The files of one table or view made again from the log."""

from __future__ import annotations

import shutil

import pytest
from core_tables import ids_of, local, make_table, peer_ids, rows

import icecore
from icecore.engine.errors import NoSuchTableError
from icecore.engine.table.table import Table


def files_of(table: Table) -> dict[str, bytes]:
    assert table.metadata_location is not None
    folder = local(table.metadata_location).parent
    return {p.name: p.read_bytes() for p in folder.iterdir() if not p.name.startswith(".")}


@pytest.mark.parametrize("scheme", ["metastore", "filesystem"])
def test_one_table_is_rebuilt_with_the_same_bytes(catalog: icecore.Catalog, scheme: str) -> None:
    """What was lost and what was damaged comes back; other tables' files are left as they are."""
    table, other = (make_table(catalog, n, properties={"icecore.commit-scheme": scheme}) for n in ("t", "other"))
    for n in range(3):
        table.append(rows(n))
        other.append(rows(n))
    table.delete("id = 1")
    before = files_of(table)
    for name in before:
        path = local(table.metadata_location).with_name(name)
        if name.endswith(".avro"):
            path.unlink()
        elif name.endswith("metadata.json"):
            path.write_bytes(b"damaged")
    shutil.rmtree(local(other.metadata_location).parent)
    catalog.rebuild("ns.t")
    assert files_of(table) == before
    assert ids_of(table) == peer_ids(catalog.path, "ns.t") == [0, 2]
    assert not local(other.metadata_location).exists()
    catalog.rebuild(("ns", "other"))
    assert catalog.verify().problems == ()
    table.append(rows(9))
    assert peer_ids(catalog.path, "ns.t") == [0, 2, 9]


def test_one_view_is_rebuilt_and_a_name_must_be_known(catalog: icecore.Catalog) -> None:
    make_table(catalog).append(rows(1))
    view = catalog.create_view("ns.v", "SELECT id FROM t")
    assert view.metadata_location is not None
    good = local(view.metadata_location).read_bytes()
    local(view.metadata_location).unlink()
    catalog.rebuild("ns.v")
    assert local(view.metadata_location).read_bytes() == good
    with pytest.raises(NoSuchTableError, match="nobody"):
        catalog.rebuild("ns.nobody")


def test_a_folder_s_hint_stays_that_of_its_last_commit(catalog: icecore.Catalog) -> None:
    """Where a table was registered under a second name, and goes on under the first."""
    table = make_table(catalog)
    table.append(rows(1))
    assert table.metadata_location is not None
    catalog.register_table("ns.second", table.metadata_location)
    table.append(rows(2))
    hint = local(table.metadata_location).with_name("version-hint.text")
    before = hint.read_text()
    catalog.rebuild()
    assert hint.read_text() == before
