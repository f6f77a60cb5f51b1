"""Matches of a value in columns of Arrow: text that contains or is it, and what its text says in other types."""

from __future__ import annotations

import datetime as dt
import json
import math
import uuid
from decimal import Decimal, InvalidOperation
from urllib.parse import unquote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.errors import ValidationError
from icecore.engine.forget.variant_matches import VariantMatches, is_variant

_BOOLEANS = {"true": True, "false": False}


@frozen
class Wanted:
    """A value that is searched, by its text. Text matches where it contains it, or only where it is it (`exact`)."""

    text: str
    exact: bool = False

    def __attrs_post_init__(self) -> None:
        try:
            self.text.encode()
        except UnicodeEncodeError as e:
            raise ValidationError(f"{self.text!r} is no Unicode text: {e}") from e

    @property
    def encoded(self) -> bytes:
        """The text in UTF-8."""
        return self.text.encode()

    def in_path(self, path: str) -> bool:
        """Whether a path has the text, as it is or percent-encoded, as a partition's value is, and again in a URI."""
        return any(self.text in p for p in (path, unquote(path), unquote(unquote(path))))

    def in_partition(self, path: str) -> bool:
        """Whether a folder in a path is that of a partition by the value."""
        return f"={self.text}/" in unquote(path)

    def in_bytes(self, data: bytes) -> int:
        """The number of times that the text is in bytes, as it is or as JSON writes it."""
        forms = {self.encoded, orjson.dumps(self.text)[1:-1], json.dumps(self.text)[1:-1].encode()}
        return max(data.count(form) for form in forms)

    def count(self, column: pa.ChunkedArray | pa.Array) -> int:
        """The number of values in a column, nested ones too, that match."""
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        return sum(self._count(chunk) for chunk in chunks)

    def _count(self, array: pa.Array) -> int:
        kind = array.type
        if isinstance(array, pa.ExtensionArray):
            return self._count(array.storage)
        if pa.types.is_dictionary(kind):
            return self._count(array.dictionary_decode())
        if pa.types.is_struct(kind):
            found = sum(self._count(child) for child in array.flatten())
            return found + (
                VariantMatches.of(self.text, self.typed).count(array.field("value")) if is_variant(kind) else 0
            )
        if pa.types.is_map(kind):
            return self._count(array.keys) + self._count(array.items)
        if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
            return self._count(array.flatten())
        if pa.types.is_fixed_size_binary(kind):
            return self._count_true(pc.is_in(array, pa.array(self.fixed(kind.byte_width), kind)))
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            return self._texts(array, self.text)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return self._texts(array, self.encoded)
        value = self.typed(kind)
        if value is None:
            return 0
        # NaN equals nothing.
        is_nan = pa.types.is_floating(kind) and math.isnan(value.as_py())
        return self._count_true(pc.is_nan(array) if is_nan else pc.equal(array, value))

    def _texts(self, array: pa.Array, wanted: str | bytes) -> int:
        if self.exact:
            return self._count_true(pc.equal(array, pa.scalar(wanted, array.type)))
        return self._count_true(pc.match_substring(array, wanted))

    @staticmethod
    def _count_true(mask: pa.Array) -> int:
        return int(pc.sum(mask).as_py() or 0)

    def fixed(self, width: int) -> list[bytes]:
        """The value as bytes of a width: its own, or those of a UUID."""
        found = [self.encoded] if len(self.encoded) == width else []
        try:
            return [*found, *([uuid.UUID(self.text).bytes] if width == 16 else [])]
        except ValueError:
            return found

    def typed(self, kind: pa.DataType) -> pa.Scalar | None:
        """The value in a type that is no text; None where the text says none."""
        try:
            if pa.types.is_boolean(kind):
                return pa.scalar(_BOOLEANS[self.text.lower()])
            if pa.types.is_integer(kind):
                return pa.scalar(int(self.text), kind)
            if pa.types.is_floating(kind):
                return pa.scalar(float(self.text), kind)
            if pa.types.is_decimal(kind):
                return pa.scalar(Decimal(self.text), kind)
            if pa.types.is_date(kind):
                return pa.scalar(dt.date.fromisoformat(self.text), kind)
            if pa.types.is_timestamp(kind) and (found := self._nanoseconds(kind)) is not None:
                return found
            if pa.types.is_timestamp(kind):
                moment = dt.datetime.fromisoformat(self.text)
                return pa.scalar(moment.replace(tzinfo=moment.tzinfo or dt.UTC) if kind.tz else moment, kind)
            if pa.types.is_time(kind):
                return pa.scalar(dt.time.fromisoformat(self.text), kind)
        except (KeyError, ValueError, TypeError, OverflowError, InvalidOperation, pa.ArrowException):
            return None
        return None

    def _nanoseconds(self, kind: pa.TimestampType) -> pa.Scalar | None:
        """A time with more digits than Python's have; None where the text is none that Arrow reads."""
        if kind.unit != "ns":
            return None
        try:
            return pa.scalar(self.text).cast(kind)
        except pa.ArrowException:
            return None
