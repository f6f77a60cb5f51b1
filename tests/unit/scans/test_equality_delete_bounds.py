"""Equality deletes are left out by bounds only where no order of values could let them match (SP6)."""

from __future__ import annotations

import itertools
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from broken_tables import edit_manifest, register

import icecore
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.spec.content_file import ContentFile

IDS = [uuid.UUID(int=i) for i in (1, 2**63 + 5, 2**64 + 1, 2**64 + 2**63, 2**127, 2**127 + 2**63, 2**128 - 1)]


def signed(value: uuid.UUID) -> tuple[int, int]:
    """The order of Java up to 1.9: two signed longs."""
    high, low = value.bytes[:8], value.bytes[8:]
    return int.from_bytes(high, "big", signed=True), int.from_bytes(low, "big", signed=True)


def uuids(values: list[uuid.UUID]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.uuid(), pa.array([v.bytes for v in values], pa.binary(16)))


def data_file(table: icecore.Table, values: list[uuid.UUID], number: int, java_order: bool) -> ContentFile:
    """A data file with our bounds, or those that Java would give it."""
    [file] = write_data_files(
        pa.table({"u": uuids(values)}),
        schema=table.schema(),
        spec=table.spec(),
        location=f"{table.location()}/data",
        storage=table._repository.storage_of(table.state),
        properties={},
        file_prefix=f"file{number}",
    )
    if not java_order:
        return file
    least, greatest = min(values, key=signed).bytes, max(values, key=signed).bytes
    return evolve(file, lower_bounds={1: least}, upper_bounds={1: greatest})


@pytest.mark.parametrize("java_order", [False, True])
def test_deletes_of_uuids_meet_bounds_of_either_order(catalog: icecore.Catalog, java_order: bool) -> None:
    """Whatever order the writer of the data had, a deleted row stays deleted, and no other is.

    Files of three values have each pair as bounds, with each value between them. A third of them show it for our
    bounds, whose order is the one that plans compare in.
    """
    table = catalog.create_table("ns.u", pa.schema([("u", pa.uuid())]), format_version=2)
    groups = [list(g) for g in itertools.combinations(IDS, 3)][:: 1 if java_order else 3]
    assert {value for group in groups for value in group} == {*IDS}
    table.append_files([data_file(table, values, n, java_order) for n, values in enumerate(groups)])
    for value in IDS:
        assert table.scan(f"u = '{value}'").count() == sum(value in g for g in groups), value
        table.delete_keys(pa.table({"u": uuids([value])}), ["u"])
        assert table.scan(f"u = '{value}'").count() == 0, value
    assert table.scan().count() == 0


def test_deletes_of_other_bytes_are_left_out_by_them(catalog: icecore.Catalog) -> None:
    """A delete of another range of keys isn't read."""
    table = catalog.create_table("ns.b", pa.schema([("b", pa.binary())]), format_version=2)
    for key in (b"a" * 20, b"k" * 20, b"z" * 20):
        table.append(pa.table({"b": [key, key + b"!"]}))
    table.delete_keys(pa.table({"b": [b"k" * 20]}), ["b"])
    assert sorted(len(t.delete_files) for t in table.scan().plan_files()) == [0, 0, 1]
    assert table.scan().count() == 5


@pytest.mark.parametrize("rows_of_data", [[None], [None, {"a": 5}], [None, {"a": None}, {"a": 5}]])
@pytest.mark.parametrize("rows_of_deletes", [[None], [None, {"a": 7}]])
def test_nulls_in_null_structs_need_not_be_counted(
    catalog: icecore.Catalog, tmp_path: Path, rows_of_data: list[Any], rows_of_deletes: list[Any]
) -> None:
    """Java counts neither values nor nulls of fields of null structs in ORC: such a row is deleted all the same."""
    kind = pa.struct([("a", pa.int64())])
    theirs = catalog.create_table("ns.s", pa.schema([("s", kind)]), format_version=2)
    theirs.append(pa.table({"s": pa.array(rows_of_data, kind)}))
    theirs.delete_keys(pa.table({"s": pa.array(rows_of_deletes, kind)}), ["s.a"])
    key = theirs.schema().find_field("s.a").field_id
    for content, found in enumerate((rows_of_data, rows_of_deletes)):
        structs = [row for row in found if row is not None]
        counts = {"value_counts": len(structs), "null_value_counts": sum(s["a"] is None for s in structs)}
        noted = {name: [{"key": key, "value": n}] for name, n in counts.items()}

        def note(entries: list[dict[str, Any]], noted: dict[str, Any] = noted) -> None:
            entries[0]["data_file"].update(noted)

        edit_manifest(theirs, content, note)
    with icecore.open(tmp_path / "ours") as ours:
        ours.create_namespace("ns")
        left = [row for row in rows_of_data if row is not None and row["a"] is not None]
        assert register(ours, theirs, "s").scan().to_arrow()["s"].to_pylist() == left
