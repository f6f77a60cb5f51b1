"""Wide entries: typed partition values and metrics, and what entries inherit."""

from __future__ import annotations

import math
import struct
from typing import Any

import pyarrow as pa
import pytest
from attrs import evolve
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st
from wide_values import entries, identity_spec

from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.formats.manifest_avro import write_manifest
from icecore.engine.spec.content_file import ManifestContent, ManifestFile
from icecore.engine.spec.partition import UNPARTITIONED, PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import UnknownTransform
from icecore.engine.spec.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
)
from icecore.projections.entries.decode_entries import decode_manifest
from icecore.projections.entries.wide_entries import inherit, inherit_sequence_numbers, widen, widen_all

SCHEMA = Schema(
    (
        NestedField(1, "id", LongType()),
        NestedField(2, "name", StringType()),
        NestedField(3, "price", DoubleType()),
        NestedField(4, "point", StructType((NestedField(5, "x", IntegerType()),))),
        NestedField(6, "tags", ListType(7, StringType())),
    )
)


def test_metrics_become_typed_columns() -> None:
    wide = widen(
        entries(
            {
                "lower_bounds": [(1, struct.pack("<q", -5)), (2, b"a"), (5, struct.pack("<i", 7))],
                "upper_bounds": [(2, b"z")],
                "value_counts": [(1, 10), (7, 30), (4, 10), (99, 1)],
                "null_value_counts": [(1, 2)],
                "nan_value_counts": [(3, 1)],
            },
            {"lower_bounds": [], "upper_bounds": None, "value_counts": [(7, 31)]},
        ),
        schema=SCHEMA,
        specs={0: UNPARTITIONED},
    ).table
    metrics = {n: wide[n].to_pylist() for n in wide.column_names if n[:6] in ("lower_", "upper_") and n[6].isdigit()}
    counts = {n: wide[n].to_pylist() for n in wide.column_names if n.startswith(("values_", "nulls_", "nans_"))}
    assert metrics == {
        "lower_1": [-5, None],
        "lower_2": ["a", None],
        "lower_5": [7, None],
        "upper_2": ["z", None],
    }
    assert counts == {
        "values_1": [10, None],
        "values_7": [30, 31],
        "nulls_1": [2, None],
        "nans_3": [1, None],
    }
    assert wide["lower_5"].type == pa.int32() and wide["values_1"].type == pa.int64()


KEYS = st.lists(st.sampled_from([1, 2, 3, 5, 7]), max_size=5)


BOUNDS = {1: struct.pack("<q", -5), 2: b"a", 3: struct.pack("<f", 0.5), 5: struct.pack("<i", 7), 7: b""}


READ = {1: -5, 2: "a", 3: 0.5, 5: 7, 7: ""}


@given(bounds=st.lists(st.none() | KEYS, min_size=1, max_size=6), counts=st.lists(KEYS, min_size=6, max_size=6))
def test_metrics_are_those_of_their_files_whatever_keys_the_files_have(
    bounds: list[list[int] | None], counts: list[list[int]]
) -> None:
    """Keys in any order, some missing, some twice, where the last one holds."""
    rows: list[dict[str, Any]] = [
        {
            "upper_bounds": None if keys is None else [(k, BOUNDS[k]) for k in keys],
            "value_counts": [(k, 10 * i + place) for place, k in enumerate(counts[i])],
        }
        for i, keys in enumerate(bounds)
    ]
    wide = widen(entries(*rows), schema=SCHEMA, specs={0: UNPARTITIONED}).table
    wide.validate(full=True)
    for key, value in READ.items():
        expected = {
            f"upper_{key}": [value if key in (keys or ()) else None for keys in bounds],
            f"values_{key}": [dict(row["value_counts"]).get(key) for row in rows],
        }
        for name, column in expected.items():
            there = any(v is not None for v in column)
            assert (name in wide.column_names) == there
            assert not there or wide[name].to_pylist() == column


def test_keys_that_look_like_those_of_the_first_file_all_along() -> None:
    rows = ({"value_counts": [(1, 10)]}, {"value_counts": [(2, 20), (1, 21), (2, 22)]})
    wide = widen(entries(*rows), schema=SCHEMA, specs={0: UNPARTITIONED}).table
    assert wide["values_1"].to_pylist() == [10, 21] and wide["values_2"].to_pylist() == [None, 22]


def test_the_canonical_columns_stay_as_they_are_and_positions_are_added() -> None:
    table = entries({"value_counts": [(1, 10)], "key_metadata": b"k"}, {"split_offsets": [4], "equality_ids": [1]})
    wide = widen(table, schema=SCHEMA, specs={0: UNPARTITIONED}).table
    assert wide.select(ENTRY_SCHEMA.names) == table
    assert wide["ordinal"].to_pylist() == [0, 1]
    assert wide.schema.field("row_offset").type == pa.int64()


def test_no_entries_at_all() -> None:
    schema, spec = identity_spec(LongType())
    wide = widen(ENTRY_SCHEMA.empty_table(), schema=schema, specs={0: spec}).table
    assert len(wide) == 0 and "ordinal" in wide.column_names


keys = st.integers(0, 5) | st.integers(2**20, 2**20 + 1)


@examples(40, new=560)
@given(st.lists(st.none() | st.lists(st.tuples(keys, st.integers(0, 9)), max_size=6, unique_by=lambda p: p[0])))
def test_maps_are_gathered_by_field_id_whatever_their_order(rows: list[list[tuple[int, int]] | None]) -> None:
    ids = [0, 1, 2, 3, 4, 5, 2**20, 2**20 + 1]
    schema = Schema(tuple(NestedField(i, f"c{i}", LongType()) for i in ids))
    table = entries(*({"value_counts": r} for r in rows))
    # Also where the map column is a slice with an offset of its own.
    for part in (table, table.slice(1)):
        wide = widen(part, schema=schema, specs={0: UNPARTITIONED}).table
        for i in ids:
            expected = [dict(r or []).get(i) for r in rows][len(table) - len(part) :]
            found = wide[f"values_{i}"].to_pylist() if f"values_{i}" in wide.column_names else [None] * len(part)
            assert found == expected


def test_M5_a_bound_that_is_nan_is_no_bound_but_a_partition_value_may_be() -> None:
    schema, spec = identity_spec(DoubleType())
    nan = struct.pack("<d", math.nan)
    row = {"lower_bounds": [(1, nan)], "upper_bounds": [(1, struct.pack("<d", -0.0))], "partition": [(1000, nan)]}
    (found,) = widen(entries(row), schema=schema, specs={0: spec}).table.to_pylist()
    assert found["lower_1"] is None and math.isnan(found["part_1000"])
    assert math.copysign(1, found["upper_1"]) == -1


def test_bounds_that_are_the_wrong_way_round_are_unknown() -> None:
    """No value lies between them, so a plan would leave out a file that may have some; those beside them stay."""
    schema, _ = identity_spec(LongType())
    one, two = (struct.pack("<q", n) for n in (1, 2))
    rows = ({"lower_bounds": [(1, low)], "upper_bounds": [(1, high)]} for low, high in ((one, two), (two, one)))
    wide = widen(entries(*rows), schema=schema, specs={0: UNPARTITIONED}).table
    assert wide["lower_1"].to_pylist() == [1, None] and wide["upper_1"].to_pylist() == [2, None]


@pytest.mark.parametrize(
    ("iceberg_type", "file_format", "other", "own"),
    [
        (TimestampNanoType(), "ORC", 1_704_067_200_000_000, 1_704_067_200_000_000_000),
        (TimestampType(), "PARQUET", 1_704_067_200_000, 1_704_067_200_000_000),
        (TimestamptzType(), "PARQUET", -62_135_596_800_000, -62_135_596_800_000_000),
    ],
)
def test_bounds_of_timestamps_that_may_be_of_another_unit_are_unknown(
    iceberg_type: PrimitiveType, file_format: str, other: int, own: int
) -> None:
    """Java wrote such bounds, of ORC (until 1.11) and of files that others wrote, and plans lost rows by them."""
    schema, _ = identity_spec(iceberg_type)
    low, high = ([(1, struct.pack("<q", n))] for n in (other, own))
    bounds = [(low, low, file_format), (low, None, file_format), (low, high, file_format), (low, low, "AVRO")]
    made = [{"lower_bounds": lower, "upper_bounds": upper, "file_format": kind} for lower, upper, kind in bounds]
    wide = widen(entries(*made), schema=schema, specs={0: UNPARTITIONED}).table
    assert [v is not None for v in wide["lower_1"].to_pylist()] == [False, False, other < own, True]
    assert [v is not None for v in wide["upper_1"].to_pylist()] == [False, False, other < own, True]


def test_what_lies_below_a_null_is_not_there() -> None:
    """Arrow lets a null of a map column cover entries."""
    table = entries({"value_counts": [(1, 7)]}, {"value_counts": [(1, 8)]}, {"value_counts": [(1, 9), (2, 3)]})
    counts = table["value_counts"].combine_chunks()
    covered = pa.MapArray.from_arrays(counts.offsets, counts.keys, counts.items, mask=pa.array([False, True, False]))
    index = ENTRY_SCHEMA.get_field_index("value_counts")
    table = table.set_column(index, ENTRY_SCHEMA.field(index), covered)
    wide = widen(table, schema=SCHEMA, specs={0: UNPARTITIONED}).table
    assert wide["values_1"].to_pylist() == [7, None, 9] and wide["values_2"].to_pylist() == [None, None, 3]
    data = write_manifest(
        table,
        spec=UNPARTITIONED,
        schema=SCHEMA,
        content=ManifestContent.DATA,
        format_version=2,
        sync_marker=bytes(16),
    )
    found = decode_manifest(data, where="m", spec_id=0)["value_counts"].to_pylist()
    assert found == [[(1, 7)], None, [(1, 9), (2, 3)]]


def test_PT6_values_of_unknown_transforms_count_and_stay_binary() -> None:
    spec = PartitionSpec((PartitionField((1,), 1000, UnknownTransform("zorder"), "z"),))
    table = entries(*({"partition": [(1000, v)]} for v in (b"\xff\x00", b"\xff\x01", None)))
    wide = widen(table, schema=SCHEMA, specs={0: spec}).table
    assert wide["part_1000"].to_pylist() == [b"\xff\x00", b"\xff\x01", None]
    assert len(set(wide["partition_key"].to_pylist())) == 3


def test_entries_of_several_specs() -> None:
    schema, spec = identity_spec(IntegerType(), StringType())
    first, second = evolve(spec, fields=spec.fields[:1]), evolve(spec, fields=spec.fields[1:], spec_id=1)
    one = struct.pack("<i", 1)
    table = entries(
        {"partition": [(1000, one)]},
        {"spec_id": 1, "partition": [(1001, b"x")]},
        {"spec_id": 2},
        {"partition": [(1000, one)]},
    )
    wide = widen(table, schema=schema, specs={0: first, 1: second, 2: evolve(UNPARTITIONED, spec_id=2)}).table
    assert wide["part_1000"].to_pylist() == [1, None, None, 1]
    assert wide["part_1001"].to_pylist() == [None, "x", None, None]
    found = wide["partition_key"].to_pylist()
    assert len(set(found)) == 3 and found[0] == found[3]
    with pytest.raises(ValidationError, match="spec 2"):
        widen(table, schema=schema, specs={0: first, 1: second})


def test_one_partition_field_id_of_two_types_is_refused() -> None:
    schema, spec = identity_spec(IntegerType(), StringType())
    first, clash = evolve(spec, fields=spec.fields[:1]), PartitionSpec((evolve(spec.fields[1], field_id=1000),), 1)
    one = [(1000, struct.pack("<i", 1))]
    with pytest.raises(ValidationError, match="1000"):
        widen(entries({"partition": one}, {"spec_id": 1, "partition": one}), schema=schema, specs={0: first, 1: clash})


MANIFEST = ManifestFile("m", 1, 0, sequence_number=9, min_sequence_number=3, added_snapshot_id=77)


NUMBERS = ("snapshot_id", "sequence_number", "file_sequence_number", "first_row_id")


def inherited(table: pa.Table, manifest: ManifestFile) -> list[tuple[Any, ...]]:
    """What canonical and wide entries inherit alike."""
    found = inherit(table, manifest)
    wide = inherit(widen(table, schema=SCHEMA, specs={0: UNPARTITIONED}).table, manifest)
    assert wide.select(ENTRY_SCHEMA.names) == found and found.schema == ENTRY_SCHEMA
    again = inherit(inherit_sequence_numbers(table, [manifest], [len(table)]), manifest)
    assert again == found
    return [tuple(row[name] for name in NUMBERS) for row in found.to_pylist()]


def test_M2_only_added_entries_inherit_sequence_numbers() -> None:
    table = entries(
        {},
        {"snapshot_id": 5, "sequence_number": 2},
        {"status": 0, "snapshot_id": 4, "sequence_number": 3, "file_sequence_number": 4},
        {"status": 0, "sequence_number": 3},
        {"status": 2},
    )
    assert inherited(table, MANIFEST) == [
        (77, 9, 9, None),
        (5, 2, 9, None),
        (4, 3, 4, None),
        (77, 3, None, None),
        (77, None, None, None),
    ]


def test_M2_a_live_entry_without_sequence_number_is_corrupt() -> None:
    with pytest.raises(CorruptFileError, match="file:///lost"):
        inherit(entries({"status": 0, "file_path": "file:///lost"}), MANIFEST)


def test_M3_entries_of_v1_manifests_have_sequence_number_0() -> None:
    found = inherited(entries({"status": 0}, {}, {"status": 2}), evolve(MANIFEST, sequence_number=0))
    assert found == [(77, 0, 0, None)] * 3


def test_RL3_first_row_ids_count_live_data_files_without_one() -> None:
    table = entries(
        {"record_count": 10},
        {"record_count": 20, "first_row_id": 5},
        {"record_count": 40, "status": 0, "sequence_number": 1, "file_sequence_number": 1},
        {"record_count": 80, "status": 2},
        {"record_count": 1},
    )
    found = inherited(table, evolve(MANIFEST, first_row_id=1000))
    assert [f[3] for f in found] == [1000, 5, 1010, None, 1050]
    assert [f[3] for f in inherited(table, MANIFEST)] == [None] * 5


def test_RL3_delete_files_have_no_first_row_id() -> None:
    table = entries({"content": 1})
    deletes = evolve(MANIFEST, first_row_id=1000, content=ManifestContent.DELETES)
    assert inherited(table, deletes)[0][3] is None


def test_manifests_one_after_another_are_as_each_alone() -> None:
    first = entries({"record_count": 10}, {"record_count": 20, "status": 2}, {"record_count": 5, "first_row_id": 3})
    second = entries({"record_count": 7, "value_counts": [(1, 7)]}, {"record_count": 1})
    manifests = [MANIFEST, evolve(MANIFEST, manifest_path="n", sequence_number=0, added_snapshot_id=None)]
    counts = [3, 0, 2]
    three = [manifests[0], MANIFEST, manifests[1]]
    together = inherit_sequence_numbers(pa.concat_tables([first, second]), three, counts)
    wide = widen_all(together, counts, schema=SCHEMA, specs={0: UNPARTITIONED}).table
    for table, manifest, start in ((first, manifests[0], 0), (second, manifests[1], 3)):
        alone = widen(
            inherit_sequence_numbers(table, [manifest], [len(table)]), schema=SCHEMA, specs={0: UNPARTITIONED}
        )
        part = wide.slice(start, len(table)).select(alone.table.column_names)
        assert part.to_pylist() == alone.table.to_pylist()
    assert wide["ordinal"].to_pylist() == [0, 1, 2, 0, 1]
    assert wide["row_offset"].to_pylist() == [0, 10, 10, 0, 7]


def test_M2_the_manifest_of_a_corrupt_entry_is_named() -> None:
    table = entries({}, {"status": 0, "file_path": "file:///lost"})
    with pytest.raises(CorruptFileError, match=r"^other: .*file:///lost"):
        inherit_sequence_numbers(table, [MANIFEST, evolve(MANIFEST, manifest_path="other")], [1, 1])


def test_what_a_promotion_may_turn_readable_is_known() -> None:
    """A value that does not fit its type may fit the next one; NaN bounds are null on purpose."""
    schema, spec = identity_spec(IntegerType(), DoubleType())
    long, nan = struct.pack("<q", 2**40), struct.pack("<d", math.nan)
    row = {"partition": [(1000, long), (1001, None)], "lower_bounds": [(1, long), (2, nan), (99, b"")]}
    found = widen(entries(row), schema=schema, specs={0: spec})
    assert found.unreadable == {"part_1000", "lower_1"} and found.unknown == {99}
    assert found.types["part_1000"] == "int" and found.types["lower_2"] == "double"


def test_SP1_a_count_below_zero_is_unknown() -> None:
    """Some writers have -1 for what they did not count; equal ones would say that a column is null throughout."""
    counts = {"value_counts": [(1, -1)], "null_value_counts": [(1, -1)], "nan_value_counts": [(1, -1)]}
    known = {"value_counts": [(1, 3)], "null_value_counts": [(1, 0)], "nan_value_counts": [(1, 1)]}
    made = widen(entries(counts, known), schema=SCHEMA, specs={0: UNPARTITIONED}).table
    found = [made[f"{name}_1"].to_pylist() for name in ("values", "nulls", "nans")]
    assert found == [[None, 3], [None, 0], [None, 1]]
