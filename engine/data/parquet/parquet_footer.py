"""Logical types put into the footer of a Parquet file that is just being written.

Spec: Appendix A Parquet; parquet-format, LogicalTypes. pyarrow can't write the VARIANT annotation, nor every edge
algorithm of GEOGRAPHY. The footer, in Thrift's compact protocol, comes last: it is held back and changed before it is
written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from attrs import define

from icecore.engine.data.parquet.thrift import STRUCT, ThriftReader, varint
from icecore.engine.errors import StorageError
from icecore.engine.spec.types import DEFAULT_CRS, EDGE_ALGORITHMS, GeographyType, GeometryType, Type, VariantType

_MAGIC = b"PAR1"
_STOP = b"\x00"
_SCHEMA, _FIELD_ID, _LOGICAL_TYPE = 2, 9, 10
_VARIANT, _GEOMETRY, _GEOGRAPHY = 16, 17, 18
_VARIANT_VERSION = 1


def logical_type(t: Type) -> bytes | None:
    """The LogicalType of an Iceberg type as Thrift encodes it, None where pyarrow writes the right one."""
    match t:
        case VariantType():
            return _union(_VARIANT, b"\x13" + bytes([_VARIANT_VERSION]))
        case GeometryType(crs=crs):
            return _union(_GEOMETRY, _crs(crs))
        case GeographyType(crs=crs, algorithm=algorithm):
            text = _crs(crs)
            # A field's header has the distance to the field before.
            header = 0x15 if text else 0x25
            return _union(_GEOGRAPHY, text + bytes([header]) + varint(EDGE_ALGORITHMS.index(algorithm) << 1))
        case _:
            return None


def _union(member: int, fields: bytes) -> bytes:
    return bytes([STRUCT]) + varint(member << 1) + fields + _STOP + _STOP


def _crs(crs: str) -> bytes:
    data = crs.encode()
    return b"" if crs == DEFAULT_CRS else b"\x18" + varint(len(data)) + data


def with_logical_types(tail: bytes, logical_types: Mapping[int, bytes]) -> bytes:
    """The end of a Parquet file, footer included, with `logical_types` set for the columns of these field ids.

    Raises StorageError where the footer is not one that pyarrow writes.
    """
    length = int.from_bytes(tail[-8:-4], "little")
    start = len(tail) - 8 - length
    if tail[-4:] != _MAGIC or start < 0:
        raise StorageError("the Parquet writer did not end the file as expected")
    try:
        footer = _annotated(tail[start:-8], logical_types)
    except ValueError as e:
        raise StorageError(f"the Parquet writer did not end the file as expected: {e}") from e
    return tail[:start] + footer + len(footer).to_bytes(4, "little") + _MAGIC


def _annotated(footer: bytes, logical_types: Mapping[int, bytes]) -> bytes:
    out: list[bytes] = []
    copied = 0
    left = dict(logical_types)

    def schema_list(reader: ThriftReader) -> None:
        nonlocal copied
        count, _ = reader.list_header()
        for _ in range(count):
            start, element = reader.at, _Element()
            reader.struct(element.visit(reader))
            encoded = left.pop(element.field_id, None) if element.field_id is not None else None
            if encoded is None:
                continue
            end = reader.at - len(_STOP) if element.logical_type is None else element.logical_type
            header = bytes([(_LOGICAL_TYPE - element.last_id) << 4 | STRUCT])
            out.extend((footer[copied:start], footer[start:end], header, encoded, _STOP))
            copied = reader.at

    reader = ThriftReader(footer)
    reader.struct(lambda field_id, kind: schema_list(reader) if field_id == _SCHEMA else reader.skip(kind))
    if left:
        raise ValueError(f"the footer lacks the columns with the ids {sorted(left)}")
    return b"".join((*out, footer[copied:]))


@define
class _Element:
    """One element of the schema: its id, the place of its logical type, and the field before that."""

    field_id: int | None = None
    logical_type: int | None = None
    last_id: int = 0

    def visit(self, reader: ThriftReader) -> Callable[[int, int], None]:
        def field(field_id: int, kind: int) -> None:
            if field_id == _FIELD_ID:
                self.field_id = reader.zigzag()
            else:
                if field_id == _LOGICAL_TYPE:
                    self.logical_type = reader.header_at
                reader.skip(kind)
            if field_id < _LOGICAL_TYPE:
                self.last_id = field_id

        return field


@define(eq=False)
class HoldingSink:
    """A stream that passes bytes on, and from `hold` on holds them back, so that the end of a file can be changed."""

    sink: pa.NativeFile
    closed: bool = False
    _held: bytearray | None = None

    def write(self, data: Any) -> int:
        """Passes bytes on, or holds them back; the number of bytes."""
        view = memoryview(data)
        if self._held is not None:
            self._held += view
        else:
            self.sink.write(view)
        return view.nbytes

    def tell(self) -> int:
        """The offset in the file, bytes that are held back included."""
        return int(self.sink.tell()) + len(self._held or b"")

    def flush(self) -> None:
        """Does nothing: no bytes are buffered here."""

    def close(self) -> None:
        """Marks the stream closed; the one below stays open."""
        self.closed = True

    def hold(self) -> None:
        """Holds back all bytes from now on."""
        self._held = bytearray()

    def release(self, change: Callable[[bytes], bytes]) -> None:
        """Passes on what was held, changed."""
        held, self._held = bytes(self._held or b""), None
        self.sink.write(change(held))
