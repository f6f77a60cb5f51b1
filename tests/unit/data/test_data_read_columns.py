"""Columns of data files by field id. Spec: Column Projection (P1, P2), Schema Evolution (T7), Row Lineage (RL5)."""

from __future__ import annotations

import datetime as dt
import itertools
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.errors import CorruptFileError, MissingFileError, ValidationError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import BucketTransform, IdentityTransform
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    Type,
    UnknownType,
    UUIDType,
    VariantType,
)
from icecore.engine.storage.file_io import Storage

from .reading import content_file, data_file, rows, with_schema

AB = Schema((NestedField(1, "a", LongType()), NestedField(2, "b", StringType())))
AB_ROWS: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]


def one(field_id: int, name: str, t: Type, **more: Any) -> Schema:
    return Schema((NestedField(field_id, name, t, **more),))


def test_p1_names_swap_and_are_used_again(tmp_path: Path) -> None:
    """Two columns that swapped names, and a new column under an old name, are told apart by id."""
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB))
    now = Schema((NestedField(1, "b", LongType()), NestedField(2, "a", StringType())))
    assert rows(file, now) == [{"b": 1, "a": "x"}, {"b": 2, "a": None}]
    assert rows(file, one(3, "a", LongType())) == [{"a": None}, {"a": None}]


def test_p1_partition_value_comes_before_the_default(tmp_path: Path) -> None:
    """A column that the file lacks has its identity partition value; other transforms say nothing of it."""
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB), partition=(dt.date(2024, 1, 1).toordinal(), 3))
    spec = PartitionSpec(
        (PartitionField((3,), 1000, IdentityTransform(), "c"), PartitionField((4,), 1001, BucketTransform(8), "d_b"))
    )
    now = Schema(
        (
            NestedField(3, "c", LongType(), initial_default=-1),
            NestedField(4, "d", LongType(), initial_default=-1),
            NestedField(1, "a", LongType()),
        )
    )
    c = dt.date(2024, 1, 1).toordinal()
    assert rows(file, now, spec=spec) == [{"c": c, "d": -1, "a": a} for a in (1, 2)]
    null_partition = data_file(tmp_path / "g.parquet", with_schema(AB_ROWS, AB), partition=(None, 3))
    assert rows(null_partition, one(3, "c", LongType(), initial_default=-1), spec=spec) == [{"c": None}] * 2


def test_p1_a_column_in_the_file_beats_the_partition_value(tmp_path: Path) -> None:
    spec = PartitionSpec((PartitionField((1,), 1000, IdentityTransform(), "a"),))
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB), partition=(9,))
    assert rows(file, one(1, "a", LongType()), spec=spec) == [{"a": 1}, {"a": 2}]


def test_p1_defaults_of_every_kind(tmp_path: Path) -> None:
    u = uuid.uuid4()
    added: list[tuple[Type, Any, Any]] = [
        (BooleanType(), True, True),
        (DateType(), 1, dt.date(1970, 1, 2)),
        (TimestamptzType(), 1_000_000, dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)),
        (DecimalType(5, 2), Decimal("1.50"), Decimal("1.50")),
        (UUIDType(), u, u),
        (FixedType(2), b"ab", b"ab"),
        (StructType((NestedField(90, "x", LongType(), initial_default=3), NestedField(91, "y", LongType()))), {},
         {"x": 3, "y": None}),
        (ListType(92, UUIDType()), [u, None], [u, None]),
        (MapType(93, StringType(), 94, LongType()), [("k", 1)], [("k", 1)]),
        (UnknownType(), None, None),
    ]  # fmt: skip
    fields = (NestedField(10 + i, f"c{i}", t, initial_default=d) for i, (t, d, _) in enumerate(added))
    now = Schema((NestedField(1, "a", LongType()), *fields))
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB))
    assert rows(file, now) == [{"a": a, **{f"c{i}": seen for i, (_, _, seen) in enumerate(added)}} for a in (1, 2)]


def test_p1_a_required_column_without_default_is_an_error(tmp_path: Path) -> None:
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB))
    inner = StructType((NestedField(1, "a", LongType()), NestedField(9, "new", LongType(), required=True)))
    with pytest.raises(ValidationError, match=r"f\.parquet: the required column 'c' \(id 9\)"):
        rows(file, one(9, "c", LongType(), required=True))
    nested = data_file(
        tmp_path / "n.parquet", with_schema([{"s": {"a": 1}}], one(5, "s", StructType(inner.fields[:1])))
    )
    with pytest.raises(ValidationError, match=r"n\.parquet: the required column 's\.new' \(id 9\)"):
        rows(nested, one(5, "s", inner))
    assert rows(file, one(9, "c", LongType(), required=True, initial_default=4)) == [{"c": 4}] * 2


def test_a_struct_of_new_fields_only_keeps_its_nulls(tmp_path: Path) -> None:
    """When every wanted field of a struct is missing in the file, null structs are still null."""
    old = one(1, "s", StructType((NestedField(2, "x", LongType()), NestedField(3, "y", ListType(4, LongType())))))
    file = data_file(tmp_path / "f.parquet", with_schema([{"s": {"x": 1, "y": [1]}}, {"s": None}], old))
    now = one(1, "s", StructType((NestedField(7, "new", LongType(), initial_default=5),)))
    assert rows(file, now) == [{"s": {"new": 5}}, {"s": None}]


def test_lists_and_maps_of_structs_evolve_inside(tmp_path: Path) -> None:
    element = StructType((NestedField(3, "x", IntegerType()), NestedField(4, "y", StringType())))
    old = Schema((NestedField(1, "l", ListType(2, element)), NestedField(5, "m", MapType(6, StringType(), 7, StructType(
        (NestedField(8, "z", IntegerType()), NestedField(9, "w", StringType())))))))  # fmt: skip
    data: list[dict[str, Any]] = [
        {"l": [{"x": 1, "y": "a"}, None], "m": [("k", {"z": 1, "w": "q"}), ("j", None)]},
        {"l": None, "m": None},
        {"l": [], "m": []},
    ]
    file = data_file(tmp_path / "f.parquet", with_schema(data, old))
    now = Schema((
        NestedField(5, "mm", MapType(6, StringType(), 7, StructType((NestedField(8, "zz", LongType()),)))),
        NestedField(1, "ll", ListType(2, StructType((
            NestedField(11, "new", LongType()), NestedField(4, "yy", StringType()))))),
    ))  # fmt: skip
    assert rows(file, now) == [
        {"mm": [("k", {"zz": 1}), ("j", None)], "ll": [{"new": None, "yy": "a"}, None]},
        {"mm": None, "ll": None},
        {"mm": [], "ll": []},
    ]


def test_what_lists_and_maps_hold_is_told_by_its_place(tmp_path: Path) -> None:
    """Spark's own writer gives ids to columns and fields of structs alone; Java reads such files so too."""
    kind = pa.list_(pa.map_(pa.string(), pa.int32()))
    values = [[[("a", 1)], []], None, [None]]
    file = data_file(tmp_path / "f.parquet", pa.table([pa.array(values, kind)], ids(("x", kind, 1))))
    now = one(1, "x", ListType(2, MapType(3, StringType(), 4, IntegerType())))
    assert [r["x"] for r in rows(file, now)] == values


def test_values_of_a_map_with_another_id_are_null(tmp_path: Path) -> None:
    """Arrow reads such a map in Parquet as a list of its keys; null and empty maps stay what they are."""
    maps: list[dict[str, Any]] = [{"m": [("k", 1), ("l", 2)]}, {"m": []}, {"m": [("n", None)]}, {"m": None}]
    found = [{"m": [("k", None), ("l", None)]}, {"m": []}, {"m": [("n", None)]}, {"m": None}]
    for count in (3, 4):
        was = with_schema(maps[:count], one(1, "m", MapType(2, StringType(), 9, LongType())))
        file = data_file(tmp_path / f"{count}.parquet", was)
        for value in (LongType(), StructType((NestedField(4, "x", LongType()),))):
            assert rows(file, one(1, "m", MapType(2, StringType(), 3, value))) == found[:count]


def ids(*pairs: tuple[str, pa.DataType, int]) -> pa.Schema:
    return pa.schema([pa.field(n, t, metadata={"PARQUET:field_id": str(i)}) for n, t, i in pairs])


DAY = dt.date(1969, 12, 31)


@pytest.mark.parametrize(
    ("array", "t", "seen"),
    [
        (pa.array([1, None], pa.int32()), LongType(), [1, None]),
        (pa.array([1], pa.int8()), IntegerType(), [1]),
        (pa.array([0.5], pa.float32()), DoubleType(), [0.5]),
        (pa.array([0.5, float("inf"), None]), FloatType(), [0.5, float("inf"), None]),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), DecimalType(38, 2), [Decimal("1.50")]),
        (pa.array([DAY, None]), TimestampType(), [dt.datetime(1969, 12, 31), None]),
        (pa.array([1_000_500], pa.timestamp("ns")), TimestampType(), [dt.datetime(1970, 1, 1, 0, 0, 0, 1000)]),
        (pa.array([-1], pa.timestamp("ns")), TimestampType(), [dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)]),
        (pa.array([1], pa.timestamp("ms")), TimestamptzType(), [dt.datetime(1970, 1, 1, 0, 0, 0, 1000, dt.UTC)]),
        (pa.array([1], pa.timestamp("us", "UTC")), TimestampType(), [dt.datetime(1970, 1, 1, 0, 0, 0, 1)]),
        (pa.array([b"ab", None]), StringType(), ["ab", None]),
        (pa.array(["ab"]), BinaryType(), [b"ab"]),
        (pa.array(["ab"], pa.large_string()), StringType(), ["ab"]),
        (pa.array(["ab", "ab"]).dictionary_encode(), StringType(), ["ab", "ab"]),
        (pa.array([b"x" * 16], pa.binary(16)), UUIDType(), [uuid.UUID(bytes=b"x" * 16)]),
        (pa.array([b"ab"], pa.binary(2)), BinaryType(), [b"ab"]),
        (pa.array([b"ab"]), FixedType(2), [b"ab"]),
    ],
)
def test_t7_promotions_and_what_other_writers_store(tmp_path: Path, array: pa.Array, t: Type, seen: list[Any]) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([array], schema=ids(("c", array.type, 1))), path)
    assert [r["c"] for r in rows(content_file(path), one(1, "c", t))] == seen


def test_doubles_that_a_float_cannot_hold_are_refused(tmp_path: Path) -> None:
    """They are no values of the table's type; Java reads no doubles as floats at all."""
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([pa.array([0.5, 0.1])], schema=ids(("c", pa.float64(), 1))), path)
    with pytest.raises(CorruptFileError, match=r"column 'c': double can't be read as float: 0\.1 is not a float"):
        rows(content_file(path), one(1, "c", FloatType()))


def test_t7_date_to_timestamp_ns(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table([pa.array([DAY])], schema=ids(("c", pa.date32(), 1))), path)
    task = FileScanTask(content_file(path), (), TRUE, 0, 10**6, 1)
    schema = one(1, "c", TimestampNanoType())
    (batch,) = read_task(task, projection=schema, table_schema=schema, specs={0: PartitionSpec()}, storage=Storage())
    assert batch.column(0).cast(pa.int64()).to_pylist() == [-86_400_000_000_000]
    pq.write_table(pa.table([pa.array([10**6], pa.int32()).cast(pa.date32())], schema=ids(("c", pa.date32(), 1))), path)
    with pytest.raises(CorruptFileError, match=r"f\.parquet: column 'c'.*timestamp_ns"):
        rows(content_file(path), schema)


def test_int96_timestamps_of_any_year(tmp_path: Path) -> None:
    """Spark's old timestamps are instants in UTC, also outside of what nanoseconds can hold."""
    moments = [dt.datetime(1, 1, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999), None]
    path = tmp_path / "f.parquet"
    table = pa.table([pa.array(moments, pa.timestamp("us"))], schema=ids(("c", pa.timestamp("us"), 1)))
    pq.write_table(table, path, use_deprecated_int96_timestamps=True)
    seen = [r["c"] for r in rows(content_file(path), one(1, "c", TimestamptzType()))]
    assert seen == [m and m.replace(tzinfo=dt.UTC) for m in moments]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_what_arrow_knows_for_durations_are_longs(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "f.parquet"
    spans = pa.array([-1, None, 2**62], pa.duration(unit))
    pq.write_table(pa.table([spans], schema=ids(("c", spans.type, 1))), path)
    assert rows(content_file(path), one(1, "c", LongType())) == [{"c": -1}, {"c": None}, {"c": 2**62}]
    with pytest.raises(CorruptFileError, match=rf"should be int, the file has duration\[{unit}\]"):
        rows(content_file(path), one(1, "c", IntegerType()))


def test_types_that_do_not_fit_are_named(tmp_path: Path) -> None:
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB))
    with pytest.raises(CorruptFileError, match=r"f\.parquet: column 'a' \(id 1\) should be string, the file has int64"):
        rows(file, one(1, "a", StringType()))
    with pytest.raises(CorruptFileError, match=r"should be struct<>?"):
        rows(file, one(1, "a", StructType((NestedField(2, "x", LongType()),))))
    with pytest.raises(CorruptFileError, match="should be list"):
        rows(file, one(1, "a", ListType(5, LongType())))


def test_a_variant_is_read_as_its_two_binaries(tmp_path: Path) -> None:
    storage = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    path = tmp_path / "f.parquet"
    data = pa.array([{"metadata": b"\x01", "value": b"\x0c"}, None], storage)
    pq.write_table(pa.table([data], schema=ids(("v", storage, 1))), path)
    schema = one(1, "v", VariantType())
    assert rows(content_file(path), schema) == [{"v": {"metadata": b"\x01", "value": b"\x0c"}}, {"v": None}]


def test_p2_a_mapping_is_not_for_files_with_ids(tmp_path: Path) -> None:
    """A column without id in a file with ids is not found by its name."""
    table = pa.table([pa.array([1]), pa.array([2])], schema=pa.schema([*ids(("a", pa.int64(), 1)), ("b", pa.int64())]))
    file = data_file(tmp_path / "f.parquet", table)
    mapping = NameMapping.from_json('[{"field-id": 2, "names": ["b"]}, {"field-id": 1, "names": ["b2"]}]')
    now = Schema((NestedField(1, "a", LongType()), NestedField(2, "b", LongType())))
    assert rows(file, now, name_mapping=mapping) == [{"a": 1, "b": None}]


RESERVED = Schema((
    NestedField(2147483646, "_file", StringType(), required=True),
    NestedField(2147483645, "_pos", LongType(), required=True),
    NestedField(2147483643, "_spec_id", IntegerType(), required=True),
    NestedField(2147483540, "_row_id", LongType()),
    NestedField(2147483539, "_last_updated_sequence_number", LongType()),
))  # fmt: skip


def test_rl5_metadata_columns(tmp_path: Path) -> None:
    """Positions count through row groups and batches; row ids follow from the file's first."""
    table = with_schema([{"a": i, "b": None} for i in range(10)], AB)
    file = data_file(tmp_path / "f.parquet", table, rows_per_group=4, first_row_id=100)
    seen = rows(file, AB, projection=RESERVED, batch_rows=3)
    assert [tuple(r.values()) for r in seen] == [(file.file_path, i, 0, 100 + i, 7) for i in range(10)]
    before = data_file(tmp_path / "g.parquet", table)
    assert {(r["_row_id"], r["_last_updated_sequence_number"]) for r in rows(before, AB, projection=RESERVED)} == {
        (None, None)
    }


def test_rl5_stored_row_ids_win(tmp_path: Path) -> None:
    """Where the file has a first row id: rows of one without have none."""
    stored = ids(("_row_id", pa.int64(), 2147483540), ("_last_updated_sequence_number", pa.int64(), 2147483539))
    table = pa.table([pa.array([5, None, 3]), pa.array([None, 2, 1])], schema=stored)
    file = data_file(tmp_path / "f.parquet", table, first_row_id=100)
    lineage = Schema(RESERVED.fields[3:])
    assert [tuple(r.values()) for r in rows(file, AB, projection=lineage)] == [(5, 7), (101, 2), (3, 1)]
    unnumbered = data_file(tmp_path / "g.parquet", table)
    assert [tuple(r.values()) for r in rows(unnumbered, AB, projection=lineage)] == [(None, None)] * 3


def test_a_reserved_column_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB))
    with pytest.raises(ValidationError, match="_commit_snapshot_id"):
        rows(file, one(2147483541, "_commit_snapshot_id", LongType()))


def test_no_columns_still_count_rows(tmp_path: Path) -> None:
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB))
    assert rows(file, AB, projection=Schema(())) == [{}, {}]


def test_only_the_columns_asked_for_are_read(tmp_path: Path) -> None:
    """A file whose other column is destroyed gives the wanted one."""
    path = tmp_path / "f.parquet"
    schema = Schema((NestedField(1, "a", LongType()), NestedField(2, "s", StructType((
        NestedField(3, "x", LongType()), NestedField(4, "y", StringType()))))))  # fmt: skip
    pq.write_table(with_schema([{"a": 1, "s": {"x": 2, "y": "z" * 100}}], schema), path, compression="none")
    y = pq.read_metadata(path).row_group(0).column(2)
    data = bytearray(path.read_bytes())
    start = y.dictionary_page_offset or y.data_page_offset
    data[start : start + y.total_compressed_size] = b"\xff" * y.total_compressed_size
    path.write_bytes(bytes(data))
    narrow = Schema((NestedField(2, "s", StructType((NestedField(3, "x", LongType()),))),))
    assert rows(content_file(path), schema, projection=narrow) == [{"s": {"x": 2}}]
    with pytest.raises(CorruptFileError, match=r"f\.parquet"):
        rows(content_file(path), schema)


@pytest.mark.parametrize("parts", [1, 2, 7, 100])
def test_splits_give_every_row_once(tmp_path: Path, parts: int) -> None:
    """However a file is cut into byte ranges, together they give its rows, each once, with right positions."""
    table = with_schema([{"a": i, "b": "x" * (i % 50)} for i in range(1000)], AB)
    file = data_file(tmp_path / "f.parquet", table, rows_per_group=90)
    projection = Schema((*AB.fields[:1], RESERVED.fields[1]))
    cuts = [file.file_size_in_bytes * i // parts for i in range(parts + 1)]
    seen = [
        r
        for start, end in itertools.pairwise(cuts)
        for r in rows(file, AB, projection=projection, span=(start, end - start))
    ]
    assert seen == [{"a": i, "_pos": i} for i in range(1000)]


def test_files_that_are_missing_or_broken_are_named(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    with pytest.raises(MissingFileError, match=r"f\.parquet"):
        rows(content_file(path), AB)
    good = data_file(path, with_schema([{"a": i, "b": f"{i}"} for i in range(1000)], AB))
    whole = path.read_bytes()
    for broken in (
        b"",
        b"PAR1",
        whole[:-50],
        whole[: len(whole) // 2],
        b"x" * len(whole),
        whole[:4] + bytes(900) + whole[904:],
    ):
        path.write_bytes(broken)
        with pytest.raises(CorruptFileError, match=r"f\.parquet"):
            rows(good, AB)


def test_a_file_of_an_unknown_spec_is_an_error(tmp_path: Path) -> None:
    file = data_file(tmp_path / "f.parquet", with_schema(AB_ROWS, AB))
    task = FileScanTask(file, (), TRUE, 0, file.file_size_in_bytes, 1)
    with pytest.raises(ValidationError, match="no partition spec 0"):
        list(read_task(task, projection=AB, table_schema=AB, specs={}, storage=Storage()))


def test_required_columns_stay_required_in_arrow(tmp_path: Path) -> None:
    schema = one(1, "a", LongType(), required=True)
    file = data_file(tmp_path / "f.parquet", with_schema([{"a": 1}], schema))
    assert rows(file, schema) == [{"a": 1}]
    assert not schema_to_arrow(schema).field("a").nullable
