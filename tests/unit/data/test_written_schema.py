"""The schema that a Parquet footer has as JSON, held against the columns that it has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from core_tables import local

import icecore
from icecore.engine.errors import CorruptFileError

ID = b"PARQUET:field_id"
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])
ROWS = [{"id": 1, "name": "a"}]


@pytest.fixture
def written(catalog: icecore.Catalog) -> tuple[icecore.Table, Path, dict[str, Any]]:
    """A table, its data file, and the schema that the file was written with."""
    table = catalog.create_table("ns.t", SCHEMA)
    table.append(pa.Table.from_pylist(ROWS, SCHEMA))
    path = local(table.scan().plan_files()[0].file.file_path)
    return table, path, json.loads(pq.read_metadata(path).metadata[b"iceberg.schema"])


def rewrite(path: Path, ids: dict[str, int], schema: str) -> None:
    """The file again, with these ids of its columns, and any text for its schema."""
    fields = [f.with_metadata({ID: str(ids[f.name])}) for f in SCHEMA]
    found = pa.Table.from_pylist(ROWS, pa.schema(fields, {b"iceberg.schema": schema.encode()}))
    pq.write_table(found, path)


@pytest.mark.parametrize(
    "schema",
    [
        "no schema",
        "[]",
        '{"type": "struct"}',
        '{"type": "struct", "fields": [{"id": "x", "type": "int"}]}',
        '{"type": "list", "element": ' * 1_000 + '"int"' + "}" * 1_000,
    ],
)
def test_what_is_no_schema_says_nothing(written: tuple[icecore.Table, Path, dict[str, Any]], schema: str) -> None:
    """Another program's text under the same name keeps no file from being read."""
    table, path, _ = written
    rewrite(path, {"id": 1, "name": 2}, schema)
    assert table.scan().to_arrow().to_pylist() == ROWS


def test_columns_with_other_ids_are_told(written: tuple[icecore.Table, Path, dict[str, Any]]) -> None:
    """A column that was written and is not there by its id would be read as nulls."""
    table, path, schema = written
    rewrite(path, {"id": 1, "name": 9}, json.dumps(schema))
    with pytest.raises(CorruptFileError, match="written with a column of field id 2"):
        table.scan().to_arrow()
    assert table.scan(selected_fields=("id",)).to_arrow().to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("names", [["id"], ["point", "id"], ["name"]])
def test_a_file_that_was_written_again_with_fewer_columns_is_read(
    names: list[str], catalog: icecore.Catalog, tmp_path: Path
) -> None:
    """Arrow keeps the schema of a file that it read in the one that it writes."""
    nested = pa.schema([*SCHEMA, pa.field("point", pa.struct([("x", pa.int32()), ("y", pa.int32())]))])
    row = {"id": 1, "name": "a", "point": {"x": 2, "y": 3}}
    first, second = catalog.create_table("ns.t", nested), catalog.create_table("ns.again", nested)
    first.append([row])
    cut = pq.read_table(local(first.scan().plan_files()[0].file.file_path)).select(names)
    assert b"iceberg.schema" in cut.schema.metadata
    pq.write_table(cut, tmp_path / "cut.parquet")
    second.add_files([str(tmp_path / "cut.parquet")])
    assert second.scan().to_arrow().to_pylist() == [{n: row[n] if n in names else None for n in row}]
    assert not catalog.verify("ns.again", deep=True).problems


def test_a_column_whose_id_is_that_of_another_is_told(written: tuple[icecore.Table, Path, dict[str, Any]]) -> None:
    table, path, schema = written
    rewrite(path, {"id": 1, "name": 1}, json.dumps(schema))
    with pytest.raises(CorruptFileError, match="written with a column of field id 2"):
        table.scan().to_arrow()
