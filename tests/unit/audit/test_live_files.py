"""The live files of a snapshot: the same from the entries of its manifests and from those that plans are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from core_tables import make_table, rows

import icecore
from icecore.projections.inspect import live_files
from icecore.projections.inspect.live_files import LIVE_FILES


def both(table: icecore.Table) -> list[dict[str, object]]:
    """The files in order, found to be the same both ways."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    planner, state = table._planner, table.state
    short = live_files.of_manifests(planner, state, planner.list_manifests(state, snapshot))
    long = live_files.of_entries(planner, state, snapshot)
    assert short.schema == long.schema == LIVE_FILES
    assert short.to_pylist() == long.to_pylist() == table.files().to_pylist()
    found: list[dict[str, object]] = short.to_pylist()
    return found


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("spec", [[], ["name", "bucket(2, id)"]])
def test_both_ways_give_the_same(catalog: icecore.Catalog, tmp_path: Path, version: int, spec: list[str]) -> None:
    """With files that were deleted, delete files, another spec, and in another warehouse too."""
    properties = {"write.delete.mode": "merge-on-read"} if version > 1 else {}
    table = make_table(catalog, format_version=version, partition_spec=spec, properties=properties)
    for first in range(0, 12, 3):
        table.append(rows(first, first + 1, first + 2))
        both(table)
    table.delete("id = 4 OR id = 9")
    assert any(f["content"] == "position_deletes" for f in both(table)) == (version > 1 and not spec)
    table.delete("id < 3")
    both(table)
    with table.update_spec() as change:
        change.add_field("name", "truncate[1]")
    table.append(rows(20, 21))
    found = both(table)
    assert {f["content"] for f in found} >= {"data"} and len({f["spec_id"] for f in found}) == 2
    assert table.metadata_location is not None
    with icecore.open(tmp_path / "other") as other:
        other.create_namespace("ns")
        assert both(other.register_table("ns.t", table.metadata_location)) == found
    table.delete("TRUE")
    both(table)
