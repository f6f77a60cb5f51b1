"""Tables that another engine committed to last, in a warehouse that is moved: their metadata file is written anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from core_tables import digests, ids_of, local, make_table, put, pyiceberg_catalog, rows
from moved_lakes import clone, cp, metadata_only, mv

import icecore


def remove_an_orphan(table: icecore.Table) -> None:
    put(local(table.location()) / "data" / "orphan.parquet")
    assert table.maintenance.remove_orphan_files().deleted_files


def commit_without_files(table: icecore.Table) -> None:
    table.append(rows(2))
    assert table.state.pending


@pytest.mark.parametrize("way", [mv, clone, cp, metadata_only])
@pytest.mark.parametrize("then", [remove_an_orphan, commit_without_files])
def test_another_engine_s_metadata_is_written_anew(
    tmp_path: Path, way: Callable[[Path], Path], then: Callable[[icecore.Table], None]
) -> None:
    """Whatever follows it without a file; engines that follow that file in a clone wrote into the original."""
    lake = tmp_path / "lake"
    with icecore.open(lake) as catalog:
        catalog.create_namespace("ns")
        properties = {"icecore.materialize": "manual"} if then is commit_without_files else {}
        make_table(catalog, properties=properties)
        with pyiceberg_catalog(lake).load_table("ns.t").transaction() as theirs:
            theirs.set_properties({"by": "another"})
        then(catalog.load_table("ns.t"))
        known = ids_of(catalog.load_table("ns.t"))
    before = digests(lake)
    new = way(lake)
    peer = pyiceberg_catalog(new).load_table("ns.t")
    peer.append(rows(9))
    assert peer.location() == f"file://{new}/ns/t" and digests(lake) == ({} if way is mv else before)
    with icecore.open(new) as catalog:
        assert ids_of(catalog.load_table("ns.t")) == [*known, 9]
        assert str(catalog.verify()).startswith("ok: ")
