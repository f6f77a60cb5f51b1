"""Texts of a warehouse that is moved and that look like locations: only what is a location by its place is one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from core_tables import ids_of, make_table, peer_ids, rows

import icecore
from icecore.engine.spec.types import StringType


@pytest.mark.parametrize("way", ["move", "clone"])
def test_names_and_comments_stay_as_they_are(catalog: icecore.Catalog, warehouse: Path, way: str) -> None:
    """A branch would be another one after a move, a column would be read as one that no file has."""
    was, path = str(warehouse), f"{warehouse}/ns/t"
    namespace = (was,)
    catalog.create_namespace(namespace, {"location": path, "comment": "of the lake"})
    named = catalog.create_table((*namespace, path), pa.schema([("id", pa.int64())]))
    named.append([{"id": 5}])
    catalog.rename_table((*namespace, path), (*namespace, f"{path}2"))
    table = make_table(catalog, properties={"write.data.path": f"{path}/files", "name": was})
    with table.update_schema() as schema:
        schema.add_column(path, StringType(), doc=f"{path}/readme.md")
        schema.update_column("id", doc=was)
    table.append(pa.table({"id": [1], "name": ["a"], path: ["b"]}), snapshot_properties={"asked-in": f"{path}/ask"})
    first = table.current_snapshot()
    assert first is not None
    with table.manage_snapshots() as refs:
        refs.create_tag(first.snapshot_id, path).create_branch(first.snapshot_id, was)
    table.append(rows(2), branch=was)
    table.set_properties({was: "x"})
    table.remove_properties(was)
    end = catalog.position
    catalog.close()
    new = warehouse.with_name("new")
    if way == "move":
        warehouse.rename(new)
        icecore.move_warehouse(new)
    else:
        icecore.clone_warehouse(warehouse, new)
    with icecore.open(new) as lake:
        for at in (lake, lake.at(end)):
            moved = at.load_table("ns.t")
            assert sorted(moved.metadata.refs) == sorted(["main", path, was])
            assert [(f.name, f.doc) for f in moved.schema().fields] == [
                ("id", was),
                ("name", None),
                (path, f"{path}/readme.md"),
            ]
            assert (
                moved.location() == f"file://{new}/ns/t" and moved.properties["write.data.path"] == f"{new}/ns/t/files"
            )
            assert moved.snapshots()[0].summary["asked-in"] == f"{path}/ask"  # type: ignore[index]
            assert was not in moved.properties
            assert at.list_tables(namespace) == [(was, f"{path}2")]
            assert at.load_namespace_properties(namespace)["location"] == f"{new}/ns/t"
        assert moved.scan().to_arrow().to_pylist() == [{"id": 1, "name": "a", path: "b"}]
        assert ids_of(moved, ref=was) == [1, 2] and peer_ids(new) == [1]
        assert lake.verify(deep=True).problems == ()
        lake.rebuild()
        assert lake.verify(deep=True).problems == ()
