"""Columns of data files without field ids: by a name mapping, by place, or by name. Spec: P2."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import ListType, LongType, NestedField, StringType, StructType

from .reading import data_file, rows

NO_IDS = pa.table({"A": [1], "s": [{"x": 1, "y": "a"}], "l": [[{"z": 2}]], "dropped": [5]})
MAPPED = Schema((
    NestedField(1, "a", LongType()),
    NestedField(2, "s", StructType((NestedField(5, "yy", StringType()), NestedField(4, "x", LongType())))),
    NestedField(3, "l", ListType(6, StructType((NestedField(7, "zz", LongType()),)))),
    NestedField(9, "new", LongType(), initial_default=8),
))  # fmt: skip


def test_p2_name_mapping_for_files_without_ids(tmp_path: Path) -> None:
    mapping = NameMapping.from_json(
        '[{"field-id": 1, "names": ["a", "A"]}, {"field-id": 2, "names": ["s"], "fields": ['
        '{"field-id": 4, "names": ["x"]}, {"field-id": 5, "names": ["y"]}]},'
        '{"field-id": 3, "names": ["l"], "fields": [{"field-id": 6, "names": ["element"], "fields": ['
        '{"field-id": 7, "names": ["z"]}]}]}, {"names": ["dropped"]}]'
    )
    file = data_file(tmp_path / "f.parquet", NO_IDS)
    expected = [{"a": 1, "s": {"yy": "a", "x": 1}, "l": [{"zz": 2}], "new": 8}]
    assert rows(file, MAPPED, name_mapping=mapping) == expected


def test_p2_a_mapping_that_contradicts_the_schema_gives_way_to_names(tmp_path: Path) -> None:
    """Hive's migration numbered nested fields depth first and the schema breadth first."""
    mapping = NameMapping.from_json(
        '[{"field-id": 1, "names": ["s"], "fields": [{"field-id": 2, "names": ["x"]}]},{"field-id": 3, "names": ["a"]}]'
    )
    schema = Schema(
        (NestedField(1, "s", StructType((NestedField(3, "x", LongType()),))), NestedField(2, "a", StringType()))
    )
    file = data_file(tmp_path / "f.parquet", pa.table({"s": [{"x": 1}], "a": ["q"]}))
    assert rows(file, schema, name_mapping=mapping) == [{"s": {"x": 1}, "a": "q"}]


def test_files_without_ids_and_mapping_are_numbered_by_place(tmp_path: Path) -> None:
    """As Java does for Parquet: the table's first three columns, by place; inside them by name."""
    file = data_file(tmp_path / "f.parquet", NO_IDS)
    now = Schema((
        NestedField(1, "renamed", LongType()),
        NestedField(2, "s", StructType((NestedField(5, "y", StringType()),))),
        NestedField(9, "new", LongType()),
    ))  # fmt: skip
    assert rows(file, now) == [{"renamed": 1, "s": {"y": "a"}, "new": None}]


def test_places_whose_types_contradict_the_schema_give_way_to_names(tmp_path: Path) -> None:
    """Dremio's own tables: partition columns come first in the schema, and the files lack them."""
    file = data_file(tmp_path / "f.parquet", pa.table({"n": [7], "s": [{"x": 1}]}))
    now = Schema((
        NestedField(1, "part", StringType()),
        NestedField(2, "n", LongType()),
        NestedField(3, "s", StructType((NestedField(4, "x", LongType()),))),
    ))  # fmt: skip
    assert rows(file, now) == [{"part": None, "n": 7, "s": {"x": 1}}]


XY = pa.struct([("x", pa.int64())])


@pytest.mark.parametrize("mapped", [True, False])
@pytest.mark.parametrize(
    "kind, found",
    [
        (XY, pa.nulls(2)),
        (pa.list_(XY), pa.nulls(2)),
        (pa.map_(pa.string(), XY), pa.nulls(2)),
        (pa.list_(XY), pa.array([[None], None], pa.list_(pa.null()))),
        (pa.map_(pa.string(), XY), pa.array([[("k", None)], None], pa.map_(pa.string(), pa.null()))),
        (pa.struct([("n", pa.int64()), ("s", XY)]), pa.array([{"n": 1, "s": None}, None])),
    ],
)
def test_columns_in_which_a_writer_saw_only_nulls(
    tmp_path: Path, mapped: bool, kind: pa.DataType, found: pa.Array
) -> None:
    """pandas and Arrow know no type for them, whatever the table's is; they are nulls, and no default."""
    file = data_file(tmp_path / "f.parquet", pa.table({"id": [1, 2], "c": found}))
    schema = arrow_to_schema(pa.schema([("id", pa.int64()), ("c", kind)]))
    mapping = NameMapping.of_fields(schema.fields) if mapped else None
    expected = [{"id": i, "c": c} for i, c in enumerate(found.to_pylist(), 1)]
    assert rows(file, schema, name_mapping=mapping) == expected
