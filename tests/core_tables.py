"""Small tables and warehouses that the tests of the core share."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.log.store import EventStore
from icecore.engine.repository.repository import Repository

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def rows(*ids: int) -> pa.Table:
    """Rows of SCHEMA with these ids."""
    return pa.table({"id": list(ids), "name": [f"n{i}" for i in ids]}, schema=SCHEMA)


def make_table(catalog: icecore.Catalog, name: str = "t", **options: Any) -> icecore.Table:
    table: icecore.Table = catalog.create_table(("ns", name), SCHEMA, **options)
    return table


def respec(table: icecore.Table, terms: list[str]) -> None:
    """Another partition spec in place of the table's; no name of its fields was there before."""
    with table.update_spec() as update:
        for f in table.spec().fields:
            if str(f.transform) != "void":
                update.remove_field(f.name)
        for number, term in enumerate(terms):
            update.add_field(term, partition_field_name=f"p{len(table.specs())}_{number}")


def ids_of(table: icecore.Table, **scan: Any) -> list[int]:
    """The ids that a scan gives, sorted."""
    found: list[int] = table.scan(**scan).to_arrow()["id"].to_pylist()
    return sorted(found)


def pyiceberg_catalog(warehouse: Path) -> SqlCatalog:
    """PyIceberg's `sql` catalog over the warehouse's own log file."""
    return SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse))


def peer_ids(warehouse: Path, identifier: str = "ns.t") -> list[int]:
    """The ids that PyIceberg reads through its `sql` catalog, sorted."""
    peer = pyiceberg_catalog(warehouse)
    try:
        return sorted(peer.load_table(identifier).scan().to_arrow()["id"].to_pylist())
    finally:
        peer.close()


def shared_properties(catalog: icecore.Catalog) -> dict[str, dict[str, str]]:
    """What PyIceberg says of all namespaces."""
    peer = pyiceberg_catalog(catalog.path)
    try:
        return {".".join(n): dict(peer.load_namespace_properties(n)) for n in peer.list_namespaces()}
    finally:
        peer.close()


def store_of(catalog: icecore.Catalog) -> EventStore:
    """The log of a catalog, to look into it and to break it."""
    return catalog._warehouse.store


def repository_of(catalog: icecore.Catalog) -> Repository:
    return catalog._warehouse.repository


def local(location: str | None) -> Path:
    """The path of a `file://` location."""
    assert location is not None
    return Path(location.removeprefix("file://"))


def age(path: Path, days: float = 10) -> Path:
    """Makes a file look as if it was written that many days ago."""
    then = time.time() - days * 24 * 60 * 60
    os.utime(path, (then, then), follow_symlinks=False)
    return path


def put(path: Path, days: float = 10) -> Path:
    """Makes a file of four bytes that looks as if it was written that many days ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"PAR1")
    return age(path, days)


def lose(folder: Path) -> None:
    """Moves a folder aside."""
    shutil.move(folder, folder.with_name("lost"))


def metadata_files(table: icecore.Table) -> dict[str, bytes]:
    """Every file beside the table's metadata file, by name."""
    folder = local(table.metadata_location).parent
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """The rows as tuples in an order that does not depend on files; nulls come first."""
    tuples: Iterable[tuple[Any, ...]] = zip(*(c.to_pylist() for c in table.columns), strict=True)
    return sorted(tuples, key=lambda t: [(v is not None, v) for v in t])


def adopted_copy(catalog: icecore.Catalog, table: icecore.Table, properties: dict[str, str]) -> icecore.Table:
    """The table once more, registered with properties that nobody may set here."""
    metadata = json.loads(local(table.metadata_location).read_bytes())
    copied = {"properties": properties, "table-uuid": str(uuid.uuid4())}
    there = catalog.path / "elsewhere" / "00001-copy.metadata.json"
    there.parent.mkdir()
    there.write_text(json.dumps(metadata | copied))
    return catalog.register_table("ns.adopted", str(there))


def files_below(folder: Path) -> set[Path]:
    """All files of a folder but the log and what SQLite keeps beside it."""
    return {p for p in folder.rglob("*") if p.is_file() and not p.name.startswith("icecore.db")}


def digests(folder: Path) -> dict[str, str]:
    """The files of a folder with their bytes."""
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files_below(folder)}
