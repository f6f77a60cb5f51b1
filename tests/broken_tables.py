"""Tables that are broken on purpose, one way each, and healthy ones beside them, in one warehouse.

What another engine would have to have written wrong is made of a table of a second warehouse: its metadata, manifest
list or manifests are changed, and it is registered.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from core_tables import SCHEMA, age, local, make_table, put, rows

import icecore

Record = dict[str, Any]
MERGE_ON_READ = {"write.delete.mode": "merge-on-read"}
WHY = "the reason"
BROKEN: dict[str, Callable[[icecore.Catalog, icecore.Catalog, str], object]] = {}
"""By the id of a rule what makes its table, in the first catalog, with the help of the second."""


def named(rule: str) -> str:
    """The name of a rule's broken table."""
    return rule.replace("-", "_")


def _breaks(rule: str) -> Callable[[Callable[..., object]], Callable[..., object]]:
    def note(make: Callable[..., object]) -> Callable[..., object]:
        BROKEN[rule] = make
        return make

    return note


def healthy(catalog: icecore.Catalog, name: str, version: int = 2, **options: Any) -> icecore.Table:
    """A table of two files with ten rows each, partitioned unless told otherwise; each commit says why."""
    options = {"partition_spec": ["truncate(100, id)"], "format_version": version, **options}
    table = make_table(catalog, name, **options)
    table.append(rows(*range(10)), message=WHY)
    table.append(rows(*range(100, 110)), message=WHY)
    return table


def with_deletes(catalog: icecore.Catalog, name: str, version: int) -> icecore.Table:
    """A table with a row of each data file deleted by delete files or vectors."""
    table = healthy(catalog, name, version, properties=MERGE_ON_READ)
    table.delete("id IN (3, 103)", message=WHY)
    return table


def edit(path: Path, change: Callable[[list[Record]], object]) -> None:
    """Changes the records of an Avro file."""
    with path.open("rb") as file:
        reader = fastavro.reader(file)
        records, schema = list(reader), reader.writer_schema
        metadata = {k: v for k, v in reader.metadata.items() if not k.startswith("avro.")}
    change(records)
    with path.open("wb") as file:
        fastavro.writer(file, schema, records, metadata=metadata)


def list_of(table: icecore.Table) -> Path:
    """The manifest list of the current snapshot."""
    snapshot = table.metadata.current_snapshot()
    assert snapshot is not None
    return local(snapshot.manifest_list)


def edit_manifest(table: icecore.Table, content: int, change: Callable[[list[Record]], object]) -> None:
    """Changes the entries of the newest manifest of a content; its list gets its new length."""

    def follow(listed: list[Record]) -> None:
        record = next(r for r in listed if r["content"] == content)
        path = local(record["manifest_path"])
        edit(path, change)
        record["manifest_length"] = path.stat().st_size

    edit(list_of(table), follow)


def register(ours: icecore.Catalog, table: icecore.Table, name: str) -> icecore.Table:
    assert table.metadata_location is not None
    return ours.register_table(("ns", name), table.metadata_location)


@_breaks("summary-totals")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    path = local(healthy(theirs, name).metadata_location)
    metadata = json.loads(path.read_bytes())
    metadata["snapshots"][-1]["summary"]["total-records"] = "21"
    path.write_text(json.dumps(metadata))
    ours.register_table(("ns", name), f"file://{path}")


@_breaks("manifest-counts")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = healthy(theirs, name)
    edit(list_of(table), lambda listed: listed[0].update(added_rows_count=11))
    register(ours, table, name)


@_breaks("manifest-summaries")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = healthy(theirs, name)
    edit(list_of(table), lambda listed: listed[0]["partitions"][0].update(upper_bound=bytes(8), lower_bound=bytes(8)))
    register(ours, table, name)


@_breaks("sequence-numbers")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = healthy(theirs, name)
    edit(list_of(table), lambda listed: listed[0].update(min_sequence_number=3))
    register(ours, table, name)


@_breaks("row-ids")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = healthy(theirs, name, 3)
    edit(list_of(table), lambda listed: [record.update(first_row_id=5) for record in listed])
    register(ours, table, name)


@_breaks("duplicate-files")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = healthy(theirs, name, partition_spec=None)
    first = min(table.files().to_pylist(), key=lambda f: f["sequence_number"])
    same = {
        "file_path": first["file_path"].replace("file:///", "file:/"),
        "file_size_in_bytes": first["file_size_in_bytes"],
    }
    edit_manifest(table, 0, lambda entries: entries[0]["data_file"].update(same))
    register(ours, table, name)


@_breaks("loaded-twice")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    table = healthy(ours, name)
    for _ in range(2):
        table.append([{"id": i} for i in range(20, 23)], message="loaded")


@_breaks("dangling-deletes")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = with_deletes(theirs, name, 3)
    nowhere = {"referenced_data_file": "file:///nowhere.parquet"}
    edit_manifest(table, 1, lambda entries: entries[0]["data_file"].update(nowhere))
    register(ours, table, name)


@_breaks("several-deletion-vectors")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = with_deletes(theirs, name, 3)

    def refer(entries: list[Record]) -> None:
        named = entries[0]["data_file"]["referenced_data_file"]
        entries[1]["data_file"]["referenced_data_file"] = named.replace("file:///", "file:/")

    edit_manifest(table, 1, refer)
    register(ours, table, name)


@_breaks("empty-bounds")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = healthy(theirs, name)

    def swap(entries: list[Record]) -> None:
        file = entries[0]["data_file"]
        file["lower_bounds"], file["upper_bounds"] = file["upper_bounds"], file["lower_bounds"]

    edit_manifest(table, 0, swap)
    register(ours, table, name)


@_breaks("value-counts")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    table = healthy(theirs, name)

    def count_less(entries: list[Record]) -> None:
        counts = entries[0]["data_file"]["value_counts"]
        counts[0]["value"] -= 1

    edit_manifest(table, 0, count_less)
    register(ours, table, name)


def unreadable(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    """A registered table whose first manifest is no such file; nobody knows what else it may need."""
    table = healthy(theirs, name)
    path = local(table.manifests()[0].manifest.manifest_path)
    path.write_bytes(bytes(path.stat().st_size))
    register(ours, table, name)


@_breaks("missing-files")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    local(healthy(ours, name).files()["file_path"][0].as_py()).unlink()


@_breaks("file-sizes")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    path = local(healthy(ours, name).files()["file_path"][0].as_py())
    path.write_bytes(path.read_bytes() + b"more")


@_breaks("lost-commits")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    current = local(healthy(ours, name).metadata_location)
    later = "00099-01a2096f-986d-70e1-9b9a-d96e37e19c7c.metadata.json"
    current.with_name(later).write_bytes(current.read_bytes())


@_breaks("orphan-files")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    folder = local(healthy(ours, name).location()) / "data"
    put(folder / "nobody.parquet")
    age(put(folder / "young.parquet"), days=1)


@_breaks("small-files")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    healthy(ours, name, partition_spec=None, properties={"icecore.audit.small-files": "1"})


@_breaks("skewed-partitions")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    limits = {"icecore.audit.skew": "2", "icecore.audit.skewed-bytes": "1"}
    table = healthy(ours, name, partition_spec=["id"], properties=limits)
    many = pa.table({"id": [1] * 5000, "name": [f"n{i * 7919 % 5000}" for i in range(5000)]}, schema=SCHEMA)
    table.append(many, message=WHY)


@_breaks("delete-debt")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    healthy(ours, name, properties=MERGE_ON_READ).delete("id < 5", message=WHY)


@_breaks("unkept-snapshots")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    table = healthy(ours, name)
    first = table.metadata.snapshots[0].snapshot_id
    table.manage_snapshots(message=WHY).rollback_to_snapshot(first).commit()


@_breaks("expired-without-reason")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    healthy(ours, name).maintenance.expire_snapshots().older_than(2**53).commit()


@_breaks("commits-without-reason")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    healthy(ours, name).append(rows(1))


@_breaks("narrowed-schema")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    with healthy(ours, name).update_schema(message=WHY) as schema:
        schema.delete_column("name")


@_breaks("secrets")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    healthy(ours, name, properties={"store.password": "hunter2"})


@_breaks("secrets-in-log")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    table = healthy(ours, name, properties={"jdbc": "jdbc:pg://db/x?user=u&password=hunter2"})
    table.set_properties({"jdbc": "jdbc:pg://db/x"}, message=WHY)


@_breaks("personal-data")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    people = pa.table({"id": [1], "name": ["zoe@example.org"]}, schema=SCHEMA)
    healthy(ours, name).append(people, message=WHY)


@_breaks("shared-files")
def _(ours: icecore.Catalog, theirs: icecore.Catalog, name: str) -> None:
    other = healthy(ours, "with_a_shared_file", partition_spec=None)
    table = healthy(theirs, name, partition_spec=None)
    shared = other.files().to_pylist()[0]
    same = {"file_path": local(shared["file_path"]).as_posix(), "file_size_in_bytes": shared["file_size_in_bytes"]}
    edit_manifest(table, 0, lambda entries: entries[0]["data_file"].update(same))
    register(ours, table, name)


@_breaks("shared-folders")
def _(ours: icecore.Catalog, _theirs: icecore.Catalog, name: str) -> None:
    outer = healthy(ours, "outer_of_another")
    healthy(ours, name, location=f"{outer.location().replace('file:///', 'file:/')}/inner/")


def make_all(ours: icecore.Catalog, theirs: icecore.Catalog) -> None:
    """All broken tables, and the healthy ones: as written here, and as another warehouse did."""
    for catalog in (ours, theirs):
        catalog.create_namespace("ns")
    for version in (1, 2, 3):
        healthy(ours, f"healthy_{version}", version)
    for version in (2, 3):
        with_deletes(ours, f"healthy_deletes_{version}", version)
        register(ours, with_deletes(theirs, f"registered_{version}", version), f"healthy_registered_{version}")
    make_table(ours, "healthy_empty")
    for rule, make in BROKEN.items():
        make(ours, theirs, named(rule))
