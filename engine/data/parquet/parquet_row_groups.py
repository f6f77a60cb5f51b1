"""The row groups of a Parquet file: their offsets and the bytes of their columns.

Spec: parquet-format, FileMetaData. pyarrow tells this too, but some broken footers make it crash the process.
"""

from __future__ import annotations

import pyarrow as pa
from attrs import define, field, frozen

from icecore.engine.data.parquet.thrift import ThriftReader
from icecore.engine.errors import CorruptFileError

_MAGIC = b"PAR1"
_TAIL_GUESS = 64 * 1024
_ROW_COUNT, _ROW_GROUPS, _COLUMNS, _ROWS, _METADATA = 3, 4, 1, 3, 3
_PATH, _COMPRESSED_SIZE, _DATA_PAGE, _DICTIONARY_PAGE = 3, 7, 9, 11


@frozen
class RowGroup:
    """One row group: the offset of its first page, its rows, and the bytes of each column by the names on its path."""

    start: int
    rows: int
    column_bytes: tuple[tuple[tuple[str, ...], int], ...]


def read_row_groups(source: pa.NativeFile, where: str) -> tuple[RowGroup, ...]:
    """The row groups of a Parquet file, in its order. Raises CorruptFileError naming `where`."""
    try:
        return _row_groups(ThriftReader(read_footer(source)))
    except (ValueError, RecursionError) as e:
        raise CorruptFileError(f"{where}: the footer of the Parquet file can't be decoded: {e}") from e


def read_footer(source: pa.NativeFile) -> bytes:
    """The footer of a Parquet file, as it is encoded. Raises ValueError where the file has none."""
    size = source.size()
    end: bytes = source.read_at(min(size, _TAIL_GUESS), max(0, size - _TAIL_GUESS))
    length = int.from_bytes(end[-8:-4], "little")
    if end[-4:] != _MAGIC or length > size - 8:
        raise ValueError("the file does not end as one of Parquet")
    footer: bytes = end[-8 - length : -8] if length + 8 <= len(end) else source.read_at(length, size - 8 - length)
    return footer


def around_row_groups(footer: bytes) -> tuple[bytes, bytes]:
    """The bytes of a footer before its number of rows, with the schema, and those after its row groups, of the file.

    The latter begin with a header that has the distance from the field before, so they can't also be the end of a
    footer with more fields. Raises ValueError where they are empty, or where the row groups do not directly follow the
    number of rows.
    """
    reader = ThriftReader(footer)
    found: dict[int, tuple[int, int]] = {}

    def visit(field_id: int, kind: int) -> None:
        begin = reader.header_at
        reader.skip(kind)
        found[field_id] = begin, reader.at

    reader.struct(visit)
    (begin, count_end), (groups_begin, end) = found.get(_ROW_COUNT, (0, 0)), found.get(_ROW_GROUPS, (1, 1))
    if count_end != groups_begin or reader.at != len(footer):
        raise ValueError("the row groups do not follow on their number of rows")
    if max(found) == _ROW_GROUPS:
        raise ValueError("nothing follows on the row groups")
    return footer[:begin], footer[end:]


def _row_groups(reader: ThriftReader) -> tuple[RowGroup, ...]:
    groups: list[RowGroup] = []

    def visit(field_id: int, kind: int) -> None:
        if field_id != _ROW_GROUPS:
            reader.skip(kind)
            return
        count, _ = reader.list_header()
        groups.extend(_row_group(reader) for _ in range(count))

    reader.struct(visit)
    return tuple(groups)


def _row_group(reader: ThriftReader) -> RowGroup:
    columns: list[_Column] = []
    rows = 0

    def visit(field_id: int, kind: int) -> None:
        nonlocal rows
        if field_id == _COLUMNS:
            count, _ = reader.list_header()
            columns.extend(_column(reader) for _ in range(count))
        elif field_id == _ROWS:
            rows = reader.zigzag()
        else:
            reader.skip(kind)

    reader.struct(visit)
    start = min((c.start for c in columns), default=0)
    return RowGroup(start, rows, tuple((c.path, c.size) for c in columns))


@define
class _Column:
    path: tuple[str, ...] = ()
    size: int = 0
    offsets: list[int] = field(factory=list)

    @property
    def start(self) -> int:
        return min((o for o in self.offsets if o), default=0)


def _column(reader: ThriftReader) -> _Column:
    column = _Column()

    def metadata(field_id: int, kind: int) -> None:
        if field_id == _PATH:
            count, _ = reader.list_header()
            column.path = tuple(reader.binary().decode() for _ in range(count))
        elif field_id == _COMPRESSED_SIZE:
            column.size = reader.zigzag()
        elif field_id in (_DATA_PAGE, _DICTIONARY_PAGE):
            column.offsets.append(reader.zigzag())
        else:
            reader.skip(kind)

    reader.struct(lambda field_id, kind: reader.struct(metadata) if field_id == _METADATA else reader.skip(kind))
    return column
