"""Data and delete files of any format as batches of their own columns, with the position of each row.

Spec: Appendix A. A source gives a file's columns with their field ids; `column_resolution` makes a table's columns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Protocol

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
from attrs import frozen

from icecore.engine.data.avro.avro_reader import AvroRows
from icecore.engine.data.file.file_field import FileField, check_names, file_fields
from icecore.engine.data.orc.orc_nanoseconds import stripe_batches
from icecore.engine.data.orc.orc_tail import Stripe, read_tail
from icecore.engine.data.parquet.duckdb_reader import DuckDBParquet
from icecore.engine.data.parquet.parquet_row_groups import read_row_groups
from icecore.engine.data.read.written_schema import SCHEMA_KEY
from icecore.engine.errors import CorruptFileError, IcecoreError, StorageError, ValidationError
from icecore.engine.spec.content_file import FileFormat
from icecore.engine.storage.file_io import Storage

BATCH_ROWS = 131_072
TO_THE_END = 2**62
# Part of Arrow's error for a timestamp that only fits into microseconds.
_TOO_FAR = "out of range for nanosecond"


@frozen
class FileBatch:
    """Consecutive rows of a file: the columns that were asked for, by their names in the file."""

    first_position: int
    length: int
    columns: Mapping[str, pa.Array]


class Source(Protocol):
    """An open file. `fields` are its columns, `written_schema` is the value of `iceberg.schema` in its footer."""

    fields: tuple[FileField, ...]
    written_schema: bytes | None

    def batches(self, leaves: frozenset[int], start: int, length: int, batch_rows: int) -> Iterator[FileBatch]:
        """The rows that belong to a byte range, in order, with at least the primitive columns asked for.

        Rows belong to the range in which their row group starts. Without `leaves` only positions and lengths are
        given.
        """
        ...


def open_source(storage: Storage, location: str, file_format: FileFormat) -> Source:
    """An open data or delete file.

    Raises MissingFileError, CorruptFileError or StorageError naming it, ValidationError for a Puffin file.
    """
    with decoding(location):
        match file_format:
            case FileFormat.PARQUET:
                return _open_parquet(storage, location)
            case FileFormat.ORC:
                return OrcSource(storage, location)
            case FileFormat.AVRO:
                return AvroSource(storage, location)
            case _:
                raise ValidationError(f"{location}: a file of format {file_format} has no rows to read")


def _open_parquet(storage: Storage, location: str) -> Source:
    try:
        with decoding(location):
            return ParquetSource(storage, location)
    except CorruptFileError:
        path = storage.local_path(location)
        if path is None:
            raise
        return DuckDBSource(path, location)


@contextlib.contextmanager
def decoding(location: str) -> Iterator[None]:
    """A context in which a decoder's errors about bad bytes become a CorruptFileError that names the file.

    Errors of reading become a StorageError.
    """
    try:
        yield
    except IcecoreError:
        raise
    except OSError as e:
        # Arrow's decoders raise OSError too; only the operating system's own carry a number.
        if e.errno is not None:
            raise StorageError(f"can't read {location}: {e.strerror or e}") from e
        raise CorruptFileError(f"{location} can't be decoded: {e}") from e
    except (pa.ArrowException, UnicodeDecodeError) as e:
        raise CorruptFileError(f"{location} can't be decoded: {e}") from e


class ParquetSource:
    """A Parquet file; only the columns asked for are read, row group by row group."""

    def __init__(self, storage: Storage, location: str) -> None:
        self.location = location
        # INT96 as microseconds: nanoseconds end in the year 2262.
        self._input = storage.open_input(location)
        self._file = pq.ParquetFile(self._input, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
        self.fields = file_fields(self._file.schema_arrow)
        check_names(self.fields, location)
        footer = self._file.metadata
        self.written_schema = (footer.metadata or {}).get(SCHEMA_KEY)
        if sum(f.leaves for f in self.fields) != footer.num_columns:
            raise CorruptFileError(f"{location}: the columns of the Parquet schema can't be told apart")
        if (rows := sum(footer.row_group(g).num_rows for g in range(footer.num_row_groups))) != footer.num_rows:
            raise CorruptFileError(f"{location}: row groups have {rows:,} rows, the file {footer.num_rows:,}")

    def batches(self, leaves: frozenset[int], start: int, length: int, batch_rows: int) -> Iterator[FileBatch]:
        """See `Source.batches`."""
        paths = [self._file.schema.column(i).path for i in sorted(leaves)]
        first = 0
        with decoding(self.location):
            for g, offset in enumerate(self._starts(start, length)):
                rows = self._file.metadata.row_group(g).num_rows
                if rows and start <= offset < start + length:
                    yield from self._group(g, rows, first, paths, batch_rows)
                first += rows

    def _starts(self, start: int, length: int) -> list[int]:
        """The offsets of the row groups; zeros where the range is the whole file."""
        count = self._file.metadata.num_row_groups
        if start == 0 and length >= TO_THE_END:
            return [0] * count
        found = [g.start for g in read_row_groups(self._input, self.location)]
        if len(found) != count:
            raise CorruptFileError(f"{self.location}: the footer should have {count} row groups, found {len(found)}")
        return found

    def _group(self, g: int, rows: int, first: int, paths: list[str], batch_rows: int) -> Iterator[FileBatch]:
        if not paths:
            yield from _empty_batches(first, rows, batch_rows)
            return
        read = 0
        for batch in self._file.iter_batches(batch_rows, row_groups=[g], columns=paths):
            yield FileBatch(first + read, batch.num_rows, _columns(batch))
            read += batch.num_rows
        if read != rows:
            raise CorruptFileError(f"{self.location}: row group {g} should have {rows} rows, found {read}")


class DuckDBSource:
    """A Parquet file that Arrow can't open. All its rows belong to the range with byte 0."""

    written_schema: bytes | None = None

    def __init__(self, path: str, location: str) -> None:
        self.location = location
        self._file = DuckDBParquet(path, location)
        self.fields = self._file.fields

    def batches(self, leaves: frozenset[int], start: int, length: int, batch_rows: int) -> Iterator[FileBatch]:
        """See `Source.batches`."""
        if start > 0:
            return
        first = 0
        for batch in self._file.batches(_top_names(self.fields, leaves), batch_rows):
            yield FileBatch(first, batch.num_rows, _columns(batch))
            first += batch.num_rows


class OrcSource:
    """An ORC file, read stripe by stripe. A stripe belongs to the range in which it starts.

    If the tail can't be decoded, or disagrees with Arrow, all rows belong to the range with byte 0.
    """

    written_schema: bytes | None = None

    def __init__(self, storage: Storage, location: str) -> None:
        self.location = location
        self._input = storage.open_input(location)
        self._file = pyarrow.orc.ORCFile(self._input)
        self.fields = file_fields(self._file.schema)
        check_names(self.fields, location)
        self._stripes = self._find_stripes()

    def _find_stripes(self) -> tuple[Stripe, ...] | None:
        try:
            stripes = read_tail(self._input, self.location).stripes
        except CorruptFileError:
            return None
        agree = len(stripes) == self._file.nstripes and sum(s.rows for s in stripes) == self._file.nrows
        return stripes if agree else None

    def batches(self, leaves: frozenset[int], start: int, length: int, batch_rows: int) -> Iterator[FileBatch]:
        """See `Source.batches`."""
        names = _top_names(self.fields, leaves)
        if self._stripes is None:
            if start == 0:
                yield from self._all(names, batch_rows)
            return
        first = 0
        for i, stripe in enumerate(self._stripes):
            if start <= stripe.offset < start + length:
                if names:
                    yield from self._stripe(i, stripe.rows, names, first, batch_rows)
                else:
                    yield from _empty_batches(first, stripe.rows, batch_rows)
            first += stripe.rows

    def _all(self, names: list[str], batch_rows: int) -> Iterator[FileBatch]:
        if not names:
            yield from _empty_batches(0, self._file.nrows, batch_rows)
            return
        first = 0
        for i in range(self._file.nstripes):
            for batch in self._stripe(i, None, names, first, batch_rows):
                yield batch
                first = batch.first_position + batch.length

    def _stripe(self, i: int, rows: int | None, names: list[str], first: int, batch_rows: int) -> Iterator[FileBatch]:
        read = 0
        with decoding(self.location):
            for batch in self._arrow_batches(i, names, batch_rows):
                yield FileBatch(first + read, batch.num_rows, _columns(batch))
                read += batch.num_rows
        if rows is not None and read != rows:
            raise CorruptFileError(f"{self.location}: stripe {i} should have {rows} rows, found {read}")

    def _arrow_batches(self, i: int, names: list[str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        # Arrow takes a name for the path to a nested column where there is one.
        are_paths = any(n.startswith(f"{f.name}.") for n in names for f in self.fields)
        try:
            whole = self._file.read_stripe(i, columns=None if are_paths else names)
        except pa.ArrowInvalid as e:
            if _TOO_FAR not in str(e):
                raise
            yield from stripe_batches(self._input, self.location, self._file.schema, names, i, batch_rows)
            return
        for at in range(0, whole.num_rows, batch_rows):
            yield whole.slice(at, batch_rows)


class AvroSource:
    """An Avro file. It is decoded as a whole, and all rows belong to the range with byte 0."""

    written_schema: bytes | None = None

    def __init__(self, storage: Storage, location: str) -> None:
        self.location = location
        self._rows = AvroRows(storage.read_bytes(location), location)
        self.fields = file_fields(self._rows.schema)
        check_names(self.fields, location)

    def batches(self, leaves: frozenset[int], start: int, length: int, batch_rows: int) -> Iterator[FileBatch]:
        """See `Source.batches`."""
        if start > 0:
            return
        first = 0
        with decoding(self.location):
            for batch in self._rows.batches(batch_rows):
                yield FileBatch(first, batch.num_rows, _columns(batch))
                first += batch.num_rows


def _top_names(fields: tuple[FileField, ...], leaves: frozenset[int]) -> list[str]:
    return [f.name for f in fields if any(f.first_leaf <= i < f.first_leaf + f.leaves for i in leaves)]


def _columns(batch: pa.RecordBatch) -> dict[str, pa.Array]:
    return dict(zip(batch.schema.names, batch.columns, strict=True))


def _empty_batches(first: int, rows: int, batch_rows: int) -> Iterator[FileBatch]:
    for at in range(0, rows, batch_rows):
        yield FileBatch(first + at, min(batch_rows, rows - at), {})
