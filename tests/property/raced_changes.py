"""Changes of a table that race each other: each can be made at any moment, and what a catalog shows after them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen
from core_tables import respec

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.spec.types import IntegerType, LongType, NestedField, StringType, StructType
from icecore.engine.table.transaction import Transaction

STRUCT = pa.struct([("a", pa.int32()), ("b", pa.string())])
# The first column tells rows apart for ever: a row that comes back, or comes twice, is seen.
SCHEMA = pa.schema([("row", pa.int64()), ("k", pa.int64()), ("i", pa.int32()), ("s", pa.string()), ("st", STRUCT)])
SPECS: tuple[list[str], ...] = ([], ["k"], ["bucket(2, k)"], ["s"])
FILTERS = ("k = 1", "k < 2", "i >= 2", "s = 'a'", "s IS NULL", "row > 3", "TRUE")


def data(*numbers: int, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows of these numbers, under the names that the table had at first."""
    return pa.Table.from_pylist([_row(n) for n in numbers], schema=schema)


def _row(n: int) -> dict[str, Any]:
    text = [None, "a", "b", "c"][n % 4]
    return {"row": n, "k": n % 3, "i": n % 5, "s": text, "st": {"a": n % 2, "b": text}, "m": f"m{n}"}


@frozen
class Given:
    """What a change brings along: a folder of files that are not the table's own, the snapshots of refs, its rows."""

    folder: Path
    heads: Mapping[str, int]
    number: int
    first_row: int

    @property
    def filter(self) -> str:
        return FILTERS[self.number % len(FILTERS)]

    @property
    def rows(self) -> pa.Table:
        return data(*range(self.first_row, self.first_row + 1 + self.number % 3))

    def file(self, *, has_ids: bool) -> str:
        """A Parquet file, with the ids that the columns have in the table at first or without ids."""
        path = self.folder / f"{self.first_row}.parquet"
        rows, ids = self.rows, dict(zip(SCHEMA.names, range(1, 6), strict=True))
        if has_ids:
            fields = [f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) for f in rows.schema if f.name != "st"]
            rows = rows.select([f.name for f in fields]).cast(pa.schema(fields))
        pq.write_table(rows, path)
        return str(path)


def make(catalog: icecore.Catalog, version: int, mode: str, spec: list[str]) -> None:
    """A table of two files, with a tag of the first, a branch with rows of its own, and a snapshot that is staged."""
    catalog.create_namespace("ns")
    properties = {"write.delete.mode": mode, "write.update.mode": mode, "write.wap.enabled": "true"}
    properties["commit.retry.min-wait-ms"] = properties["commit.retry.max-wait-ms"] = "0"
    table = catalog.create_table("ns.t", SCHEMA, partition_spec=spec, format_version=version, properties=properties)
    table.append(data(1, 2, 3))
    table.manage_snapshots().create_tag(head_of(table), "old").commit()
    table.append(data(4, 5, 6))
    table.delete("row = 2")
    table.manage_snapshots().create_branch(head_of(table), "side").commit()
    table.append(data(40), branch="side")
    table.append(data(50), snapshot_properties={"wap.id": "w"})
    catalog.create_table("ns.v", SCHEMA)


def head_of(table: icecore.Table) -> int:
    head = table.current_snapshot()
    assert head is not None
    return head.snapshot_id


def present(catalog: icecore.Catalog) -> icecore.Table:
    """The table under the name that it has by now."""
    return catalog.load_table("ns.t" if catalog.table_exists("ns.t") else "ns.u")


# Changes of a transaction.

Part = Callable[[Transaction, Given], object]
SHAPES: dict[str, Part] = {
    "add": lambda tx, g: tx.update_schema().add_column("w", LongType()).commit(),
    "add_m": lambda tx, g: tx.update_schema().add_column("m", StringType()).commit(),
    "rename": lambda tx, g: tx.update_schema().rename_column("s", "s2").commit(),
    "drop": lambda tx, g: tx.update_schema().delete_column("i").commit(),
    "widen": lambda tx, g: tx.update_schema().update_column("i", LongType()).commit(),
    "nested": lambda tx, g: tx.update_schema().add_column(("st", "c"), IntegerType()).commit(),
    "spec": lambda tx, g: tx.update_spec().add_field("truncate(1, s)", f"p{g.number}").commit(),
    "respec": lambda tx, g: _respec(tx, g),
    "order": lambda tx, g: tx.update_sort_order().asc("i").commit(),
    "mode": lambda tx, g: tx.set_properties({"write.delete.mode": ("merge-on-read", "copy-on-write")[g.number % 2]}),
    "upgrade": lambda tx, g: tx.upgrade_table_version(min(3, tx.metadata.format_version + 1)),
    "location": lambda tx, g: tx.update_location(f"{tx.metadata.location}/moved{g.number}"),
}
ROWS: dict[str, Part] = {
    "append": lambda tx, g: tx.append(g.rows),
    "append_side": lambda tx, g: tx.append(g.rows, branch="side"),
    "append_new": lambda tx, g: tx.append(g.rows, branch="new"),
    "stage": lambda tx, g: tx.append(g.rows, snapshot_properties={"wap.id": "v"}),
    "add_files": lambda tx, g: tx.add_files([g.file(has_ids=False)]),
    "add_files_with_ids": lambda tx, g: tx.add_files([g.file(has_ids=True)]),
    "overwrite": lambda tx, g: tx.overwrite(g.rows, g.filter),
    "overwrite_pinned": lambda tx, g: tx.overwrite(g.rows, g.filter, isolation_level="serializable"),
    "delete": lambda tx, g: tx.delete(g.filter),
    "delete_pinned": lambda tx, g: tx.delete(g.filter, isolation_level="serializable"),
    "delete_side": lambda tx, g: tx.delete(g.filter, branch="side"),
    "delete_keys": lambda tx, g: tx.delete_keys(pa.table({"k": [g.number % 3], "s": ["a"]}), ["k", "s"]),
    "upsert": lambda tx, g: tx.upsert(g.rows, ["row"]),
    "upsert_old": lambda tx, g: tx.upsert(data(1, 4, 60 + g.number), ["row"]),
    "replace_partitions": lambda tx, g: tx.dynamic_partition_overwrite(g.rows),
    "compact": lambda tx, g: tx.rewrite_data_files(options={"rewrite-all": "true"}),
    "merge_deletes": lambda tx, g: tx.rewrite_position_delete_files(),
    "rewrite_manifests": lambda tx, g: tx.rewrite_manifests(),
    "publish": lambda tx, g: tx.manage_snapshots().publish("w").commit(),
    "pick_side": lambda tx, g: tx.manage_snapshots().cherry_pick(g.heads["side"]).commit(),
}
REFS: dict[str, Part] = {
    "tag": lambda tx, g: tx.manage_snapshots().create_tag(g.heads["main"], "new").commit(),
    "branch": lambda tx, g: tx.manage_snapshots().create_branch(g.heads["main"], "new").commit(),
    "unbranch": lambda tx, g: tx.manage_snapshots().remove_branch("side").commit(),
    "forward": lambda tx, g: tx.manage_snapshots().fast_forward("main", "side").commit(),
    "move_side": lambda tx, g: tx.manage_snapshots().replace_branch("side", ref_name="main").commit(),
    "rename_side": lambda tx, g: tx.manage_snapshots().rename_branch("side", "other").commit(),
    "back": lambda tx, g: tx.manage_snapshots().set_current_snapshot(ref_name="old").commit(),
    "rollback": lambda tx, g: tx.manage_snapshots().rollback_to_snapshot(g.heads["old"]).commit(),
}
PARTS = SHAPES | ROWS | REFS
# Those that only add rows.
ADDING = {"append", "append_side", "append_new", "add_files", "add_files_with_ids", "stage"}


def _respec(tx: Transaction, given: Given) -> None:
    update = tx.update_spec()
    for f in tx.metadata.spec().fields:
        if str(f.transform) != "void":
            update.remove_field(f.name)
    update.add_field(["k", "bucket(3, k)", "row"][given.number % 3], f"q{given.number}").commit()


# Changes that others make as commits of their own.

Change = Callable[[icecore.Catalog, Given], object]


def _again(catalog: icecore.Catalog, name: str, kind: Any, *, required: bool = False) -> None:
    """Drops a column and adds one of the same name."""
    with present(catalog).transaction() as tx:
        tx.update_schema().delete_column(name).commit()
        update = tx.update_schema(allow_incompatible_changes=True)
        update.add_column(tuple(name.split(".")), kind, required=required, default_value="d" if required else None)
        update.commit()


def _swap(catalog: icecore.Catalog) -> None:
    with present(catalog).transaction() as tx:
        for name, new in (("i", "z"), ("k", "i"), ("z", "k")):
            tx.update_schema().rename_column(name, new).commit()


def _schema(catalog: icecore.Catalog) -> Any:
    return present(catalog).update_schema(allow_incompatible_changes=True)


def _replace(catalog: icecore.Catalog, given: Given) -> None:
    schemas = (
        SCHEMA,
        pa.schema([("row", pa.int64()), ("k", pa.string()), ("x", pa.int64())]),
        pa.schema([pa.field("row", pa.int64()), pa.field("more", pa.int64(), nullable=False)]),
    )
    catalog.replace_table(
        present(catalog).name(), schemas[given.number % 3], partition_spec=[["row"], []][given.number % 2]
    )


def _anew(catalog: icecore.Catalog, given: Given) -> None:
    name = present(catalog).name()
    catalog.drop_table(name)
    catalog.create_table(name, SCHEMA).append(given.rows)


def _expire(catalog: icecore.Catalog, given: Given) -> None:
    present(catalog).maintenance.expire_snapshots().older_than(int(time.time() * 1000) + 1000).retain_last(1).commit()


def _drop_and_back(catalog: icecore.Catalog, given: Given) -> None:
    name = present(catalog).name()
    catalog.drop_table(name)
    catalog.undrop_table(name)


def _part(name: str) -> Change:
    def change(catalog: icecore.Catalog, given: Given) -> None:
        with present(catalog).transaction() as tx:
            PARTS[name](tx, given)

    return change


OTHERS: dict[str, Change] = {name: _part(name) for name in PARTS} | {
    "s again": lambda c, g: _again(c, "s", StringType()),
    "s of another type": lambda c, g: _again(c, "s", LongType()),
    "s required": lambda c, g: _again(c, "s", StringType(), required=True),
    "st again": lambda c, g: _again(c, "st", StructType(())),
    "st.a again": lambda c, g: _again(c, "st.a", IntegerType()),
    "swap": lambda c, g: _swap(c),
    "require": lambda c, g: _schema(c).update_column(["s", "i", "k"][g.number % 3], required=True).commit(),
    "move": lambda c, g: _schema(c).move_first("st").commit(),
    "default": lambda c, g: _schema(c).set_default_value("i", 7).commit(),
    "required with default": lambda c, g: (
        _schema(c).add_column("n", LongType(), required=True, default_value=8).commit()
    ),
    "no mapping": lambda c, g: present(c).remove_properties("schema.name-mapping.default"),
    "no wap": lambda c, g: present(c).set_properties({"write.wap.enabled": "false"}),
    "avro": lambda c, g: present(c).set_properties({"write.format.default": "avro"}),
    "replace": _replace,
    "anew": _anew,
    "rename table": lambda c, g: c.rename_table(present(c).name(), "ns.u"),
    "drop and back": _drop_and_back,
    "drop": lambda c, g: c.drop_table(present(c).name()),
    "expire": _expire,
    "undo": lambda c, g: c.undo(present(c).name()),
    "restore": lambda c, g: c.restore(c.position - 2, table=present(c).name()),
    "respec by replacing": lambda c, g: respec(present(c), [["k"], ["s", "bucket(2, row)"], []][g.number % 3]),
}


# What is seen: of each table its parts by name.

Shown = dict[str, dict[str, Any]]


def seen(catalog: icecore.Catalog) -> Shown:
    """All that a user sees of the tables, rows under the ids of their columns."""
    return {".".join(name): shown(catalog.load_table(name)) for name in sorted(catalog.list_tables("ns"))}


def shown(table: icecore.Table) -> dict[str, Any]:
    m = table.metadata
    staged = [s for s in m.snapshots if "wap.id" in (s.summary or {})]
    return {
        "schema": m.schema().fields,
        "spec": m.spec().fields,
        "order": m.sort_order().fields,
        "properties": {k: v for k, v in m.properties.items() if k != NAME_MAPPING.name},
        "version": m.format_version,
        "rows": {ref: _readable_rows(table, ref) for ref in m.refs},
        "types": {name: ref.type for name, ref in m.refs.items()},
        "staged": sorted(rows_of(table, snapshot_id=s.snapshot_id) for s in staged),
    }


def _readable_rows(table: icecore.Table, ref: str) -> list[str]:
    """The rows of a ref; none of a branch beside main that a replacement of the table left without required columns."""
    try:
        return rows_of(table, ref=ref)
    except ValidationError as e:
        if ref == "main" or "is not in the file and has no default" not in str(e):
            raise
        return []


def rows_of(table: icecore.Table, **scan: Any) -> list[str]:
    """The rows under the ids of their columns, without nulls: a column that is not there yet has no other values."""
    found = table.scan(**scan)
    fields = found.projection.fields
    return sorted(repr(_by_id(row, fields)) for row in found.to_arrow().to_pylist())


def _by_id(values: dict[str, Any], fields: Iterable[NestedField]) -> list[tuple[int, Any]]:
    kept = ((f, values[f.name]) for f in fields if values[f.name] is not None)
    inner = (
        (f.field_id, _by_id(v, f.field_type.fields) if isinstance(f.field_type, StructType) else v) for f, v in kept
    )
    return sorted(inner)
