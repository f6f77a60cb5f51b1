"""Puffin files: what is written is read back, and broken ones are refused. Spec: Puffin (PF1)."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import cramjam
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.puffin import PuffinFile as PeerPuffinFile

from icecore.engine.data.file.puffin_file import read_blob, read_footer
from icecore.engine.errors import CorruptFileError, IcecoreError, MissingFileError, ValidationError
from icecore.engine.formats.compression_frames import compressed_frame, frame_content
from icecore.engine.formats.puffin import Blob, PuffinFile, decode_blob, decode_footer, write_puffin
from icecore.engine.storage.file_io import Storage

SKETCH = "apache-datasketches-theta-v1"
BLOBS = (
    Blob(SKETCH, (1,), 7, 3, b"first" * 50, None, {"ndv": "12"}),
    Blob(SKETCH, (2, 5), 7, 3, b"second" * 50, "zstd"),
    Blob("something-else", (), -1, -1, b"", "lz4", {"a": "b"}),
    Blob("something-else", (9,), 2**63 - 1, 0, bytes(range(256)) * 3, "lz4"),
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
blobs = st.builds(
    Blob,
    type=texts,
    fields=st.lists(st.integers(0, 2**31 - 1), max_size=4).map(tuple),
    snapshot_id=st.integers(-1, 2**63 - 1),
    sequence_number=st.integers(-1, 2**63 - 1),
    data=st.binary(max_size=300),
    compression_codec=st.sampled_from([None, "lz4", "zstd"]),
    properties=st.dictionaries(texts, texts, max_size=3),
)


def blobs_of(data: bytes) -> tuple[Blob, ...]:
    return tuple(
        Blob(
            b.type,
            b.fields,
            b.snapshot_id,
            b.sequence_number,
            decode_blob(data, b, "file"),
            b.compression_codec,
            b.properties,
        )
        for b in decode_footer(data, "file").blobs
    )


@given(st.lists(blobs, max_size=4).map(tuple), st.dictionaries(texts, texts, max_size=3), st.booleans())
def test_pf1_what_is_written_is_read_back(
    written: tuple[Blob, ...], properties: dict[str, str], compress_footer: bool
) -> None:
    puffin = write_puffin(written, properties=properties, compress_footer=compress_footer)
    footer = decode_footer(puffin.data, "file")
    assert footer == puffin.footer
    assert blobs_of(puffin.data) == written
    assert dict(footer.properties).items() >= properties.items()
    assert puffin == write_puffin(written, properties=properties, compress_footer=compress_footer)


def test_pf1_the_layout_is_that_of_the_spec() -> None:
    puffin = write_puffin(BLOBS[:2])
    data, footer = puffin.data, puffin.footer
    assert data[:4] == data[-4:] == b"PFA1"
    payload_size, flags = struct.unpack("<iI", data[-12:-4])
    assert flags == 0
    assert footer.file_size_in_bytes == len(data)
    assert footer.footer_size_in_bytes == payload_size + 16
    assert data[-footer.footer_size_in_bytes :][:4] == b"PFA1"
    payload = json.loads(data[-12 - payload_size : -12])
    assert payload["properties"]["created-by"].startswith("icecore ")
    assert payload["blobs"][0] == {
        "type": SKETCH,
        "fields": [1],
        "snapshot-id": 7,
        "sequence-number": 3,
        "offset": 4,
        "length": 250,
        "properties": {"ndv": "12"},
    }
    assert payload["blobs"][1]["compression-codec"] == "zstd"
    assert payload["blobs"][1]["offset"] == 254
    second = footer.blobs[1]
    stored = data[second.offset : second.offset + second.length]
    assert zstandard.ZstdDecompressor().decompress(stored) == BLOBS[1].data


def test_pf1_a_compressed_footer_is_one_lz4_frame_with_its_size() -> None:
    data = write_puffin(BLOBS, compress_footer=True).data
    payload_size, flags = struct.unpack("<iI", data[-12:-4])
    payload = data[-12 - payload_size : -12]
    assert flags == 1
    assert payload[:4] == b"\x04\x22\x4d\x18"
    plain = bytes(cramjam.lz4.decompress(payload))
    assert struct.unpack_from("<Q", payload, 6) == (len(plain),)
    assert len(json.loads(plain)["blobs"]) == len(BLOBS)


def test_pf1_pyiceberg_reads_the_footer_and_the_deletion_vectors_frame() -> None:
    peer = PeerPuffinFile(write_puffin((), properties={"x": "y"}).data)
    assert peer.footer.blobs == []
    assert peer.footer.properties["x"] == "y"


def test_pf1_only_the_end_of_a_file_and_one_blob_are_read(tmp_path: Path) -> None:
    big = Blob("big", (1,), 1, 1, b"\x00" * 100_000)
    path = tmp_path / "a.puffin"
    data = bytearray(write_puffin((big, *BLOBS)).data)
    data[:50_000] = b"\xff" * 50_000
    path.write_bytes(data)
    footer = read_footer(Storage(), str(path))
    assert [read_blob(Storage(), str(path), b) for b in footer.blobs[1:]] == [b.data for b in BLOBS]
    with pytest.raises(MissingFileError, match=r"none\.puffin"):
        read_footer(Storage(), str(tmp_path / "none.puffin"))


def test_pf1_a_footer_larger_than_the_first_read() -> None:
    many = tuple(Blob(f"type {i}", (i,), i, i, b"x" * i) for i in range(500))
    puffin = write_puffin(many)
    assert puffin.footer.footer_size_in_bytes > 16 * 1024
    assert blobs_of(puffin.data) == many


def test_pf1_unknown_codec_is_refused() -> None:
    with pytest.raises(ValidationError, match="snappy"):
        write_puffin([Blob("t", (), 1, 1, b"", "snappy")])
    data = write_puffin([Blob("t", (), 1, 1, b"abcd", "zstd")]).data.replace(b'"zstd"', b'"zstx"')
    with pytest.raises(CorruptFileError, match="zstx"):
        blobs_of(data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"offset":4', b'"offset":3'),
        (b'"length":250', b'"length":999'),
        (b'"length":250', b'"length":-50'),
        (b'"fields":[1]', b'"fields":[x]'),
        (b'"fields":[1]', b'"fields":"1"'),
        (b'"snapshot-id":7', b'"snapshot-ix":7'),
    ],
)
def test_pf1_a_footer_that_says_what_can_not_be_is_refused(old: bytes, new: bytes) -> None:
    data = write_puffin(BLOBS[:1]).data
    assert old in data
    changed = data.replace(old, new)
    with pytest.raises(CorruptFileError, match=r"^name\.puffin"):
        decode_footer(changed, "name.puffin")


@pytest.mark.parametrize("compress_footer", [False, True])
def test_pf1_a_file_cut_anywhere_is_refused(compress_footer: bool) -> None:
    data = write_puffin(BLOBS, compress_footer=compress_footer).data
    for length in range(len(data)):
        with pytest.raises(CorruptFileError, match=r"^cut\.puffin"):
            decode_footer(data[:length], "cut.puffin")


@pytest.mark.parametrize("compress_footer", [False, True])
def test_pf1_a_flipped_byte_is_found_or_changes_only_what_no_checksum_covers(compress_footer: bool) -> None:
    """Plain blobs and plain footers have no checksum in the format; all else is refused or has the same value."""
    puffin = write_puffin(BLOBS, compress_footer=compress_footer)
    footer_start = len(puffin.data) - puffin.footer.footer_size_in_bytes
    plain = range(4, 4 + len(BLOBS[0].data))
    for position in range(4, len(puffin.data)):
        for flip in (0x01, 0x10, 0x80, 0xFF):
            data = bytearray(puffin.data)
            data[position] ^= flip
            try:
                found = blobs_of(bytes(data))
            except CorruptFileError as e:
                assert str(e).startswith("file")
                continue
            if position not in plain and (position < footer_start or compress_footer):
                assert found == BLOBS, f"byte {position} flipped by {flip:#x}"


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_pf1_frames_are_whole_and_alone(codec: str) -> None:
    data = b"some bytes, some bytes, some bytes" * 10
    frame = compressed_frame(codec, data)
    assert frame_content(codec, frame, "blob") == data
    for broken in (b"", frame + b"x", frame[:-1], frame + frame, data):
        with pytest.raises(CorruptFileError, match=r"^blob"):
            frame_content(codec, broken, "blob")


def test_pf1_a_huge_content_size_is_no_huge_allocation() -> None:
    frame = bytearray(compressed_frame("zstd", b"x" * 70_000))
    frame[5:9] = b"\xff\xff\xff\xff"
    with pytest.raises(IcecoreError):
        frame_content("zstd", bytes(frame), "blob")


def test_a_puffin_file_does_not_print_its_bytes() -> None:
    puffin: PuffinFile = write_puffin(BLOBS)
    assert "first" not in repr(puffin)
    assert "first" not in repr(BLOBS[0])
