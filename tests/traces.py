"""Looks for a text in every byte of a folder, and in all that is compressed there."""

from __future__ import annotations

import base64
import contextlib
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

ZSTD = re.escape(b"\x28\xb5\x2f\xfd")
DEFLATED = rb"\x78[\x01\x5e\x9c\xda]|\x1f\x8b\x08"
ZLIB_IN_BASE64 = rb"eJ[A-Za-z0-9+/=]{20,}|eA[A-Za-z0-9+/=]{20,}"


def traces_of(folder: Path, text: str) -> list[str]:
    """The files that hold the text, and how: as it is, in another encoding, or compressed."""
    return sorted({f"{path.relative_to(folder)}: {how}" for path in folder.rglob("*") if path.is_file()
                   for how in traces_in(path, text)})  # fmt: skip


def traces_in(path: Path, text: str) -> Iterator[str]:
    data = path.read_bytes()
    yield from (f"as {how}" for how, code in encodings(text).items() if code in data)
    plain = text.encode()
    for place in re.finditer(ZSTD, data):
        if plain in unzstd(data[place.start() :]):
            yield "in zstd"
    for place in re.finditer(DEFLATED, data):
        if plain in inflate(data[place.start() :]):
            yield "in zlib"
    for place in re.finditer(ZLIB_IN_BASE64, data):
        with contextlib.suppress(ValueError):
            if plain in inflate(base64.b64decode(place.group() + b"==")):
                yield "in zlib in base64"
    if plain in rows_of(path, data).encode():
        yield "in rows"


def encodings(text: str) -> dict[str, bytes]:
    """The text as bytes that it may stand as; of base64 the letters that do not depend on what is around it."""
    plain = text.encode()
    found = {"text": plain, "UTF-16": text.encode("utf-16-le"), "hex": plain.hex().encode()}
    found["HEX"] = found["hex"].upper()
    for shift in range(3):
        letters = base64.b64encode(b"\0" * shift + plain)
        found[f"base64, {shift}"] = letters[(8 * shift + 5) // 6 : len(letters) - 4]
    return found


def unzstd(data: bytes) -> bytes:
    """As much of a frame as can be had."""
    out = io.BytesIO()
    with contextlib.suppress(OSError, pa.ArrowException), pa.CompressedInputStream(pa.BufferReader(data), "zstd") as s:
        while chunk := s.read(256):
            out.write(chunk)
    return out.getvalue()


def inflate(data: bytes) -> bytes:
    out, engine = io.BytesIO(), zlib.decompressobj(47)
    with contextlib.suppress(zlib.error):
        for start in range(0, min(len(data), 2**20), 64):
            out.write(engine.decompress(data[start : start + 64]))
            if engine.eof:
                break
    return out.getvalue()


def rows_of(path: Path, data: bytes) -> str:
    """What a manifest, a data file or a segment holds, as text."""
    if data.startswith(b"Obj\x01"):
        return repr(list(fastavro.reader(io.BytesIO(data))))
    if data.startswith(b"PAR1"):
        return repr(pq.read_table(path).to_pylist())
    if data[8:12] == b"DUCK":
        with duckdb.connect(str(path), read_only=True) as connection:
            names = [n for (n,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()]
            return repr([connection.execute(f'FROM "{n}"').fetchall() for n in names])
    return ""
