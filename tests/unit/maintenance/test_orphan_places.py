"""Removing orphan files wherever they lie: odd names, spellings of one location, links, hidden folders, schemes."""

from __future__ import annotations

import unicodedata
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import evolve
from core_tables import age, ids_of, local, make_table, put, repository_of, rows
from own_manifests import data_file
from test_orphan_files import age_all, remove

import icecore
from icecore.engine.common.location import LocationMapping
from icecore.engine.deletion import orphan_files
from icecore.engine.deletion.deletion_candidates import Candidates, PrefixMismatchMode
from icecore.engine.deletion.needed_files import Marking
from icecore.engine.errors import ValidationError
from icecore.engine.storage.file_io import Storage
from icecore.engine.storage.listing import LocationIndex


@pytest.mark.parametrize(
    "name",
    [
        "a b.parquet",
        "50%25.parquet",
        "50%.parquet",
        "a+b&c=d.parquet",
        "Ü.parquet",
        "tab\t.parquet",
        "日本.parquet",
        "'q'.parquet",
    ],
)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_odd_names(catalog: icecore.Catalog, name: str, form: Any) -> None:
    table = make_table(catalog)
    folder = local(table.location()) / "data/k=a b%2Fc"
    folder.mkdir(parents=True)
    path = folder / unicodedata.normalize(form, name)
    pq.write_table(rows(7), path)
    table.add_files([str(path)])
    age_all(local(table.location()))
    stray = put(folder / f"stray {name}")
    assert remove(table) == {stray}
    assert ids_of(table) == [7]


@pytest.mark.parametrize("spelling", ["file:{}", "file://{}", "file:///{}", "{}", "file://{}/../data"])
def test_spellings_of_a_local_location_are_one(catalog: icecore.Catalog, spelling: str) -> None:
    table = make_table(catalog)
    folder = local(table.location()) / "data"
    folder.mkdir(parents=True)
    pq.write_table(rows(7), folder / "x.parquet")
    table.add_files([f"{spelling.format(folder)}/x.parquet"])
    age_all(local(table.location()))
    assert remove(table) == set()
    assert ids_of(table) == [7]


def test_places() -> None:
    def same(one: str, other: str, places: LocationIndex | None = None) -> bool:
        places = places or LocationIndex(Storage())
        return bool(places.of(one) & places.of(other))

    assert same("/a/b", "file:/a/b") and same("/a//b", "file:///a/./b")
    assert same("/a/x y", f"file:///a/{quote('x y')}") and same("/a/Ü", "/a/" + unicodedata.normalize("NFD", "Ü"))
    assert same("/a/s=%00/x", "file:/a/s=%00/x")
    assert same("s3://b/k/x", "s3a://b/k//x") and same("s3n://b/k", "s3://b/k")
    assert not same("s3://b/k", "s3://c/k") and not same("/a/b", "/a/c") and not same("gs://b/k", "s3://b/k")
    assert same("s3://b/k", "s3://c/k", LocationIndex(Storage(), authorities={"c": "b"}))
    assert same("s3://old/k", "/new/k", LocationIndex(Storage(LocationMapping.of({"s3://old": "/new"}))))


def test_symbolic_links(catalog: icecore.Catalog, tmp_path: Path) -> None:
    """A table reached by a link is the table; links in it are neither followed nor deleted."""
    real = tmp_path / "real"
    real.mkdir()
    link = tmp_path / "link"
    link.symlink_to(real)
    table = make_table(catalog, location=str(link))
    (real / "data").mkdir()
    pq.write_table(rows(7), real / "data/x.parquet")
    table.add_files([str(real / "data/x.parquet")])
    table.append(rows(8))
    outside = put(tmp_path / "outside/precious.parquet")
    (real / "data/away").symlink_to(outside.parent)
    (real / "data/one.parquet").symlink_to(outside)
    age_all(real)
    age(real / "data/one.parquet")
    stray = put(real / "data/stray.parquet")
    assert {p.resolve() for p in remove(table)} == {stray}
    assert outside.exists() and (real / "data/one.parquet").is_symlink()
    assert ids_of(table) == [7, 8]


def test_partitions_whose_names_look_hidden_are_searched(catalog: icecore.Catalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("_p", pa.string())])
    table = catalog.create_table("ns.h", schema, partition_spec=["_p"])
    table.append(pa.table({"id": [1], "_p": ["a"]}, schema=schema))
    age_all(local(table.location()))
    stray = put(local(table.location()) / "data/_p=a/stray.parquet")
    put(local(table.location()) / "data/_q=a/stray.parquet")
    assert remove(table) == {stray}
    assert ids_of(table) == [1]


def test_mismatched_prefixes(catalog: icecore.Catalog) -> None:
    """A needed path under another scheme says nothing for certain, so the caller decides."""
    table = make_table(catalog)
    table.append(rows(1))
    age_all(local(table.location()))
    stray = put(local(table.location()) / "data/stray.parquet")
    state = repository_of(catalog).state(table.state.stream)
    search = orphan_files.OrphanSearch.of(None, None, None, None, "ignore", False)
    candidates = Candidates(
        orphan_files._list(repository_of(catalog), state, Storage(), search), LocationIndex(Storage())
    )
    candidates.keep(f"hdfs://node{stray}")
    assert not candidates.may_go(f"file://{stray}")
    with pytest.raises(ValidationError, match="equal_schemes"):
        candidates.rest(PrefixMismatchMode.ERROR)
    assert f"file://{stray}" not in candidates.rest(PrefixMismatchMode.IGNORE)
    assert f"file://{stray}" in candidates.rest(PrefixMismatchMode.DELETE)


def test_a_commit_meanwhile_under_another_scheme_keeps_the_file(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    stray = put(local(table.location()) / "data/stray.parquet")
    named = [data_file(file_path=f"hdfs://node{stray}", spec_id=0, partition=(), lower_bounds={}, value_counts={})]
    marking = Marking.mark_all
    monkeypatch.setattr(Marking, "mark_all", lambda self: (marking(self), table.append_files(named))[0])
    assert remove(table, prefix_mismatch_mode="ignore") == set()
    other = put(local(table.location()) / "data/other.parquet")
    named = [evolve(named[0], file_path=f"hdfs://node{other}")]
    with pytest.raises(ValidationError, match="equal_schemes"):
        remove(table)
    assert stray.exists() and other.exists()
