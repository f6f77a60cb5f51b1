"""Exports of the log: one record for each event, its content files with it, the chain whole.

JSON lines hold CloudEvents 1.0: `specversion`, `id`, `source`, `type`, `subject`, `time`, `datacontenttype` and `data`
are theirs, and the payload stands in `data` as JSON for everybody's tools. Beside them our envelope stands as extension
attributes, all strings and integers with lower-case names, with the stored payload text, which is what was hashed.
Parquet has one column for each column of the log's tables. Both name the warehouse: its identity and its folder.
"""

from __future__ import annotations

import base64
import datetime
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
from attrs import frozen

from icecore.engine.common.text import number_in
from icecore.engine.errors import CorruptFileError
from icecore.engine.events.event import Event
from icecore.engine.log.store import EventStore

TYPE_PREFIX = "icecore."
BATCH = 500
_STRINGS = (
    "event_id",
    "stream",
    "kind",
    "transaction_id",
    "actor",
    "engine",
    "message",
    "correlation_id",
    "causation_id",
    "idempotency_key",
    "payload",
    "content_sha256",
    "prev_hash",
    "hash",
)
_INTEGERS = ("position", "stream_version", "schema_version", "recorded_at_ms", "content_rows")
_OPTIONAL = frozenset(
    {"actor", "engine", "message", "correlation_id", "causation_id", "idempotency_key", "content_sha256"}
)
EXPORT_SCHEMA = pa.schema(
    [
        *(pa.field(name, pa.int64(), nullable=name == "content_rows") for name in _INTEGERS),
        *(pa.field(name, pa.string(), nullable=name in _OPTIONAL) for name in _STRINGS),
        ("content", pa.binary()),
    ]
)
URN = "urn:uuid:"
_UUID, _ROOT = b"icecore.warehouse-uuid", b"icecore.root"
_LAST = "lastposition"
# CloudEvents' own attributes say these already.
_IN_CLOUDEVENT = {"event_id": "id", "kind": "type", "stream": "subject"}


@frozen
class Origin:
    """The warehouse that a log was exported from: its identity, its folder as a `file://` location, its last position.

    Each is None where the export doesn't say so, as those of earlier releases.
    """

    uuid: str | None = None
    root: str | None = None
    last_position: int | None = None


@frozen
class Record:
    """One event with its content, an Arrow IPC stream, and the content's rows; None where it has none."""

    event: Event
    content: bytes | None
    content_rows: int | None


def records(store: EventStore) -> Iterator[Record]:
    """All events of a log, in order."""
    for event in store.events():
        found = None if event.content_sha256 is None else store.content_row(event.position)
        yield Record(event, found["data"] if found else None, found["row_count"] if found else None)


def write_jsonl(origin: Origin, found: Iterable[Record], out: IO[bytes]) -> int:
    """Writes one CloudEvent a line, whose source is the warehouse. Returns the number of events."""
    count = 0
    for record in found:
        out.write(orjson.dumps(_to_cloudevent(origin, record)) + b"\n")
        count += 1
    return count


def write_parquet(origin: Origin, found: Iterable[Record], out: IO[bytes]) -> int:
    """Writes rows of EXPORT_SCHEMA, the warehouse in the metadata of the file. Returns the number of events."""
    count = 0
    named = ((_UUID, origin.uuid), (_ROOT, origin.root))
    schema = EXPORT_SCHEMA.with_metadata({key: value for key, value in named if value is not None})
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        for batch in _batches(found):
            writer.write_table(pa.Table.from_pylist([_to_row(r) for r in batch], schema=schema))
            count += len(batch)
    return count


def read_jsonl(lines: IO[bytes], where: str) -> Iterator[Record]:
    """The records of a file of JSON lines. Raises CorruptFileError naming the line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            at = f"{where}, line {number}"
            try:
                row = _from_cloudevent(orjson.loads(line), at)
            except ValueError as e:
                raise CorruptFileError(f"{at} is no event: {e}") from e
            yield _record(row, at)


def read_parquet(data: IO[bytes], where: str) -> Iterator[Record]:
    """The records of a Parquet file. Raises CorruptFileError naming the row."""
    number = 0
    try:
        with pq.ParquetFile(data) as file:
            missing = [n for n in EXPORT_SCHEMA.names if n not in file.schema_arrow.names]
            if missing:
                raise CorruptFileError(f"{where} is no exported log: it lacks the columns {missing}")
            for batch in file.iter_batches(BATCH, columns=EXPORT_SCHEMA.names):
                for row in batch.to_pylist():
                    number += 1
                    yield _record(row, f"{where}, row {number}")
    except (pa.ArrowException, OSError) as e:
        raise CorruptFileError(f"{where} can't be read as Parquet: {e}") from e


def jsonl_origin(lines: IO[bytes]) -> Origin:
    """The warehouse that the first line names, as far as it can be read."""
    try:
        line = orjson.loads(next(lines, b""))
    except orjson.JSONDecodeError:
        return Origin()
    if not isinstance(line, dict):
        return Origin()
    return _origin(line.get("source"), line.get("warehouse"), number_in(str(line.get(_LAST))))


def parquet_origin(data: IO[bytes]) -> Origin:
    """The warehouse that the metadata of the file names, as far as it can be read."""
    try:
        found = pq.read_schema(data).metadata or {}
        return _origin(*(found[key].decode() if key in found else None for key in (_UUID, _ROOT)))
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        return Origin()


def _origin(identity: object, root: object, last_position: int | None = None) -> Origin:
    try:
        known = str(uuid.UUID(identity.removeprefix(URN))) if isinstance(identity, str) else None
    except ValueError:
        known = None
    return Origin(known, root if isinstance(root, str) and root.startswith("file:///") else None, last_position)


def _batches(found: Iterable[Record]) -> Iterator[list[Record]]:
    batch: list[Record] = []
    for record in found:
        batch.append(record)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _to_row(record: Record) -> dict[str, Any]:
    return {**record.event.to_row(), "content": record.content, "content_rows": record.content_rows}


def _to_cloudevent(origin: Origin, record: Record) -> dict[str, Any]:
    row = _to_row(record)
    at = datetime.datetime.fromtimestamp(row["recorded_at_ms"] / 1000, datetime.UTC)
    out: dict[str, Any] = {
        "specversion": "1.0",
        "id": row["event_id"],
        "source": f"{URN}{origin.uuid}",
        "warehouse": origin.root,
        _LAST: str(origin.last_position),
        "type": TYPE_PREFIX + row["kind"],
        "subject": row["stream"],
        "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "data": orjson.Fragment(row["payload"]),
    }
    for name in (*_INTEGERS, *_STRINGS):
        if name not in _IN_CLOUDEVENT and row[name] is not None:
            # CloudEvents: integers have 32 bits, so longer ones are strings; names are letters and digits.
            value = row[name]
            out[_attribute(name)] = str(value) if name in ("position", "recorded_at_ms", "content_rows") else value
    if record.content is not None:
        out["content"] = base64.b64encode(record.content).decode()
    return out


def _attribute(name: str) -> str:
    return name.replace("_", "")


def _from_cloudevent(obj: Any, at: str) -> dict[str, Any]:
    if not isinstance(obj, dict) or obj.get("specversion") != "1.0":
        raise CorruptFileError(f"{at} is no event: it is no CloudEvent of version 1.0")
    row: dict[str, Any] = {}
    for name in (*_INTEGERS, *_STRINGS):
        value = obj.get(_IN_CLOUDEVENT.get(name, _attribute(name)))
        if name in _INTEGERS and isinstance(value, str) and value.lstrip("-").isdecimal():
            value = int(value)
        row[name] = value
    if isinstance(row["kind"], str):
        row["kind"] = row["kind"].removeprefix(TYPE_PREFIX)
    content = obj.get("content")
    if content is not None and not isinstance(content, str):
        raise CorruptFileError(f"{at} is no event: its content is no text in base64")
    row["content"] = None if content is None else base64.b64decode(content, validate=True)
    if "data" in obj and isinstance(row["payload"], str) and obj["data"] != _parsed(row["payload"], at):
        raise CorruptFileError(f"{at}: data is not what the payload says, which is what was hashed")
    return row


def _parsed(text: str, at: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as e:
        raise CorruptFileError(f"{at}: its payload is not JSON: {e}") from e


def _record(row: dict[str, Any], at: str) -> Record:
    """The record of a row. Raises CorruptFileError where a field is missing or of the wrong type."""
    for names, kind in ((_INTEGERS, int), (_STRINGS, str)):
        for name in names:
            value = row[name]
            if value is None and (name in _OPTIONAL or name == "content_rows"):
                continue
            if not isinstance(value, kind) or isinstance(value, bool):
                raise CorruptFileError(f"{at} is no event: {name} must be {kind.__name__}, found {value!r}")
    event = Event.from_row(row)
    return Record(event, row["content"], row["content_rows"])
