"""Reassembly of variants of Parquet files, whole or shredded into typed columns.

Spec: Appendix A Parquet, variant; parquet-format, VariantShredding. A group holds a `value`, a `typed_value`, or both;
neither means that there is no value. Where an object's `value` has a field that is shredded too, which no writer may
do, the shredded columns win, so that reading a part of an object gives what reading the whole does.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field

from icecore.engine.data.arrow.arrow_schema import VARIANT_ARROW, is_binary_like, is_list_like
from icecore.engine.data.arrow.nested import list_parts, null_mask, struct_children
from icecore.engine.data.variant.variant_columns import VALUES, arrays, is_typed, objects, primitives
from icecore.engine.data.variant.variant_encoding import (
    NO_NAMES,
    NULL,
    Metadata,
    object_fields,
    read_metadata,
    write_object,
)
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.formats.arrays import Mask, to_mask
from icecore.engine.formats.binary_columns import Ints

METADATA, VALUE, TYPED_VALUE = "metadata", "value", "typed_value"
_MAX_BYTES = 2**31 - 1


def check_variant(t: pa.DataType, where: str, *, may_be_shredded: bool = True) -> None:
    """Raises CorruptFileError if an Arrow type is not that of a variant, or is shredded in a way that is not allowed.

    Only variants in Parquet files may be shredded. `where` names the file and column.
    """
    t = t.storage_type if isinstance(t, pa.BaseExtensionType) else t
    names = {f.name for f in t} if pa.types.is_struct(t) else set()
    if METADATA not in names or not is_binary_like(t.field(METADATA).type):
        raise CorruptFileError(f"{where} should be a variant, which has metadata, the file has {t}")
    if TYPED_VALUE in names and not may_be_shredded:
        raise CorruptFileError(f"{where} is a shredded variant, which only Parquet files may have")
    _check_group(t, where)


def _check_group(t: pa.DataType, where: str) -> None:
    columns = {f.name: f.type for f in t} if pa.types.is_struct(t) else {}
    value, typed = columns.get(VALUE), columns.get(TYPED_VALUE)
    if (value is None and typed is None) or (value is not None and not is_binary_like(value)):
        raise CorruptFileError(f"{where} should have a binary value or a typed value, the file has {t}")
    if typed is None:
        return
    if pa.types.is_struct(typed) and typed.num_fields:
        for f in typed:
            _check_group(f.type, f"{where}: {f.name!r}")
    elif is_list_like(typed):
        _check_group(typed.value_type, f"{where}: elements")
    elif not is_typed(typed):
        raise CorruptFileError(f"{where} has a typed value of type {typed}, which shredded variants can't have")


def read_variants(array: pa.Array, where: str) -> pa.StructArray:
    """The variants of a file's column in Arrow form: metadata and value, shredded ones put together.

    The column's type must have passed `check_variant`. A missing value becomes a variant null. Raises CorruptFileError
    for values that are no variants, ValidationError for more bytes than one Arrow array holds; both name `where`.
    """
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    parts = _parts(storage)
    metadata = parts[METADATA].cast(pa.binary())
    try:
        if metadata.null_count > storage.null_count:
            raise ValueError("a variant has no metadata")
        values = _Reader(metadata).group(parts, np.arange(len(storage)))
    except ValueError as e:
        raise CorruptFileError(f"{where}: {e}") from e
    values = values.fill_null(NULL)
    if values.nbytes > _MAX_BYTES:
        raise ValidationError(f"{where}: the variants of {len(storage)} rows take {values.nbytes} bytes: read fewer")
    mask = null_mask(array)
    # Metadata and value may not be null, and some writers read them even in rows without a variant.
    metadata = metadata.fill_null(NO_NAMES)
    return pa.StructArray.from_arrays([metadata, values.cast(pa.binary())], fields=list(VARIANT_ARROW), mask=mask)


@define
class _Reader:
    """The reader of the variants of some rows.

    A group inside an array has a row for each element; `rows` gives the row of `metadata` that each of them belongs to.
    """

    metadata: pa.BinaryArray
    _found: tuple[tuple[Metadata, ...], Ints] | None = field(init=False, default=None)

    def group(self, parts: Mapping[str, pa.Array], rows: Ints) -> pa.LargeBinaryArray:
        """The values of a group; null where they are missing."""
        value, typed = parts.get(VALUE), parts.get(TYPED_VALUE)
        plain = None if value is None else value.cast(VALUES)
        if plain is not None and pc.min(pc.binary_length(plain)).as_py() == 0:
            raise ValueError("a variant has a value without bytes")
        if typed is None:
            return plain
        if pa.types.is_struct(typed.type):
            return self.object(typed, plain, rows)
        made = self.array(typed, rows) if is_list_like(typed.type) else primitives(typed)
        if plain is None:
            return made
        if pc.any(pc.and_(made.is_valid(), plain.is_valid())).as_py():
            raise ValueError("a variant has both a value and a typed value, and is no object")
        return pc.coalesce(made, plain)

    def array(self, typed: pa.Array, rows: Ints) -> pa.LargeBinaryArray:
        """Shredded arrays, null where `typed` is; an element that is missing is a variant null."""
        offsets, elements = list_parts(typed)
        starts = np.asarray(offsets, dtype=np.int64)
        values = self.group(_parts(elements), np.repeat(rows, np.diff(starts)))
        return _where(to_mask(typed.is_valid()), arrays(starts, values.fill_null(NULL)))

    def object(self, typed: pa.StructArray, plain: pa.LargeBinaryArray | None, rows: Ints) -> pa.LargeBinaryArray:
        """Shredded objects together with the fields that are not shredded; plain values where `typed` is null."""
        fields = {f.name.encode(): c for f, c in zip(typed.type, struct_children(typed), strict=True)}
        shredded = {name: self.group(_parts(fields[name]), rows) for name in sorted(fields)}
        is_object = to_mask(typed.is_valid())
        made = _where(is_object, objects(list(shredded.values()), self.ids(shredded, rows)))
        if plain is None:
            return made
        both = np.flatnonzero(is_object & to_mask(plain.is_valid()))
        if not len(both):
            return pc.coalesce(made, plain)
        merged = self.merged(shredded, plain, pa.array(both), rows[both])
        # A row that was not merged takes its value from the shredded objects or from the plain values.
        places = np.arange(len(typed)) + np.where(is_object, 0, len(typed))
        places[both] = 2 * len(typed) + np.arange(len(both))
        return pa.concat_arrays([made, plain, pa.array(merged, VALUES)]).take(pa.array(places))

    def ids(self, columns: Mapping[bytes, pa.LargeBinaryArray], rows: Ints) -> Ints:
        """The id of each name in the metadata of each row; 0 where a row has neither field nor name."""
        known, codes = self.dictionaries()
        table = np.array([[m.ids.get(n, -1) for n in columns] for m in known] or [[0] * len(columns)], np.int64)
        ids = table[codes[rows]]
        for i, (name, column) in enumerate(columns.items()):
            lacking = np.flatnonzero((ids[:, i] < 0) & to_mask(column.is_valid()))
            if len(lacking):
                known[codes[rows[lacking[0]]]].id_of(name)
        return np.maximum(ids, 0)

    def merged(
        self, shredded: Mapping[bytes, pa.LargeBinaryArray], plain: pa.LargeBinaryArray, places: pa.Array, rows: Ints
    ) -> list[bytes]:
        """Objects of shredded and other fields together, for the rows of the columns at `places`."""
        known, codes = self.dictionaries()
        columns = {name: column.take(places).to_pylist() for name, column in shredded.items()}
        out = []
        for i, (value, code) in enumerate(zip(plain.take(places).to_pylist(), codes[rows].tolist(), strict=True)):
            fields = object_fields(value, known[code])
            if fields is None:
                raise ValueError("a variant has shredded fields and a value that is no object")
            others = {n: v for n, v in fields.items() if n not in columns}
            found = {n: c[i] for n, c in columns.items() if c[i] is not None}
            out.append(write_object(others | found, known[code]))
        return out

    def dictionaries(self) -> tuple[tuple[Metadata, ...], Ints]:
        """The different metadata, and the index of each row's among them."""
        if self._found is None:
            encoded = self.metadata.dictionary_encode()
            codes = np.asarray(encoded.indices.fill_null(0), dtype=np.int64)
            self._found = tuple(read_metadata(m) for m in encoded.dictionary.to_pylist()), codes
        return self._found


def _parts(group: pa.StructArray) -> dict[str, pa.Array]:
    return dict(zip((f.name for f in group.type), struct_children(group), strict=True))


def _where(rows: Mask, values: pa.LargeBinaryArray) -> pa.LargeBinaryArray:
    return values if rows.all() else pc.if_else(pa.array(rows), values, pa.scalar(None, VALUES))
