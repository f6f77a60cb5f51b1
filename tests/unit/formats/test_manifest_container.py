"""Avro containers: every codec, blocks in any shape, and what is wrong with a file is said, naming it."""

from __future__ import annotations

import io

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.errors import CorruptFileError, ValidationError
from icecore.engine.formats.avro_blocks import AvroBlock, read_blocks, read_header, write_container, write_long

SYNC = bytes(range(16))
SCHEMA = '"long"'


@given(
    st.lists(st.builds(AvroBlock, st.integers(0, 2**40), st.binary(max_size=500)), max_size=4),
    st.sampled_from(["null", "deflate", "snappy", "zstandard"]),
)
def test_containers_round_trip(blocks: list[AvroBlock], codec: str) -> None:
    data = write_container({"avro.schema": SCHEMA, "k": b"\xff"}, blocks, codec=codec, sync_marker=SYNC)
    header = read_header(data, "f")
    assert (header.codec, header.sync_marker, header.metadata["k"], header.schema) == (codec, SYNC, b"\xff", "long")
    assert list(read_blocks(data, header, "f")) == blocks


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "bzip2", "xz"])
def test_containers_of_another_writer_are_read(codec: str) -> None:
    out = io.BytesIO()
    fastavro.writer(
        out, {"type": "record", "name": "r", "fields": [{"name": "a", "type": "long"}]}, [{"a": 1}] * 5, codec
    )
    data = out.getvalue()
    assert list(read_blocks(data, read_header(data, "f"), "f")) == [AvroBlock(5, b"\x02" * 5)]


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy"])
def test_another_reader_reads_our_containers(codec: str) -> None:
    blocks = [AvroBlock(2, write_long(-(2**63)) + write_long(2**63 - 1)), AvroBlock(1, write_long(300))]
    data = write_container({"avro.schema": SCHEMA}, blocks, codec=codec, sync_marker=SYNC)
    assert list(fastavro.reader(io.BytesIO(data))) == [-(2**63), 2**63 - 1, 300]


def test_header_map_in_several_blocks_with_sizes() -> None:
    pair = write_long(11) + b"avro.schema" + write_long(6) + SCHEMA.encode()
    other = write_long(1) + b"k" + write_long(1) + b"v"
    data = b"Obj\x01" + write_long(-1) + write_long(len(pair)) + pair + write_long(1) + other + b"\x00" + SYNC
    assert read_header(data, "f").metadata == {"avro.schema": SCHEMA.encode(), "k": b"v"}


GOOD = write_container({"avro.schema": SCHEMA}, [AvroBlock(1, b"\x02")], codec="deflate", sync_marker=SYNC)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not an Avro file"),
        (b"Obj\x02" + GOOD[4:], "not an Avro file"),
        (GOOD[:-17], "is it cut"),
        (GOOD[:-1] + b"\xff", "sync marker"),
        (GOOD + b"\x80", "is the file cut"),
        (GOOD + b"\xff" * 11, "no whole number"),
        (b"Obj\x01" + write_long(1) + write_long(2**62) + GOOD[6:], "is it cut"),
        (b"Obj\x01\x00" + SYNC, "no schema"),
        (write_container({"avro.schema": "{"}, [], codec="null", sync_marker=SYNC), "not JSON"),
        (write_container({"avro.schema": "[" * 100_000}, [], codec="null", sync_marker=SYNC), "not JSON"),
        (GOOD.replace(b"deflate", b"deflatf"), "deflatf"),
        (GOOD + write_long(-1) + write_long(1) + b"\x03" + SYNC, "-1 records"),
        (GOOD + write_long(1) + write_long(1) + b"\xff" + SYNC, "decompressed"),
        (GOOD + write_long(1) + write_long(0) + SYNC, "ends early"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_the_file(data: bytes, words: str) -> None:
    with pytest.raises(CorruptFileError, match=words) as e:
        header = read_header(data, "file-7")
        assert header.schema and list(read_blocks(data, header, "file-7"))
    assert "file-7" in str(e.value)


def test_a_snappy_block_with_a_wrong_checksum_is_corrupt() -> None:
    data = bytearray(
        write_container({"avro.schema": SCHEMA}, [AvroBlock(1, b"\x02")], codec="snappy", sync_marker=SYNC)
    )
    data[-17] ^= 1
    with pytest.raises(CorruptFileError, match="checksum"):
        list(read_blocks(bytes(data), read_header(bytes(data), "f"), "f"))


def test_a_sync_marker_has_sixteen_bytes() -> None:
    with pytest.raises(ValidationError, match="16"):
        write_container({"avro.schema": SCHEMA}, [], codec="null", sync_marker=b"short")
