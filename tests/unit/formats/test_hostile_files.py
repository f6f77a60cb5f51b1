"""Files of a few bytes that stand for many: they are refused before they take hours or all memory."""

from __future__ import annotations

import bz2
import json
import lzma
import zlib
from typing import Any

import cramjam
import pytest
import zstandard

from icecore.engine.errors import CorruptFileError
from icecore.engine.formats import avro_blocks, compression_frames
from icecore.engine.formats.avro_blocks import encode_header, read_blocks, read_header, write_long
from icecore.engine.formats.compression_frames import ZSTD, compressed_frame, frame_content
from icecore.engine.formats.manifest_avro import decode_manifest_fastavro
from icecore.engine.formats.manifest_list_avro import list_avro_schema, read_manifest_list
from icecore.projections.entries.decode_entries import decode_manifest

SYNC = bytes(16)
REQUIRED = {"file_path": (100, "string"), "file_format": (101, "string")} | {
    name: (field_id, "long") for field_id, name in ((103, "record_count"), (104, "file_size_in_bytes"))
}


def container(schema: Any, count: int, data: bytes, codec: str = "null") -> bytes:
    """An Avro file of one block, whose bytes are packed already."""
    header = encode_header({"avro.schema": json.dumps(schema)}, codec=codec, sync_marker=SYNC)
    return b"".join([header, write_long(count), write_long(len(data)), data, SYNC])


def entry_schema(extra: list[Any]) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "field-id": i} for name, (i, kind) in REQUIRED.items()]
    data_file = {"type": "record", "name": "r2", "fields": [*fields, *extra]}
    status = {"name": "status", "type": "int", "field-id": 0}
    return {"type": "record", "name": "e", "fields": [status, {"name": "data_file", "type": data_file, "field-id": 2}]}


def list_schema(extra: list[Any]) -> dict[str, Any]:
    schema = list_avro_schema(2)
    return {**schema, "fields": [*schema["fields"], *extra]}


def doubling(levels: int) -> list[Any]:
    """Fields whose types have the type before them twice."""
    out: list[Any] = [{"name": "f0", "type": {"type": "record", "name": "b0", "fields": []}}]
    for i in range(1, levels):
        inner = [{"name": name, "type": f"b{i - 1}"} for name in ("l", "r")]
        out.append({"name": f"f{i}", "type": {"type": "record", "name": f"b{i}", "fields": inner}})
    return out


def array_of(items: Any) -> list[Any]:
    return [{"name": "x", "type": {"type": "array", "items": items}}]


EXTRA = {
    "types that double": doubling(64),
    "nulls": array_of("null"),
    "empty fixed": array_of({"type": "fixed", "name": "z", "size": 0}),
    "empty records": array_of({"type": "record", "name": "z", "fields": [{"name": "n", "type": "null"}]}),
    "a negative size": [{"name": "x", "type": {"type": "fixed", "name": "z", "size": -1}}],
    "a huge size": [{"name": "x", "type": {"type": "fixed", "name": "z", "size": 2**40}}],
}


@pytest.mark.parametrize("extra", EXTRA.values(), ids=EXTRA.keys())
def test_a_schema_by_which_few_bytes_are_many_is_refused(extra: list[Any]) -> None:
    """A field that nobody looks at is decoded too: what follows it can't be found else."""
    data = write_long(2**40) + b"\0"
    with pytest.raises(CorruptFileError, match="the Avro schema has"):
        read_manifest_list(container(list_schema(extra), 1, data), "l")
    manifest = container(entry_schema(extra), 1, data)
    for decode in (decode_manifest, decode_manifest_fastavro):
        with pytest.raises(CorruptFileError, match="the Avro schema has"):
            decode(manifest, where="m", spec_id=0)


def test_summaries_and_metrics_without_bytes_are_refused() -> None:
    """Known fields have their own way to be read."""
    nothing = {"type": "record", "name": "z", "fields": [{"name": n, "type": "null"} for n in ("key", "value")]}
    schema = list_avro_schema(2)
    fields = [{**f, "type": array_of(nothing)[0]["type"]} if f["name"] == "partitions" else f for f in schema["fields"]]
    with pytest.raises(CorruptFileError, match="items take no bytes"):
        read_manifest_list(container({**schema, "fields": fields}, 1, b""), "l")
    counts = [{**array_of(nothing)[0], "name": "value_counts", "field-id": 109}]
    with pytest.raises(CorruptFileError, match="items take no bytes"):
        decode_manifest(container(entry_schema(counts), 1, b""), where="m", spec_id=0)


def packed(codec: str, data: bytes) -> bytes:
    match codec:
        case "deflate":
            return zlib.compress(data, wbits=-zlib.MAX_WBITS)
        case "snappy":
            return bytes(cramjam.snappy.compress_raw(data)) + zlib.crc32(data).to_bytes(4, "big")
        case "zstandard":
            return zstandard.ZstdCompressor().compress(data)
        case "bzip2":
            return bz2.compress(data)
        case _:
            return lzma.compress(data)


@pytest.mark.parametrize("codec", ["deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_a_block_of_more_bytes_than_any_is_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_blocks, "MOST_BYTES", 1000)
    for size, fits in ((1000, True), (1001, False), (100_000, False)):
        data = container("null", 1, packed(codec, bytes(size)), codec)
        blocks = read_blocks(data, read_header(data, "f"), "f")
        if fits:
            assert [len(b.data) for b in blocks] == [size]
        else:
            with pytest.raises(CorruptFileError, match="more than 1,000 bytes"):
                list(blocks)


@pytest.mark.parametrize("codec", ["deflate", "snappy", "bzip2", "xz"])
def test_a_block_that_is_cut_is_refused(codec: str) -> None:
    for cut in (1, 9):
        data = container("null", 1, packed(codec, bytes(range(256)) * 40)[:-cut], codec)
        with pytest.raises(CorruptFileError, match="block"):
            list(read_blocks(data, read_header(data, "f"), "f"))


def test_blocks_are_counted_together() -> None:
    one = container("null", 1, packed("deflate", bytes(600)), "deflate")
    header = read_header(one, "f")
    data = one + one[header.length :]
    assert len(list(read_blocks(data, header, "f", most_bytes=1200))) == 2
    assert len(list(read_blocks(data, header, "f", most_bytes=None))) == 2
    with pytest.raises(CorruptFileError, match="more than 1,199 bytes"):
        list(read_blocks(data, header, "f", most_bytes=1199))


def test_a_frame_of_more_bytes_than_any_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 400
    assert frame_content(ZSTD, compressed_frame(ZSTD, content), "p") == content
    monkeypatch.setattr(compression_frames, "MOST_BYTES", 100_000)
    with pytest.raises(CorruptFileError, match="more than 100,000 bytes"):
        frame_content(ZSTD, compressed_frame(ZSTD, content), "p")
    with pytest.raises(CorruptFileError, match="not one whole"):
        frame_content(ZSTD, compressed_frame(ZSTD, b"x") + bytes(10_000), "p")
