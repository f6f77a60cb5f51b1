"""Thrift's compact protocol, as far as it takes to find values in a Parquet footer and to skip the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define

STRUCT = 12
_BOOLEANS, _BYTE, _NUMBERS, _DOUBLE, _BINARY, _LISTS, _MAP = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 11


def varint(value: int) -> bytes:
    """A number that is not negative, seven bits a byte."""
    out = bytearray()
    while value > 0x7F:
        out.append((value & 0x7F) | 0x80)
        value >>= 7
    return bytes([*out, value])


@define
class ThriftReader:
    """A cursor over encoded values. Raises ValueError where the bytes end too early or are of no known kind.

    `header_at` is the offset of the header of the field for which `struct` last called `field`.
    """

    data: bytes
    at: int = 0
    header_at: int = 0

    def struct(self, field: Callable[[int, int], Any]) -> None:
        """Calls `field(id, kind)` for each field of a struct; `field` must read or skip the value."""
        field_id = 0
        while True:
            header_at = self.at
            header = self.byte()
            if header == 0:
                return
            field_id = field_id + (header >> 4) if header >> 4 else self.zigzag()
            self.header_at = header_at
            field(field_id, header & 0xF)

    def byte(self) -> int:
        """The next byte."""
        self._advance(1)
        return self.data[self.at - 1]

    def varint(self) -> int:
        """A number that is not negative. Raises ValueError for one of more than ten bytes."""
        value = shift = 0
        while shift < 70:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
        raise ValueError(f"the number before byte {self.at} has no end")

    def zigzag(self) -> int:
        """A signed number."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def binary(self) -> bytes:
        """Bytes after their length."""
        length = self.varint()
        self._advance(length)
        return self.data[self.at - length : self.at]

    def list_header(self) -> tuple[int, int]:
        """The number of elements and their kind."""
        header = self.byte()
        count = self.varint() if header >> 4 == 15 else header >> 4
        if count > len(self.data) - self.at:
            raise ValueError(f"the list before byte {self.at} has more elements than there are bytes")
        return count, header & 0xF

    def skip(self, kind: int, *, in_list: bool = False) -> None:
        """Skips a value. A boolean field is all in its header, a boolean in a list is a byte."""
        if kind in _BOOLEANS:
            self._advance(int(in_list))
        elif kind == _BYTE:
            self._advance(1)
        elif kind in _NUMBERS:
            self.varint()
        elif kind == _DOUBLE:
            self._advance(8)
        elif kind == _BINARY:
            self._advance(self.varint())
        elif kind in _LISTS:
            count, element = self.list_header()
            for _ in range(count):
                self.skip(element, in_list=True)
        elif kind == _MAP:
            self._skip_map()
        elif kind == STRUCT:
            self.struct(lambda _, inner: self.skip(inner))
        else:
            raise ValueError(f"a value of the unknown kind {kind} before byte {self.at}")

    def _skip_map(self) -> None:
        count = self.varint()
        if count > len(self.data) - self.at:
            raise ValueError(f"the map before byte {self.at} has more entries than there are bytes")
        kinds = self.byte() if count else 0
        for _ in range(count):
            self.skip(kinds >> 4, in_list=True)
            self.skip(kinds & 0xF, in_list=True)

    def _advance(self, length: int) -> None:
        if length > len(self.data) - self.at:
            raise ValueError(f"{length} bytes expected after byte {self.at} of {len(self.data)}")
        self.at += length
