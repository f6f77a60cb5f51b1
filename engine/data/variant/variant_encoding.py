"""The binary form of variants: metadata taken apart, objects taken apart and put together.

Spec: T1 variant; parquet-format, VariantEncoding. Values that need no change are passed on undecoded. All functions
raise ValueError where bytes break the encoding. Names are UTF-8 bytes, because objects are sorted by these.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

from attrs import field, frozen

NULL = b"\x00"
"""The encoded variant null; it is a value, while a missing variant is an Arrow null."""

NO_NAMES = b"\x01\x00\x00"
"""Metadata without field names."""

PRIMITIVE, SHORT_STRING, OBJECT, ARRAY = range(4)
SHORT_STRING_MAX = 63
COUNT_MAX = 255
"""With more fields or elements than this, their number takes four bytes rather than one."""
_VERSION = 1
# Bytes after the header of each primitive type, by its number; binary (15) and string (16) have their own length.
_WIDTHS = (0, 0, 0, 1, 2, 4, 8, 8, 5, 9, 17, 4, 8, 8, 4, None, None, 8, 8, 8, 16)


@frozen
class Metadata:
    """The dictionary of field names of a variant, by id. A name that is there twice has its first id in `ids`."""

    names: tuple[bytes, ...]
    ids: Mapping[bytes, int] = field(init=False, eq=False, repr=False)

    @ids.default
    def _by_name(self) -> dict[bytes, int]:
        return {name: i for i, name in reversed(tuple(enumerate(self.names)))}

    def id_of(self, name: bytes) -> int:
        """The id of a name. Raises ValueError."""
        found = self.ids.get(name)
        if found is None:
            raise ValueError(f"the metadata of a variant lacks the field name {name.decode(errors='replace')!r}")
        return found


def read_metadata(data: bytes) -> Metadata:
    """The metadata of a variant. Raises ValueError."""
    if not data or data[0] & 0x0F != _VERSION:
        raise ValueError(f"the metadata of a variant should be of version {_VERSION}, found {data[:1]!r}")
    size = (data[0] >> 6) + 1
    count = _number(data, 1, size)
    start = 1 + size * (count + 2)
    if start > len(data):
        raise ValueError(f"the metadata of a variant should have {count} names, it ends before their offsets do")
    ends = [start + _number(data, at, size) for at in range(1 + size, start, size)]
    if ends[0] != start or ends[-1] > len(data) or any(a > b for a, b in pairwise(ends)):
        raise ValueError("the offsets in the metadata of a variant don't lie in order within it")
    return Metadata(tuple(data[a:b] for a, b in pairwise(ends)))


def object_fields(value: bytes, metadata: Metadata) -> dict[bytes, bytes] | None:
    """The fields of an object by name, each a value by itself; None for any other value. Raises ValueError."""
    if not value or value[0] & 3 != OBJECT:
        return None
    header = value[0] >> 2
    offset_width, id_width, count_width = (header & 3) + 1, (header >> 2 & 3) + 1, 4 if header & 0x10 else 1
    count = _number(value, 1, count_width)
    ids, offsets = 1 + count_width, 1 + count_width + count * id_width
    start = offsets + (count + 1) * offset_width
    if start > len(value):
        raise ValueError(f"an object should have {count} fields, it ends before their offsets do")
    end = start + _number(value, offsets + count * offset_width, offset_width)
    if end > len(value):
        raise ValueError("the fields of an object don't lie within it")
    out: dict[bytes, bytes] = {}
    for i in range(count):
        field_id = _number(value, ids + i * id_width, id_width)
        if field_id >= len(metadata.names):
            raise ValueError(f"an object has the field id {field_id}, its metadata has {len(metadata.names)} names")
        at = start + _number(value, offsets + i * offset_width, offset_width)
        stop = at + value_size(value, at)
        if stop > end:
            raise ValueError("the fields of an object don't lie within it")
        out[metadata.names[field_id]] = value[at:stop]
    if len(out) != count:
        raise ValueError("an object has a field twice")
    return out


def value_size(data: bytes, at: int) -> int:
    """The number of bytes that the value at an offset takes. Raises ValueError."""
    if at >= len(data):
        raise ValueError("a value should start after the end of the bytes")
    kind, header = data[at] & 3, data[at] >> 2
    if kind == SHORT_STRING:
        return 1 + header
    if kind == PRIMITIVE:
        if header >= len(_WIDTHS):
            raise ValueError(f"there is no primitive variant type {header}")
        width = _WIDTHS[header]
        return 5 + _number(data, at + 1, 4) if width is None else 1 + width
    offset_width = (header & 3) + 1
    id_width = (header >> 2 & 3) + 1 if kind == OBJECT else 0
    count_width = 4 if header & (0x10 if kind == OBJECT else 0x04) else 1
    count = _number(data, at + 1, count_width)
    last = 1 + count_width + count * (id_width + offset_width)
    return last + offset_width + _number(data, at + last, offset_width)


def child_offsets(data: bytes, at: int) -> list[int]:
    """The offsets of the values in the object or array at an offset. Raises ValueError."""
    kind, header = data[at] & 3, data[at] >> 2
    offset_width = (header & 3) + 1
    id_width = (header >> 2 & 3) + 1 if kind == OBJECT else 0
    count_width = 4 if header & (0x10 if kind == OBJECT else 0x04) else 1
    count = _number(data, at + 1, count_width)
    offsets = at + 1 + count_width + count * id_width
    start = offsets + (count + 1) * offset_width
    if start > len(data):
        raise ValueError(f"a value should hold {count} others, it ends before their offsets do")
    return [start + _number(data, offsets + i * offset_width, offset_width) for i in range(count)]


def write_object(fields: Mapping[bytes, bytes], metadata: Metadata) -> bytes:
    """An object of values by name. All names must be in the metadata."""
    names = sorted(fields)
    ids = [metadata.id_of(n) for n in names]
    offsets = [0]
    for name in names:
        offsets.append(offsets[-1] + len(fields[name]))
    offset_width, id_width = byte_width(offsets[-1]), byte_width(max(ids, default=0))
    is_large = len(names) > COUNT_MAX
    first = (offset_width - 1 | (id_width - 1) << 2 | is_large << 4) << 2 | OBJECT
    head = [bytes([first]), len(names).to_bytes(4 if is_large else 1, "little")]
    head += [i.to_bytes(id_width, "little") for i in ids]
    head += [o.to_bytes(offset_width, "little") for o in offsets]
    return b"".join((*head, *(fields[n] for n in names)))


def byte_width(largest: int) -> int:
    """The number of bytes, one to four, that a number takes. Raises ValueError for one that takes more."""
    if largest >= 1 << 32:
        raise ValueError(f"a variant can't have offsets of more than four bytes, found {largest}")
    return max(1, (largest.bit_length() + 7) // 8)


def _number(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise ValueError("a variant ends within a number")
    return int.from_bytes(data[at : at + width], "little")
