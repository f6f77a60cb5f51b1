"""Which locations are of one file."""

from __future__ import annotations

import os

import pytest

from icecore.engine.common.location import LocationMapping, is_same_file, location_key
from icecore.engine.storage.file_io import Storage

ONE_FILE = [
    ["/a/b", "file:/a/b", "file:///a/b", "/a//b", "/a/./b", "/a/c/../b"],
    ["b", os.path.abspath("b"), f"file://{os.path.abspath('b')}"],
    ["s3://h/k", "s3a://h/k", "s3n://h/k", "S3://h/k"],
]
OTHERS = ["/a/B", "/a/%62", "s3://h/K", "s3://h//k", "s3://H/k", "gs://h/k", "hdfs://a/b", "a/b"]


@pytest.mark.parametrize("spellings", ONE_FILE, ids=lambda s: s[0])
def test_all_ways_to_write_a_location_are_of_one_file(spellings: list[str]) -> None:
    assert len({location_key(s) for s in spellings}) == 1
    assert all(is_same_file(one, other) for one in spellings for other in spellings)


def test_different_files_stay_different() -> None:
    """Nothing is percent-decoded, and object stores tell slashes and letters apart."""
    keys = [location_key(s) for s in (*(spellings[0] for spellings in ONE_FILE), *OTHERS)]
    assert len(set(keys)) == len(keys)


def test_no_location_is_that_of_no_file() -> None:
    assert not is_same_file(None, None) and not is_same_file("/a", None)


@pytest.mark.parametrize("old", ["/wh", "file:///wh", "file:/wh"])
def test_a_mapped_path_is_named_as_it_is_spelled(old: str) -> None:
    """A delete file of `/wh//a` is of `file:///wh//a`, and not of `/wh/a`, whichever way the prefix is written."""
    storage = Storage(LocationMapping.of({old: "/new"}))
    for path in ("/a", "//a", "/./a", "/x/../a"):
        assert {storage.path_key(f"{scheme}/wh{path}") for scheme in ("", "file:", "file://")} == {f"/new{path}"}
