"""Places of archives that are taken: what another log, or another state of this one, archived there stays."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from core_tables import make_table, rows

import icecore
from icecore.engine.errors import ValidationError


def make(folder: Path) -> icecore.Catalog:
    catalog: icecore.Catalog = icecore.open(folder)
    catalog.create_namespace("ns")
    make_table(catalog)
    return catalog


def append_some(catalog: icecore.Catalog) -> None:
    for number in range(3):
        catalog.load_table("ns.t").append(rows(number))


@pytest.mark.parametrize("end", [4, 5])
def test_what_another_log_archived_is_not_replaced(tmp_path: Path, end: int) -> None:
    """It is all that the other has of its oldest events, which begin at the same position."""
    place = tmp_path / "archives" / "first"
    with make(tmp_path / "one") as one, make(tmp_path / "other") as other:
        for catalog in (one, other):
            append_some(catalog)
        one.archive(4, path=place)
        with pytest.raises(ValidationError, match=f"there already, and is no archive of positions 1 to {end - 1}"):
            other.archive(end, path=place)
        assert one.verify().ok and other.verify().ok and other.archives() == []


def test_the_log_is_not_replaced_by_its_archive(tmp_path: Path) -> None:
    """However its path is written."""
    with make(tmp_path / "lake") as catalog:
        append_some(catalog)
    with icecore.open(tmp_path / "lake") as catalog:
        with pytest.raises(ValidationError, match="there already"):
            catalog.archive(3, path=tmp_path / "lake" / "ns" / ".." / "icecore.db")
        assert catalog.verify().ok


def test_what_a_later_state_of_the_log_archived_is_not_replaced(tmp_path: Path) -> None:
    """An earlier log is put back and archived beside it; then the later one is put back."""
    log, kept = tmp_path / "lake" / "icecore.db", tmp_path / "kept.db"
    make(tmp_path / "lake").close()
    shutil.copy(log, kept)
    with icecore.open(tmp_path / "lake") as catalog:
        append_some(catalog)
        catalog.archive(5)
        known = catalog.log().to_pylist()
    shutil.copy(log, tmp_path / "later.db")
    shutil.copy(kept, log)
    with icecore.open(tmp_path / "lake") as catalog:
        append_some(catalog)
        with pytest.raises(ValidationError, match="there already"):
            catalog.archive(5)
        assert catalog.archive(5, path=tmp_path / "lake" / "of-the-earlier") is not None
    shutil.copy(tmp_path / "later.db", log)
    with icecore.open(tmp_path / "lake") as catalog:
        assert catalog.log().to_pylist() == known
