"""A history of one table as this process makes it, and as Spark does, in a classic session or over Connect.

Each step is said once, of a way to change a table. After it the way takes a picture: the rows, and what the metadata
tells of snapshot, files and refs, without what is another one in each table: ids, names of files, times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import icecore

SCHEMA = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("name", pa.string()), ("x", pa.float64())])
LINEAGE = ("_row_id", "_last_updated_sequence_number")
FILE = ("content", "partition", "record_count", "spec_id", "sort_order_id", "value_counts", "first_row_id")

Row = dict[str, Any]
Picture = dict[str, Any]


def row(i: int, **other: Any) -> Row:
    return {"id": i, "k": i % 3, "name": f"n{i}" if i % 4 else None, "x": i * 0.5, **other}


def sorted_rows(found: Sequence[Row]) -> list[Row]:
    found = [{n: v for n, v in r.items() if n != "_commit_snapshot_id"} for r in found]
    return sorted(found, key=lambda r: (r.get("_change_ordinal", 0), r["id"], r.get("_change_type", "")))


class Embedded:
    """The table's own calls, which read and write in this process."""

    def __init__(self, folder: Path, version: int, mode: str) -> None:
        self.catalog = icecore.open(folder, actor="tester")
        self.catalog.create_namespace("ns")
        self.table = self.catalog.create_table(
            "ns.t",
            SCHEMA,
            format_version=version,
            partition_spec=["k"],
            sort_order=["id"],
            properties={f"write.{verb}.mode": mode for verb in ("delete", "update", "merge")},
        )

    def data(self, rows: list[Row]) -> Any:
        return pa.Table.from_pylist(rows, SCHEMA)

    def rows(self, scan: Any) -> list[Row]:
        return sorted_rows(scan.to_arrow().to_pylist())

    def saved(self, rows: list[Row], where: str | None = None, *, replace: bool = False) -> None:
        """Appends rows, or overwrites those of a filter by them; without one, the partitions that they have."""
        if not replace:
            self.table.append(self.data(rows))
        elif where is None:
            self.table.dynamic_partition_overwrite(self.data(rows))
        else:
            self.table.overwrite(self.data(rows), where)

    def delete(self, where: str) -> None:
        self.table.delete(where)

    def update(self, x: float, where: str) -> None:
        self.upsert([{**r, "x": x} for r in self.rows(self.table.scan(where))])

    def upsert(self, rows: list[Row]) -> tuple[int, int]:
        result = self.table.upsert(self.data(rows), ["id"])
        return result.rows_updated, result.rows_inserted

    def merge(self, rows: list[Row]) -> tuple[int, int, int]:
        """Deletes rows of the table by one in the source without a name, else updates or inserts; others get x = 0."""
        here, given = ({r["id"]: r for r in found} for found in (self.rows(self.table.scan()), rows))
        gone = {i for i in here.keys() & given.keys() if given[i]["name"] is None}
        others = {i: {**here[i], "x": 0.0} for i in here.keys() - given.keys() if i % 5 == 0}
        updated = others | {i: given[i] for i in (here.keys() & given.keys()) - gone}
        new = {i: given[i] for i in given.keys() - here.keys()}
        touched = ", ".join(map(str, {*gone, *updated}))
        self.table.overwrite(self.data([*updated.values(), *new.values()]), f"id IN ({touched})")
        return len(updated), len(gone), len(new)

    def compact(self) -> None:
        self.table.rewrite_data_files(options={"rewrite-all": "true"})

    def close(self) -> None:
        self.catalog.close()


class BySpark(Embedded):
    """The same calls with DataFrames, those of `table.spark`, and `format("icecore")`."""

    def __init__(self, folder: Path, version: int, mode: str, spark: Any) -> None:
        super().__init__(folder, version, mode)
        self._spark = spark

    def data(self, rows: list[Row]) -> Any:
        rows_of_spark = [tuple(r.values()) for r in rows]
        # `format("icecore")` writes a file for each task and partition.
        return self._spark.createDataFrame(rows_of_spark, "id BIGINT, k INT, name STRING, x DOUBLE").coalesce(1)

    def rows(self, scan: Any) -> list[Row]:
        return sorted_rows([r.asDict(recursive=True) for r in scan.to_spark(self._spark).collect()])

    def saved(self, rows: list[Row], where: str | None = None, *, replace: bool = False) -> None:
        write = self.data(rows).write.format("icecore").mode("overwrite" if replace else "append")
        if replace:
            write = write.options(**{"overwrite-mode": "dynamic"} if where is None else {"overwrite-filter": where})
        write.option("warehouse", str(self.catalog.path)).save("ns.t")
        self.table.refresh()

    def delete(self, where: str) -> None:
        self.table.spark.delete(where)

    def update(self, x: float, where: str) -> None:
        from pyspark.sql import functions as F

        self.table.spark.update({"x": F.lit(x)}, where)

    def upsert(self, rows: list[Row]) -> tuple[int, int]:
        result = self.table.spark.upsert(self.data(rows), ["id"])
        return result.rows_updated, result.rows_inserted

    def merge(self, rows: list[Row]) -> tuple[int, int, int]:
        merge = self.table.spark.merge(self.data(rows), "id").when_matched_delete("source.name IS NULL")
        merge = merge.when_matched_update_all().when_not_matched_insert_all()
        result = merge.when_not_matched_by_source_update({"x": "0"}, "target.id % 5 = 0").commit()
        return result.rows_updated, result.rows_deleted, result.rows_inserted

    def compact(self) -> None:
        self.table.spark.rewrite_data_files(options={"rewrite-all": "true"})


STEPS: dict[str, Callable[[Any], Any]] = {
    "append": lambda w: w.table.append(w.data([row(i) for i in range(24)])),
    "append to a branch": lambda w: w.table.append(w.data([row(90), row(91)]), branch="dev"),
    "append by format": lambda w: w.saved([row(i) for i in range(24, 36)]),
    "overwrite by filter": lambda w: w.table.overwrite(w.data([row(i, name="o") for i in (3, 40)]), "id < 6"),
    "delete": lambda w: w.delete("id IN (7, 24, 26)"),
    "delete again": lambda w: w.delete("id = 9 OR x > 16.5 AND id < 40"),
    "update": lambda w: w.update(-1.0, "id BETWEEN 10 AND 14"),
    "upsert": lambda w: w.upsert([row(10, x=9.5), row(11, x=-1.0), row(12, x=2.0), row(50)]),
    "dynamic overwrite": lambda w: w.table.dynamic_partition_overwrite(w.data([row(60), row(63)])),
    "dynamic overwrite by format": lambda w: w.saved([row(61), row(64)], replace=True),
    "overwrite by format": lambda w: w.saved([row(62, name="f")], "id = 20", replace=True),
    "compaction": lambda w: w.compact(),
    "reads": lambda w: reads(w),
    "overwrite": lambda w: w.table.overwrite(w.data([row(i) for i in range(72, 78)])),
    "merge": lambda w: w.merge([row(72, name=None), row(73, name="m"), row(74, name="m"), row(81, name="m")]),
}


def reads(way: Embedded) -> list[list[Row]]:
    """What was appended and changed, and the table as of a snapshot, of a ref and by a filter."""
    table = way.table
    first, _, second, *_ = [s.snapshot_id for s in table.snapshots()]
    return [
        way.rows(table.incremental_append_scan(from_snapshot_id_exclusive=first, to_snapshot_id_inclusive=second)),
        way.rows(table.incremental_changelog_scan(selected_fields=["id", "x"])),
        way.rows(table.scan(snapshot_id=first)),
        way.rows(table.scan(ref="dev")),
        way.rows(table.scan("x > 4 AND k = 1", selected_fields=["id", "name"])),
    ]


def play(way: Embedded) -> dict[str, Picture]:
    """The picture after each step, with what the step gave back."""
    pictures = {}
    for name, step in STEPS.items():
        given = step(way)
        pictures[name] = {"given": given, **picture(way.table.refresh(), with_row_ids=name != "merge")}
    way.close()
    return pictures


def picture(table: icecore.Table, *, with_row_ids: bool) -> Picture:
    """What there is in the table that has to be the same however it came there."""
    has_ids = with_row_ids and table.format_version >= 3
    numbers = {s.snapshot_id: i for i, s in enumerate(table.snapshots())}
    last = table.snapshots()[-1]
    counts = {k: v for k, v in (last.summary or {}).items() if not k.endswith("-files-size") and "icecore." not in k}
    fields = FILE if has_ids else FILE[:-2]
    files = [{name: file[name] for name in fields} for file in table.inspect.files().to_pylist()]
    return {
        "rows": sorted_rows(table.scan(selected_fields=["*", *LINEAGE] if has_ids else ["*"]).to_arrow().to_pylist()),
        "snapshot": (len(numbers), last.sequence_number, numbers.get(last.parent_snapshot_id or 0), counts),
        "files": sorted(files, key=repr),
        "refs": {name: numbers[ref.snapshot_id] for name, ref in table.refs().items()},
        "next row id": table.metadata.next_row_id if has_ids else None,
    }
