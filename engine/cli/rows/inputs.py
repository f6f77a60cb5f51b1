"""The data files that a person hands to a command: Parquet, CSV and JSON, as Arrow of the table's schema."""

from __future__ import annotations

import codecs
import datetime as dt
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from icecore.engine.cli.rows import json_rows
from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.arrow.nested import list_parts, struct_children
from icecore.engine.data.write.conform import conform
from icecore.engine.errors import CorruptFileError, ValidationError

if TYPE_CHECKING:
    from icecore.engine.spec.schema import Schema

_PARQUET = (".parquet", ".parq", ".pq")
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_JSON = (".json", ".jsonl", ".ndjson")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_CSV_COLUMN = re.compile(r"CSV column #(\d+)")
_LONG = re.compile(rb"[0-9]{19}")
_ZONE = re.compile(r"[T ].*(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOST_BYTES = 2**31 - 1


def file_schema(path: Path, nulls: Sequence[str] = ()) -> pa.Schema:
    """The schema of a file; for CSV and JSON guessed from the values, of which `nulls` mean null in CSV.

    A column without any value is text. Raises ValidationError, CorruptFileError.
    """
    if _has(path, _PARQUET):
        try:
            return pq.read_schema(path)
        except (pa.ArrowException, OSError) as e:
            raise CorruptFileError(f"{path} can't be read: {e}") from e
    try:
        first = next(_batches(path, None, nulls), None)
    except ValidationError as e:
        raise ValidationError(f"{path}: {e}") from e
    if first is None:
        raise ValidationError(f"{path} is empty: it has no columns to go by")
    if len(set(first.schema.names)) < len(first.schema):
        # It is told of where the table is made.
        return first.schema
    for f in first.schema:
        if pa.types.is_binary(f.type):
            raise ValidationError(f"{path}: column {f.name!r} has text that is not UTF-8")
    texts = _texts(path, nulls, first.schema)
    for name in sorted(_wide_integers(path, first.schema, texts)):
        raise ValidationError(f"{path}: column {name!r} has integers of more than 64 bits; make the table first")
    return pa.schema([f.with_type(_guessed(f.type, texts.column(f.name).combine_chunks())) for f in first.schema])


def _texts(path: Path, nulls: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The values of a JSON file, or the first ones of a CSV file, with text as it stands there.

    Text is whatever Arrow's readers guess a type for that may not hold it as it is: timestamps, in CSV floats too.
    """
    if _has(path, _JSON):
        as_texts = _as_text(schema, pa.types.is_timestamp, pa.types.is_null)
        return schema.empty_table() if as_texts == schema else pa.Table.from_batches(_json(path, as_texts))
    as_texts = _as_text(schema, pa.types.is_timestamp, pa.types.is_floating)
    return pa.Table.from_batches(islice(_csv(path, as_texts, nulls), 1))


def _guessed(kind: pa.DataType, values: pa.Array) -> pa.DataType:
    """The type that holds values as they are, of those that Arrow guessed."""
    if pa.types.is_null(kind):
        return pa.string()
    if pa.types.is_list(kind):
        return pa.list_(_guessed(kind.value_type, list_parts(values)[1]))
    if pa.types.is_struct(kind):
        parts = zip(kind, struct_children(values), strict=True)
        return pa.struct([f.with_type(_guessed(f.type, part)) for f, part in parts])
    if not pa.types.is_timestamp(kind):
        return kind
    found = _said(values)
    has_zone = {_ZONE.search(text) is not None for text in found}
    if len(has_zone) > 1:
        return pa.string()
    if found and all(map(_DAY.fullmatch, found)):
        return pa.date32()
    return pa.timestamp(kind.unit, "UTC" if has_zone == {True} else None)


def _said(texts: pa.Array | pa.ChunkedArray) -> list[str]:
    """The texts that say something; an empty one is null alone in a row."""
    return [text for text in texts.drop_null().to_pylist() if text]


def _wide_integers(path: Path, schema: pa.Schema, texts: pa.Table) -> set[str]:
    """The columns with integers of more than 64 bits, of which Arrow makes doubles: in CSV with nothing else."""
    if not _has(path, _JSON):
        floats = {f.name: _said(texts.column(f.name)) for f in schema if pa.types.is_floating(f.type)}
        return {name for name, found in floats.items() if found and all(map(_INTEGER.fullmatch, found))}
    data = path.read_bytes()
    if _LONG.search(data) is None:
        return set()
    return {name for row in _json_rows(data.decode("utf-8-sig")) for name, value in row.items() if _is_wide(value)}


def _json_rows(text: str) -> Iterator[dict[str, Any]]:
    for value in json_rows.values(text):
        yield from (row for row in (value if isinstance(value, list) else [value]) if isinstance(row, dict))


def _is_wide(value: object) -> bool:
    """Whether a value in JSON is an integer of more than 64 bits, or has one within."""
    if isinstance(value, dict):
        return any(map(_is_wide, value.values()))
    if isinstance(value, list):
        return any(map(_is_wide, value))
    return isinstance(value, int) and not -(2**63) <= value < 2**63


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
            raise ValidationError(f"what is in it? Its name should end in one of {formats}")
    except (pa.ArrowException, OSError, json.JSONDecodeError, UnicodeError, orjson.JSONEncodeError) as e:
        raise CorruptFileError(f"{path} can't be read: {e}") from e
    except RecursionError as e:
        raise CorruptFileError(f"{path} can't be read: it is nested too deeply") from e


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
    parse = pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    _check_quotes(path, delimiter)
    with pyarrow.csv.open_csv(path, parse_options=parse) as reader:
        names = reader.schema.names
    kinds = _as_text(_readable(target), _is_bytes)
    convert = pyarrow.csv.ConvertOptions(
        column_types=kinds,
        null_values=["", *nulls],
        strings_can_be_null=True,
        # Null alone in a row can't be nothing: an empty line is no row.
        quoted_strings_can_be_null=len(names) == 1 and not _is_text(names[0], kinds),
    )
    try:
        with pyarrow.csv.open_csv(path, parse_options=parse, convert_options=convert) as reader:
            for batch in _with_columns(reader, reader.schema):
                yield _with_bytes(batch, target)
    except pa.ArrowInvalid as e:
        if _CSV_COLUMN.search(str(e)) is None:
            raise
        raise CorruptFileError(
            f"{path} can't be read: {_CSV_COLUMN.sub(lambda found: f'column {names[int(found[1])]!r}', str(e))}"
        ) from e


def _is_text(name: str, kinds: pa.Schema | None) -> bool:
    return kinds is not None and name in kinds.names and bool(pa.types.is_string(kinds.field(name).type))


def _check_quotes(path: Path, delimiter: str) -> None:
    """Raises ValidationError for a quote that is not closed: Arrow takes all that follows for one value."""
    with pa.input_stream(str(path)) as file:
        quotes = sum(chunk.count(b'"') for chunk in iter(lambda: file.read(2**20), b""))
    if quotes % 2 == 0:
        return
    # A quote opens a value as its first byte, after which two stand for one within.
    value = re.compile(rb'(?:^|(?<=[\r%b]))"[^"]*(?:""[^"]*)*("?)' % delimiter.encode())
    opened = None
    with pa.input_stream(str(path)) as file:
        for number, line in enumerate(io.BufferedReader(file), 1):
            text = line.removeprefix(codecs.BOM_UTF8) if opened is None else b'"' + line
            places = [found.start() for found in value.finditer(text) if not found[1]]
            opened = (number if opened is None or places[0] else opened) if places else None
    if opened is not None:
        raise ValidationError(f"line {opened} has a quote that is not closed until the end")


def _json(path: Path, target: pa.Schema | None) -> Iterator[pa.RecordBatch]:
    """The rows of a JSON file: an array of objects, or one object a line. Decimals, dates and times are text.

    Raises ValidationError where a text is none of these, or has a zone that its type has not, or none that it has.
    """
    text = path.read_text("utf-8-sig").strip()
    data = json_rows.lines(text, target)
    if not data:
        return
    if data[:1] != b"{":
        # Arrow's reader dies of a null at the beginning.
        raise ValidationError(json_rows.ROWS_OF_JSON)
    known = {f.name: kind for f in target or () if (kind := _in_json(f.type)) is not None}
    explicit = _as_text(pa.schema(known), _is_time, _is_bytes)
    table = _read_json(data, explicit)
    if (used := _with_values(pa.struct(explicit), table.to_struct_array().chunks)) != pa.struct(explicit):
        # Arrow makes nulls of columns that it is asked for and no row has, and those would keep defaults out.
        table = _read_json(data, pa.schema(used))
    for batch in table.to_batches():
        yield _with_bytes(_with_times(batch, target), target)


def _read_json(data: bytes, explicit: pa.Schema) -> pa.Table:
    parse = pyarrow.json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="infer")
    # Rows may be of any size and on several lines: Arrow looks for their ends where it has more blocks than one.
    read = pyarrow.json.ReadOptions(block_size=min(len(data) + 1, _MOST_BYTES))
    return pyarrow.json.read_json(io.BytesIO(data), read_options=read, parse_options=parse)


def _in_json(kind: pa.DataType) -> pa.DataType | None:
    """The part of a type that Arrow's reader of JSON can make, bytes at the top alone; it guesses the rest."""
    if pa.types.is_struct(kind):
        parts = {f.name: part for f in kind if (part := _in_json(f.type)) is not None and not _is_bytes(part)}
        return pa.struct(parts)
    if pa.types.is_list(kind):
        part = _in_json(kind.value_type)
        return None if part is None or _is_bytes(part) else pa.list_(part)
    if pa.types.is_map(kind):
        return _in_json(pa.list_(pa.struct({json_rows.KEY: kind.key_type, json_rows.VALUE: kind.item_type})))
    is_guessed = isinstance(kind, pa.BaseExtensionType) or pa.types.is_null(kind) or pa.types.is_nested(kind)
    return None if is_guessed else kind


def _with_values(kind: pa.DataType, found: Sequence[pa.Array]) -> pa.DataType | None:
    """The part of a type of which arrays have a value."""
    if all(array.null_count == len(array) for array in found):
        return None
    if pa.types.is_struct(kind):
        parts = ((f.name, _with_values(f.type, [pc.struct_field(array, f.name) for array in found])) for f in kind)
        return pa.struct([(name, part) for name, part in parts if part is not None])
    if pa.types.is_list(kind):
        part = _with_values(kind.value_type, [list_parts(array)[1] for array in found])
        return kind if part is None else pa.list_(part)
    return kind


def _with_times(batch: pa.RecordBatch, target: pa.Schema | None) -> pa.RecordBatch:
    """The batch with the days and times that its texts say. Raises ValidationError where one says something else."""
    for field in target or ():
        i = batch.schema.get_field_index(field.name)
        if i < 0:
            continue
        try:
            batch = batch.set_column(i, field.name, _typed(batch[i], field.type))
        except ValueError as e:
            raise ValidationError(f"column {field.name!r}: {e}; dates and times are written as in ISO 8601") from e
    return batch


def _typed(found: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_struct(kind) and pa.types.is_struct(found.type):
        wanted = {f.name: f.type for f in kind}
        parts = zip(found.type, struct_children(found), strict=True)
        columns = {f.name: _typed(part, wanted.get(f.name, f.type)) for f, part in parts}
        return pa.StructArray.from_arrays(columns.values(), names=columns.keys(), mask=found.is_null())
    if pa.types.is_list(kind) and pa.types.is_list(found.type):
        offsets, values = list_parts(found)
        return pa.ListArray.from_arrays(offsets, _typed(values, kind.value_type), mask=found.is_null())
    if pa.types.is_map(kind) and pa.types.is_list(found.type) and pa.types.is_struct(found.type.value_type):
        offsets, entries = list_parts(found)
        of_entries = dict(zip((f.name for f in entries.type), struct_children(entries), strict=True))
        keys = _typed(of_entries[json_rows.KEY], kind.key_type)
        items = _typed(of_entries.get(json_rows.VALUE, pa.nulls(len(entries))), kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, mask=found.is_null())
    if not (pa.types.is_string(found.type) and _is_time(kind)):
        return found
    return found.cast(kind) if pa.types.is_timestamp(kind) else _from_iso(found, kind)


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
    """The schema with text for columns of these kinds, and for what is of them in structs and lists."""

    def text(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_struct(kind):
            return pa.struct([f.with_type(text(f.type)) for f in kind])
        if pa.types.is_list(kind):
            return pa.list_(text(kind.value_type))
        return pa.string() if any(k(kind) for k in kinds) else kind

    return None if schema is None else pa.schema([f.with_type(text(f.type)) for f in schema])


def _from_iso(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    python = dt.date if pa.types.is_date(kind) else dt.time
    return pa.array([None if t is None else python.fromisoformat(t) for t in texts.to_pylist()], kind)


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_timestamp(kind))


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
