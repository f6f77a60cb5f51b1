"""The data files that a person hands to a command: Parquet, CSV and JSON, as Arrow of the table's schema."""

from __future__ import annotations

import datetime as dt
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.spec.schema import Schema

_PARQUET = (".parquet", ".parq", ".pq")
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_JSON = (".json", ".jsonl", ".ndjson")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_LONG = re.compile(rb"[0-9]{19}")
_ZONE = re.compile(r"[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def file_schema(path: Path, nulls: Sequence[str] = ()) -> pa.Schema:
    """The schema of a file; for CSV and JSON guessed from the values, of which `nulls` mean null in CSV.

    A column without any value is text. Raises ValidationError, CorruptFileError.
    """
    if _has(path, _PARQUET):
        try:
            return pq.read_schema(path)
        except (pa.ArrowException, OSError) as e:
            raise CorruptFileError(f"{path} can't be read: {e}") from e
    first = next(_batches(path, None, nulls), None)
    if first is None:
        raise ValidationError(f"{path} is empty: it has no columns to go by")
    if len(set(first.schema.names)) < len(first.schema):
        # It is told of where the table is made.
        return first.schema
    texts = _texts(path, nulls, [f for f in first.schema if _is_doubtful(f.type)])
    return pa.schema([f.with_type(_guessed(path, f, texts)) for f in first.schema])


def _is_doubtful(kind: pa.DataType) -> bool:
    """Whether Arrow's readers guess a type for texts that it does not hold as they are."""
    return bool(pa.types.is_floating(kind) or pa.types.is_timestamp(kind))


def _texts(path: Path, nulls: Sequence[str], fields: Sequence[pa.Field]) -> dict[str, list[str]]:
    """The values of some columns of a JSON file, or the first ones of a CSV file, as they stand there, but for nulls.

    Of numbers in JSON there are none.
    """
    if _has(path, _JSON):
        fields = [f for f in fields if pa.types.is_timestamp(f.type)]
    if not fields:
        return {}
    as_texts = pa.schema([f.with_type(pa.string()) for f in fields])
    batches = _json(path, as_texts) if _has(path, _JSON) else islice(_csv(path, as_texts, nulls), 1)
    found = pa.Table.from_batches(batches)
    return {f.name: found.column(f.name).drop_null().to_pylist() for f in fields}


def _guessed(path: Path, column: pa.Field, texts: dict[str, list[str]]) -> pa.DataType:
    """The type of a column that holds its values as they are. Raises ValidationError where there is none."""
    kind, found = column.type, texts.get(column.name, [])
    is_wide = bool(found) and all(map(_INTEGER.fullmatch, found))
    if pa.types.is_floating(kind) and (is_wide or _has_wide_integers(path, column.name)):
        raise ValidationError(f"{path}: column {column.name!r} has integers of more than 64 bits; make the table first")
    if pa.types.is_binary(kind):
        raise ValidationError(f"{path}: column {column.name!r} has text that is not UTF-8")
    if pa.types.is_timestamp(kind) and found and all(map(_ZONE.search, found)):
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_timestamp(kind) and found and all(map(_DAY.fullmatch, found)):
        return pa.date32()
    return _without_nulls(kind)


def _has_wide_integers(path: Path, name: str) -> bool:
    """Whether a column of a JSON file has integers of more than 64 bits, of which Arrow makes doubles."""
    data = path.read_bytes() if _has(path, _JSON) else b""
    if _LONG.search(data) is None:
        return False
    rows = json.loads(data) if data.lstrip()[:1] == b"[" else map(json.loads, filter(bytes.strip, data.splitlines()))
    return any(isinstance(v := row.get(name), int) and not -(2**63) <= v < 2**63 for row in rows)


def _without_nulls(kind: pa.DataType) -> pa.DataType:
    """A type with text where nothing but nulls was found."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_without_nulls(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_without_nulls(f.type)) for f in kind])
    return kind


def read_files(paths: Sequence[Path], schema: Schema, nulls: Sequence[str] = ()) -> pa.RecordBatchReader:
    """The rows of the files, one after another, as the schema wants them. `nulls` are texts that mean null in CSV.

    Columns are matched by name. Raises, when it gets to it, ValidationError where a file doesn't fit, CorruptFileError
    where it can't be read.
    """
    target = schema_to_arrow(schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for path in paths:
            try:
                for batch in _batches(path, target, nulls):
                    yield from conform(batch, schema).to_batches()
            except ValidationError as e:
                raise ValidationError(f"{path}: {e}") from e

    return pa.RecordBatchReader.from_batches(target, batches())


def _batches(path: Path, target: pa.Schema | None, nulls: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        if _has(path, _PARQUET):
            with pq.ParquetFile(path) as file:
                yield from _with_columns(file.iter_batches(), file.schema_arrow)
        elif _has(path, _CSV):
            yield from _csv(path, target, nulls)
        elif _has(path, _JSON):
            yield from _json(path, target)
        else:
            formats = " ".join((*_PARQUET, *_CSV, *_JSON))
            raise ValidationError(f"{path}: what is in it? Its name should end in one of {formats}")
    except (pa.ArrowException, OSError, orjson.JSONDecodeError, UnicodeDecodeError) as e:
        raise CorruptFileError(f"{path} can't be read: {e}") from e


def _with_columns(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The batches, or one without rows: columns are looked at in any case.

    Raises UnicodeDecodeError where a column's name is not UTF-8.
    """
    names, batch = schema.names, None
    for batch in batches:
        yield batch
    if batch is None:
        yield pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in schema], names)


def _csv(path: Path, target: pa.Schema | None, nulls: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of a CSV file: empty fields without quotes are null, and so are those that say one of `nulls`."""
    delimiter = "\t" if _has(path, (".tsv", ".tsv.gz")) else ","
    convert = pyarrow.csv.ConvertOptions(
        column_types=_as_text(_readable(target), _is_bytes),
        null_values=["", *nulls],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    with pyarrow.csv.open_csv(path, parse_options=parse, convert_options=convert) as reader:
        for batch in _with_columns(reader, reader.schema):
            yield _with_bytes(batch, target)


def _json(path: Path, target: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The rows of a JSON file: an array of objects, or one object a line. Decimals, dates and times are text.

    Raises ValidationError.
    """
    data = path.read_bytes()
    if data.lstrip()[:1] == b"[":
        data = b"\n".join(orjson.dumps(row) for row in orjson.loads(data))
    explicit = _as_text(_readable(target), _is_day_or_time, _is_bytes)
    parse = pyarrow.json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="infer")
    if not data.strip():
        return
    table = pyarrow.json.read_json(io.BytesIO(data), parse_options=parse)
    for field in target or ():
        if _is_day_or_time(field.type):
            # An explicit column is there even if no row has it.
            i = table.column_names.index(field.name)
            table = table.set_column(i, field.name, _from_iso(table[i], field.type))
    for batch in table.to_batches():
        yield _with_bytes(batch, target)


def _with_bytes(batch: pa.RecordBatch, target: pa.Schema | None) -> pa.RecordBatch:
    """The batch with what its columns of bytes say in hexadecimal, as single values have it in JSON (Appendix D).

    Raises ValidationError where one says something else, or bytes are within another type.
    """
    for field in target or ():
        i = batch.schema.get_field_index(field.name)
        # A column that comes twice has none either: it is told of where the rows are made to fit.
        if i < 0:
            continue
        if _is_bytes(field.type):
            batch = batch.set_column(i, field.name, _from_hex(batch[i], field))
        elif _gives_bytes(batch.schema.field(i).type, field.type):
            raise ValidationError(f"column {field.name!r} has bytes within: only Parquet files can be loaded into it")
    return batch


def _from_hex(texts: pa.Array, field: pa.Field) -> pa.Array:
    try:
        return pa.array([None if t is None else bytes.fromhex(t) for t in texts.to_pylist()], field.type)
    except (ValueError, pa.ArrowInvalid) as e:
        raise ValidationError(f"column {field.name!r}: {e}; bytes are written in hexadecimal, as 00ff") from e


def _readable(target: pa.Schema | None) -> pa.Schema | None:
    """The columns that Arrow's readers of text can make; the others are read as they stand and made to fit."""
    if target is None:
        return None
    text_cannot = (pa.types.is_nested, pa.types.is_null)
    extension = pa.BaseExtensionType
    return pa.schema(
        [f for f in target if not isinstance(f.type, extension) and not any(t(f.type) for t in text_cannot)]
    )


def _as_text(schema: pa.Schema | None, *kinds: Callable[[pa.DataType], bool]) -> pa.Schema | None:
    """The schema with text for columns of these kinds."""
    if schema is None:
        return None
    return pa.schema([f.with_type(pa.string()) if any(k(f.type) for k in kinds) else f for f in schema])


def _from_iso(texts: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    python = dt.date if pa.types.is_date(kind) else dt.time
    try:
        return pa.array([None if t is None else python.fromisoformat(t) for t in texts.to_pylist()], kind)
    except ValueError as e:
        raise ValidationError(f"{e}; dates and times are written as in ISO 8601") from e


def _is_day_or_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def _gives_bytes(found: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values that were read have something, and not nulls alone, where a type has bytes."""
    if pa.types.is_null(found):
        return False
    if isinstance(kind, pa.BaseExtensionType) and pa.types.is_struct(kind.storage_type):
        # A variant, which no text is.
        return True
    if pa.types.is_struct(kind) and pa.types.is_struct(found):
        return any(_gives_bytes(found.field(f.name).type, f.type) for f in kind if found.get_field_index(f.name) >= 0)
    if pa.types.is_list(kind) and pa.types.is_list(found):
        return _gives_bytes(found.value_type, kind.value_type)
    return _is_bytes(kind) or any(_gives_bytes(kind.field(i).type, kind.field(i).type) for i in range(kind.num_fields))


def _has(path: Path, endings: Sequence[str]) -> bool:
    return path.name.lower().endswith(tuple(endings))
