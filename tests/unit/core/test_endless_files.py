"""Files of others that never end, or are larger than any that is one, where a metadata file or a hint is looked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pyarrow.fs
import pytest
from core_tables import local, make_table, rows

import icecore
from icecore.engine.common import compressed_json
from icecore.engine.errors import CorruptFileError, IcecoreError, MissingFileError, StorageError
from icecore.engine.storage.file_io import Storage


def sparse(path: Path) -> None:
    with path.open("wb") as f:
        f.truncate(2**40)


KINDS: dict[str, Callable[[Path], object]] = {
    "device": lambda path: path.symlink_to("/dev/zero"),
    "pipe": os.mkfifo,
    "folder": lambda path: path.mkdir(),
    "sparse": sparse,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", ["table", "view"])
def test_what_is_no_metadata_file_is_refused_at_once(
    catalog: icecore.Catalog, tmp_path: Path, what: str, kind: str
) -> None:
    path = tmp_path / "v1.metadata.json"
    KINDS[kind](path)
    register = catalog.register_table if what == "table" else catalog.register_view
    catalog.create_namespace_if_not_exists("ns")
    with pytest.raises(IcecoreError) as caught:
        register(("ns", "t"), str(path))
    assert str(tmp_path) in str(caught.value) and isinstance(caught.value, (StorageError, CorruptFileError))
    assert catalog.list_tables("ns") == catalog.list_views("ns") == []


@pytest.mark.parametrize("kind", ["device", "pipe", "sparse"])
def test_a_folder_of_tables_with_one_that_never_ends_is_registered_without_it(
    catalog: icecore.Catalog, tmp_path: Path, kind: str
) -> None:
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        make_table(theirs).append(rows(1))
    other = tmp_path / "theirs" / "ns" / "other" / "metadata"
    other.mkdir(parents=True)
    KINDS[kind](other / "v1.metadata.json")
    found = catalog.register_folder(str(tmp_path / "theirs"))
    assert [n.name for n in found.registered] == ["ns.t"] and [str(other.parent)] == [n.folder for n in found.left]


@pytest.mark.parametrize("kind", KINDS)
def test_a_hint_that_never_ends_is_none(catalog: icecore.Catalog, tmp_path: Path, kind: str) -> None:
    with icecore.open(tmp_path / "theirs") as theirs:
        theirs.create_namespace("ns")
        table = make_table(theirs, properties={"icecore.commit-scheme": "filesystem"})
        table.append(rows(1))
    catalog.create_namespace_if_not_exists("ns")
    hint = local(table.metadata_location).with_name("version-hint.text")
    hint.unlink()
    KINDS[kind](hint)
    registered = catalog.register_table("ns.again", str(hint.parents[1]))
    assert registered.metadata_location == table.metadata_location


@pytest.mark.parametrize(("codec", "ending"), [("gzip", "gz"), ("zstd", "zstd")])
def test_more_than_a_metadata_file_may_have_is_refused(
    catalog: icecore.Catalog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str, ending: str
) -> None:
    """A few bytes hold any number of them."""
    monkeypatch.setattr(compressed_json, "MOST_BYTES_OF_METADATA", 1000)
    path = tmp_path / f"v1.{ending}.metadata.json"
    path.write_bytes(compressed_json.compress(bytes(100_000), codec))
    with pytest.raises(CorruptFileError, match=f"{codec} of more than 1,000 bytes"):
        catalog.register_table("ns.t", str(path))
    path.write_bytes(compressed_json.compress(b"{}", codec)[:-5])
    with pytest.raises(CorruptFileError, match=f"not valid {codec}"):
        catalog.register_table("ns.t", str(path))


def test_the_size_of_a_remote_file_takes_no_request_of_its_own(tmp_path: Path) -> None:
    """A hint is read with each commit to a file system table."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "hint").write_bytes(b"12")
    bucket = Mock(wraps=pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem()))
    storage = Storage(filesystems={"s3://b": bucket})
    assert storage.read_bytes("s3://b/hint", 2) == b"12"
    with pytest.raises(CorruptFileError, match="has 2 bytes, more than the 1"):
        storage.read_bytes("s3://b/hint", 1)
    with pytest.raises(MissingFileError):
        storage.read_bytes("s3://b/none", 1)
    assert {call[0] for call in bucket.method_calls} == {"open_input_file"}
