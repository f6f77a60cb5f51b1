"""Reads broken copies of data and delete files in a process of its own: what decodes them may end the process.

Run as a module with the number of changes to each file, a seed and formats; prints a line of JSON with the outcomes of
each case of them. On standard error stand the changes, so that the last one tells where a process ended.
"""

from __future__ import annotations

import collections
import contextlib
import json
import random
import secrets
import sys
import tempfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from attrs import frozen

from icecore.engine.data.arrow.arrow_schema import schema_to_arrow
from icecore.engine.data.read.read_tasks import read_task
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.data.write.deletion_vector_writer import DeletedRows, write_deletion_vectors
from icecore.engine.data.write.position_delete_writer import write_equality_deletes, write_position_deletes
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import IcecoreError
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.partition import UNPARTITIONED
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    GeometryType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    UUIDType,
    VariantType,
)
from icecore.engine.storage.file_io import Storage

ROWS = 60
SCHEMA = Schema((
    NestedField(1, "id", LongType(), True),
    NestedField(2, "name", StringType()),
    NestedField(3, "l", ListType(4, DoubleType())),
    NestedField(5, "s", StructType((NestedField(6, "d", DecimalType(20, 2)), NestedField(7, "u", UUIDType())))),
    NestedField(8, "m", MapType(9, StringType(), 10, TimestampType())),
    NestedField(11, "v", VariantType()),
    NestedField(12, "b", BooleanType()),
    NestedField(13, "g", GeometryType()),
))  # fmt: skip
CASES = (
    ("data", "parquet", "zstd"), ("data", "parquet", "none"), ("data", "orc", "zlib"), ("data", "orc", "none"),
    ("data", "avro", "gzip"), ("data", "avro", "none"), ("positions", "parquet", "zstd"), ("positions", "orc", "zlib"),
    ("positions", "avro", "gzip"), ("keys", "parquet", "zstd"), ("keys", "orc", "zlib"), ("keys", "avro", "gzip"),
    ("vector", "puffin", "none"),
)  # fmt: skip


def data() -> pa.Table:
    variants = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    keys = pa.struct([("d", pa.decimal128(20, 2)), ("u", pa.binary(16))])
    n = range(ROWS)
    return pa.table({
        "id": n,
        "name": [None if i % 7 == 0 else f"name{i % 11}" for i in n],
        "l": [[i / 3, None] if i % 3 else None for i in n],
        "s": pa.array([{"d": Decimal(i), "u": bytes(16)} if i % 4 else None for i in n], keys),
        "m": pa.array([[("k", i)] if i % 2 else [] for i in n], pa.map_(pa.string(), pa.timestamp("us"))),
        "v": pa.array([{"metadata": b"\x01\x00\x00", "value": b"\x0c\x05"}] * ROWS, variants),
        "b": [i % 2 == 0 for i in n],
        "g": [b"\x01\x01\x00\x00\x00" + bytes(16)] * ROWS,
    })  # fmt: skip


@frozen
class Case:
    """A data file with the delete files that apply to it, and the one of all these that is to be broken."""

    file: ContentFile
    deletes: tuple[ContentFile, ...]
    target: Path

    def rows(self) -> pa.Table:
        task = FileScanTask(self.file, self.deletes, TRUE, 0, self.file.file_size_in_bytes, 5)
        batches = read_task(
            task, projection=SCHEMA, table_schema=SCHEMA, specs={0: UNPARTITIONED}, storage=Storage(), batch_rows=17
        )
        return pa.Table.from_batches(batches, schema_to_arrow(SCHEMA, with_ids=False))


def made(what: str, kind: str, codec: str, folder: str) -> Case:
    codecs = {f"write.{f}.compression-codec": codec for f in ("parquet", "orc", "avro")}
    chosen = {"write.format.default": kind, "write.parquet.row-group-limit": "25", **codecs}
    storage = Storage(durable=False)
    (file,) = write_data_files(
        data(), schema=SCHEMA, spec=UNPARTITIONED, location=folder, storage=storage,
        properties=chosen if what == "data" else {}, file_prefix="data",
    )  # fmt: skip
    gone = range(0, 50, 3)
    deletes: list[ContentFile] = []
    match what:
        case "positions":
            deletes = write_position_deletes(
                storage, folder, {file.file_path: gone}, spec=UNPARTITIONED, partition=(), schema=SCHEMA,
                properties=chosen, file_prefix="delete", format_version=2,
            )  # fmt: skip
        case "keys":
            rows = data().select(["name", "s"]).take([1, 2, 3])
            deletes = [write_equality_deletes(
                storage, folder, rows, [2, 7], spec=UNPARTITIONED, partition=(), schema=SCHEMA, properties=chosen,
                file_prefix="delete", format_version=2,
            )]  # fmt: skip
        case "vector":
            deletes = write_deletion_vectors(
                storage, f"{folder}/delete.puffin", {file.file_path: DeletedRows(gone, 0, ())}
            )
    return Case(file, tuple(deletes), Path((deletes[0] if deletes else file).file_path))


def broken(whole: bytes, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Copies that are cut somewhere, or have one byte turned around, replaced, or changed in one bit."""
    chance = random.Random(seed)
    for i in range(count):
        at = chance.randrange(len(whole))
        if i % 4 == 0:
            yield f"cut at {at}", whole[:at]
            continue
        changed = (whole[at] ^ 0xFF, chance.randrange(256), whole[at] ^ 1 << chance.randrange(8))[i % 4 - 1]
        yield f"byte {at} is {changed}", whole[:at] + bytes([changed]) + whole[at + 1 :]


def outcome(case: Case, expected: pa.Table) -> str:
    try:
        found = case.rows()
        found.validate(full=True)
        found.to_pylist()
    except IcecoreError as e:
        return "error" if case.target.name in str(e) else f"an error without the file's name: {e!r}"
    except Exception as e:
        return f"an error of another kind: {e!r}"
    return "same" if found.equals(expected) else "other rows"


def main(count: int, seed: int, *kinds: str) -> None:
    secrets.token_bytes = lambda nbytes=None: bytes(nbytes or 32)
    for what, kind, codec in (c for c in CASES if c[1] in kinds):
        # Relative names and one sync marker, so that the files, and what becomes of them, are the same in each run.
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            case = made(what, kind, codec, "files")
            expected, whole = case.rows(), case.target.read_bytes()
            outcomes: collections.Counter[str] = collections.Counter()
            for change, content in broken(whole, count, seed):
                print(f"{what} {kind} {codec}: {change}", file=sys.stderr)
                case.target.write_bytes(content)
                outcomes[outcome(case, expected)] += 1
        print(json.dumps({"case": [what, kind, codec], "outcomes": outcomes}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
