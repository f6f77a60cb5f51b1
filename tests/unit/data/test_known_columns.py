"""Columns of Parquet files that are told from other files: the same as of the file itself, and few files are opened."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icecore.engine.data.parquet.parquet_row_groups import around_row_groups, read_footer
from icecore.engine.data.read import known_columns
from icecore.engine.data.read.file_sources import open_source
from icecore.engine.data.read.known_columns import KnownColumns
from icecore.engine.errors import CorruptFileError, MissingFileError
from icecore.engine.spec.content_file import FileFormat
from icecore.engine.storage.file_io import Storage

STORAGE = Storage()
INT, TEXT = pa.field("id", pa.int64()), pa.field("name", pa.string())


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The files that are opened for their columns."""
    found: list[str] = []

    def open_(storage: Storage, location: str, file_format: FileFormat) -> Any:
        found.append(location)
        return open_source(storage, location, file_format)

    monkeypatch.setattr(known_columns, "open_source", open_)
    yield found


def written(path: Path, schema: pa.Schema, rows: int, **options: Any) -> str:
    numbers = pa.array(range(rows), pa.int64())
    columns = [(numbers.cast(pa.string()) if f.type == pa.binary() else numbers).cast(f.type) for f in schema]
    pq.write_table(pa.table(columns, schema=schema), path, **options)
    return str(path)


def test_of_files_that_differ_in_their_rows_one_is_opened(tmp_path: Path, opened: list[str]) -> None:
    known = KnownColumns()
    for n in range(50):
        path = written(tmp_path / f"{n}.parquet", pa.schema([INT, TEXT]), n, row_group_size=7)
        assert known.of(STORAGE, path) == open_source(STORAGE, path, FileFormat.PARQUET).fields
    assert len(opened) == 1


def test_files_whose_columns_differ_in_anything_are_told_apart(tmp_path: Path, opened: list[str]) -> None:
    """Names, types, ids, nullability, order, and what only Arrow's own schema in the footer says."""
    with_id = INT.with_metadata({"PARQUET:field_id": "1"})
    schemas = [
        pa.schema([INT]), pa.schema([INT, TEXT]), pa.schema([TEXT, INT]), pa.schema([with_id]),
        pa.schema([INT.with_nullable(False)]), pa.schema([INT.with_name("iD")]), pa.schema([INT.with_type(pa.int32())]),
        pa.schema([TEXT]), pa.schema([TEXT.with_type(pa.large_string())]), pa.schema([TEXT.with_type(pa.binary())]),
        pa.schema([INT.with_type(pa.timestamp("us", "UTC"))]), pa.schema([INT.with_type(pa.timestamp("us", "+01:00"))]),
    ]  # fmt: skip
    known = KnownColumns()
    for turn in range(2):
        for n, schema in enumerate(schemas):
            path = written(tmp_path / f"{turn}-{n}.parquet", schema, 3 + turn)
            assert known.of(STORAGE, path) == open_source(STORAGE, path, FileFormat.PARQUET).fields
    assert len(opened) == len(schemas)


def test_files_with_little_in_common_are_each_opened_and_not_looked_into_before(
    tmp_path: Path, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownColumns()
    looked: list[bytes] = []

    def looking(source: pa.NativeFile) -> bytes:
        looked.append(read_footer(source))
        return looked[-1]

    monkeypatch.setattr(known_columns, "read_footer", looking)
    for n in range(40):
        schema = pa.schema([INT], metadata={"number": str(n)})
        assert len(known.of(STORAGE, written(tmp_path / f"{n}.parquet", schema, 1))) == 1
    assert (len(opened), len(looked)) == (40, 32)


def test_what_is_no_parquet_file_is_told_as_by_opening_it(tmp_path: Path) -> None:
    known = KnownColumns()
    whole = Path(written(tmp_path / "whole.parquet", pa.schema([INT]), 5))
    assert known.of(STORAGE, str(whole))
    for name, content in (("empty", b""), ("cut", whole.read_bytes()[:-9]), ("short", b"PAR1")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(CorruptFileError, match=name):
            known.of(STORAGE, str(tmp_path / name))
    with pytest.raises(MissingFileError, match="gone"):
        known.of(STORAGE, str(tmp_path / "gone"))


VERSION, COUNT_AND_GROUPS, CREATED_BY, END = b"\x15\x02", b"\x26\x00\x19\x0c", b"\x28\x01x", b"\x00"


def test_a_footer_tells_what_is_before_and_after_its_row_groups() -> None:
    assert around_row_groups(VERSION + COUNT_AND_GROUPS + CREATED_BY + END) == (VERSION, CREATED_BY + END)


@pytest.mark.parametrize(
    "footer",
    [b"", END, VERSION + END, VERSION + COUNT_AND_GROUPS + END, VERSION + COUNT_AND_GROUPS + CREATED_BY + END + END],
)
def test_a_footer_without_row_groups_in_their_place_or_anything_after_them_tells_nothing(footer: bytes) -> None:
    """What has nothing after them but the end would be the end of any other."""
    with pytest.raises(ValueError, match=r"expected after byte|follow"):
        around_row_groups(footer)
