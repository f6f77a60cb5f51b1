"""A warehouse of tables of all kinds, and the ways in which it gets into another folder."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from core_tables import pyiceberg_catalog

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string())])
KEPT = [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]
TABLES = {"v1": [*KEPT, 77], "v2": KEPT, "v3": KEPT, "v2fs": KEPT, "theirs": [1, 2, 3]}


def fill(folder: Path) -> Path:
    """A warehouse with tables of all formats and both commit schemes, deletes, a view, and commits of PyIceberg."""
    with icecore.open(folder, actor="ann") as catalog:
        catalog.create_namespace("s")
        for name in ("v1", "v2", "v3", "v2fs"):
            properties = {} if name == "v1" else {"write.delete.mode": "merge-on-read"}
            if name == "v2fs":
                properties["icecore.commit-scheme"] = "filesystem"
            table = catalog.create_table(f"s.{name}", SCHEMA, format_version=int(name[1]), properties=properties)
            table.append([{"id": n, "city": f"c{n}"} for n in range(10)])
            table.append([{"id": 10, "city": "late"}])
            table.delete("id = 3")
        catalog.create_view("s.few", "SELECT id FROM v2 WHERE id < 2")
    peer = pyiceberg_catalog(folder)
    peer.load_table("s.v1").append(pa.table({"id": [77], "city": ["x"]}, schema=SCHEMA))
    peer.create_table("s.theirs", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1, 2]}))
    with icecore.open(folder, actor="ann") as catalog:
        catalog.load_table("s.theirs").append([{"id": 3}])
    return folder


def mv(lake: Path) -> Path:
    lake.rename(lake.with_name("new"))
    icecore.move_warehouse(lake.with_name("new"))
    return lake.with_name("new")


def move(lake: Path) -> Path:
    icecore.move_warehouse(lake, lake.with_name("new"))
    return lake.with_name("new")


def clone(lake: Path) -> Path:
    icecore.clone_warehouse(lake, lake.with_name("new"))
    return lake.with_name("new")


def cp(lake: Path) -> Path:
    shutil.copytree(lake, lake.with_name("new"))
    icecore.clone_warehouse(lake.with_name("new"))
    return lake.with_name("new")


def metadata_only(lake: Path) -> Path:
    icecore.clone_warehouse(lake, lake.with_name("new"), metadata_only=True)
    return lake.with_name("new")


WAYS: list[Callable[[Path], Path]] = [mv, move, clone, cp, metadata_only]
CLONES: list[Callable[[Path], Path]] = [clone, cp, metadata_only]
