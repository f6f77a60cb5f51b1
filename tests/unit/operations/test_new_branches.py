"""Branches that commits make: of main, or of nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from core_tables import ids_of, make_table, pyiceberg_catalog, rows

import icecore
from icecore.engine.errors import NoSuchSnapshotError, ValidationError


@pytest.mark.parametrize("name", ["", 5, None, b"x"])
def test_a_branch_has_a_name(catalog: icecore.Catalog, name: Any) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    with pytest.raises(ValidationError, match="a branch is named by text"):
        table.append(rows(2), branch=name)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_first_rows_of_a_table_go_to_any_branch(catalog: icecore.Catalog, version: int) -> None:
    """C1: as in Java the branch begins with nothing, and main stays without a snapshot until it gets its own."""
    table = make_table(catalog, format_version=version, partition_spec=["name"])
    table.delete("id = 1", branch="dev")
    assert table.metadata.refs == {}
    table.append(rows(1), branch="dev")
    table.upsert(rows(1, 2), ["id"], branch="dev")
    assert list(table.metadata.refs) == ["dev"] and (ids_of(table), ids_of(table, ref="dev")) == ([], [1, 2])
    table.dynamic_partition_overwrite(rows(3), branch="other")
    table.append(rows(4))
    table.delete("id = 2", branch="dev")
    assert [ids_of(table, ref=r) for r in ("main", "dev", "other")] == [[4], [1], [3]]
    assert catalog.verify(deep=True).ok
    catalog.rebuild()
    assert catalog.verify(deep=True).ok
    peer = pyiceberg_catalog(catalog.path)
    found = peer.load_table("ns.t")
    assert found.scan(snapshot_id=found.refs()["dev"].snapshot_id).to_arrow()["id"].to_pylist() == [1]
    peer.close()


def test_a_first_branch_starts_from_a_main_that_comes_meanwhile(
    catalog: icecore.Catalog, open_again: Callable[[], icecore.Catalog]
) -> None:
    """What another process commits first is its beginning, as of any branch that is made; a second one goes on."""
    table = make_table(catalog)
    with table.transaction() as change:
        change.append(rows(2), branch="dev")
        open_again().load_table("ns.t").append(rows(1))
    assert (ids_of(table), ids_of(table, ref="dev")) == ([1], [1, 2])
    second = make_table(catalog, "second")
    with second.transaction() as change:
        change.append(rows(2), branch="dev")
        open_again().load_table("ns.second").append(rows(1), branch="dev")
    assert (ids_of(second), ids_of(second, ref="dev")) == ([], [1, 2])


def test_a_branch_that_nothing_is_committed_to_is_not_made(catalog: icecore.Catalog) -> None:
    """Of an empty table there is none to compact, or to read."""
    table = make_table(catalog)
    for ask in (lambda: table.rewrite_data_files(branch="dev"), lambda: table.scan(ref="dev").to_arrow()):
        with pytest.raises(NoSuchSnapshotError, match="no branch or tag 'dev'"):
            ask()
