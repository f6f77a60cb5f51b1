"""Manifests of writers that tell less than the spec asks: the same plans, or an error that names the manifest."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve
from client_writes import ClientCatalog, Updates
from core_tables import SCHEMA, ids_of, local, make_table, rows

import icecore
from icecore.engine.errors import CorruptFileError, IcecoreError
from icecore.engine.formats import avro_blocks
from icecore.engine.formats.manifest_list_avro import read_manifest_list, write_manifest_list
from icecore.projections.entries.decode_entries import decode_unlisted

KEYS = ("partition-spec", "partition-spec-id", "schema", "schema-id", "content", "format-version")
PIECES = (*KEYS, "partition ids", "all ids")
COMMITS = 16
FILTERS = ("id >= 0", "name = 'n3'", "name > 'n5'", "id = 7", "name is null", "name <> 'n2' and id < 9")


def without(data: bytes, pieces: Collection[str], change: Callable[[Any], None] = lambda fields: None) -> bytes:
    """A manifest without some pieces; `change` is made to the fields of its partition record."""
    header = avro_blocks.read_header(data, "m")
    metadata = {k: v for k, v in header.metadata.items() if k not in pieces and k != "avro.codec"}
    schema = json.loads(metadata["avro.schema"])
    data_file = next(f["type"] for f in schema["fields"] if f["name"] == "data_file")
    fields = next(f["type"]["fields"] for f in data_file["fields"] if f["name"] == "partition")
    if {"partition ids", "all ids"} & {*pieces}:
        for f in fields:
            f.pop("field-id"), f.pop("iceberg-field-name", None)
    change(fields)
    text = json.dumps(drop_ids(schema) if "all ids" in pieces else schema)
    blocks = list(avro_blocks.read_blocks(data, header, "m"))
    return avro_blocks.write_container(
        metadata | {"avro.schema": text.encode()}, blocks, codec="null", sync_marker=bytes(16)
    )


def drop_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [drop_ids(v) for v in value]
    if isinstance(value, dict):
        return {k: drop_ids(v) for k, v in value.items() if k not in ("field-id", "element-id")}
    return value


def partitioned(catalog: icecore.Catalog, commits: int) -> icecore.Table:
    """A table of one manifest a commit, whose partition fields have names that Avro has not, of two specs."""
    table = make_table(catalog, properties={"commit.manifest-merge.enabled": "false"})
    with table.update_spec() as spec:
        spec.add_field("name", partition_field_name="by name")
        spec.add_field("bucket(3, id)", partition_field_name="1-bucket")
    for number in range(commits):
        if number == commits // 2:
            with table.update_spec() as spec:
                spec.add_field("truncate(2, name)", partition_field_name="né.x")
        name = None if number == 4 else f"n{number}"
        table.append(pa.table({"id": [number], "name": [name]}, schema=SCHEMA))
    return table


def plans(table: icecore.Table) -> list[list[tuple[str, Any]]]:
    return [sorted((f.file_path, str(f.partition)) for f in files_of(table, text)) for text in FILTERS]


def files_of(table: icecore.Table, text: str) -> list[Any]:
    return [task.file for task in table.scan(text).plan_files()]


def registered(table: icecore.Table, folder: Path) -> icecore.Table:
    other = icecore.open(folder / "other")
    other.create_namespace("ns")
    return other.register_table("ns.t", str(table.metadata_location))


def test_manifests_that_tell_less_give_the_same_plans(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Each piece is taken away alone, and several together: the table's metadata tells the specs as well."""
    table = partitioned(catalog, COMMITS)
    expected = plans(table)
    chosen = random.Random(5)
    taken = [{piece} for piece in PIECES] + [set(PIECES), {"partition-spec", "partition ids"}]
    taken += [{p for p in PIECES if chosen.random() < 0.5} for _ in range(COMMITS - len(taken))]
    for listed, pieces in zip(table.manifests(), taken, strict=True):
        path = local(listed.manifest.manifest_path)
        path.write_bytes(without(path.read_bytes(), pieces))
    other = registered(table, tmp_path)
    assert plans(other) == expected
    assert sorted(other.scan().to_arrow()["id"].to_pylist()) == list(range(COMMITS))


def test_who_has_no_spec_reads_all_values(catalog: icecore.Catalog) -> None:
    """What looks for values that are to be forgotten reads a manifest that the log keeps by itself."""
    table = partitioned(catalog, 1)
    path = local(table.manifests()[0].manifest.manifest_path)
    whole = decode_unlisted(path.read_bytes(), "m")
    bare = decode_unlisted(without(path.read_bytes(), {"partition-spec", "partition ids"}), "m")
    assert bare.drop(["partition"]) == whole.drop(["partition"])
    (told,), (untold,) = whole["partition"].to_pylist(), bare["partition"].to_pylist()
    assert [v for _, v in untold] == [v for _, v in told] and [i for i, _ in untold] == [-1, -2, -3]


def test_one_that_a_commit_is_given_is_looked_at_as_it_is_read_later(catalog: icecore.Catalog) -> None:
    def barer(updates: Updates) -> Updates:
        snapshot = next(u["snapshot"] for u in updates if u["action"] == "add-snapshot")
        path = local(snapshot["manifest-list"])
        (listed,) = read_manifest_list(path.read_bytes(), str(path))
        data = without(local(listed.manifest_path).read_bytes(), {"partition-spec", "partition ids"})
        local(listed.manifest_path).write_bytes(data)
        path.write_bytes(
            write_manifest_list(
                [evolve(listed, manifest_length=len(data))],
                format_version=2,
                snapshot_id=snapshot["snapshot-id"],
                parent_snapshot_id=None,
                sequence_number=snapshot["sequence-number"],
                sync_marker=bytes(16),
            )
        )
        return updates

    make_table(catalog, partition_spec=["name"])
    client = ClientCatalog(catalog)
    client.change = barer
    client.load_table("ns.t").append(rows(2))
    table = catalog.load_table("ns.t")
    assert ids_of(table, row_filter="name = 'n2'") == [2] and ids_of(table, row_filter="name = 'n1'") == []


def unnamed(fields: Any) -> None:
    fields[0]["name"] = "other"


def renamed_twice(fields: Any) -> None:
    fields[0]["field-id"] = fields[1]["field-id"] = 1000


def of_another_spec(fields: Any) -> None:
    fields[0]["field-id"] = 1900


@pytest.mark.parametrize(
    ("pieces", "change", "error"),
    [
        ({"partition-spec", "partition ids"}, unnamed, CorruptFileError),
        ({"partition-spec"}, renamed_twice, CorruptFileError),
        ({"partition-spec"}, of_another_spec, IcecoreError),
    ],
    ids=["a name of no field", "an id twice", "a value that is missing"],
)
def test_manifests_that_leave_doubt_are_refused_by_name(
    catalog: icecore.Catalog, tmp_path: Path, pieces: set[str], change: Callable[[Any], None], error: type[Exception]
) -> None:
    table = partitioned(catalog, 1)
    path = local(table.manifests()[0].manifest.manifest_path)
    path.write_bytes(without(path.read_bytes(), pieces, change))
    other = registered(table, tmp_path)
    with pytest.raises(error, match=path.name):
        other.scan("name = 'n0'").plan()


def test_P1_a_column_that_neither_file_nor_manifest_has_is_null(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """As Dremio writes of folders that are less deep than others."""
    properties = {"commit.manifest-merge.enabled": "false", "write.metadata.metrics.default": "none"}
    table = make_table(catalog, partition_spec=["name", "id"], properties=properties)
    table.update_schema().add_column("other", "long").commit()
    for number in range(3):
        folder = tmp_path / "lake" / f"name=n{number}" / f"id={number}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"other": [1]}), folder / "f.parquet")
        table.add_files([str(folder / "f.parquet")])
    path = local(table.manifests()[1].manifest.manifest_path)
    path.write_bytes(without(path.read_bytes(), {"partition-spec"}, of_another_spec))
    other = registered(table, tmp_path)
    assert sorted(other.scan().to_arrow()["name"].to_pylist(), key=str) == [None, "n0", "n2"]
    for text, expected in (("name is null", [1]), ("name < 'n9'", [0, 2]), ("name <> 'n0'", [2]), ("id = 1", [1])):
        assert ids_of(other, row_filter=text) == expected
        assert sorted(f.partition[1] for f in files_of(other, text)) == expected
    assert other.scan("id = 1").to_arrow()["name"].to_pylist() == [None]


def test_a_value_that_is_missing_is_refused_at_each_position(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """Also once its column is gone: what is planned of now would else be taken for nulls by a plan of the past."""
    table = partitioned(catalog, 2)
    for listed in table.manifests():
        path = local(listed.manifest.manifest_path)
        path.write_bytes(without(path.read_bytes(), {"partition-spec"}, of_another_spec))
    other = registered(table, tmp_path)
    lake = icecore.open(tmp_path / "other")
    position = lake.sql("SELECT max(position) AS last FROM log").to_pylist()[0]["last"]
    with other.update_spec() as spec:
        spec.remove_field("by name").remove_field("né.x")
    other.update_schema().delete_column("name").commit()
    for found, text in ((other, "id = 1"), (lake.at(position).load_table("ns.t"), "name = 'n1'")):
        with pytest.raises(IcecoreError, match="has no value of field 'by name'"):
            found.scan(text).plan()
