"""Files of our own that were damaged: caches are made again, metadata is not needed, data files are named."""

from __future__ import annotations

import pytest
from core_tables import ids_of, local, make_table, rows

import icecore
from icecore.engine.errors import CorruptFileError, MissingFileError, StorageError


def test_a_cache_that_cant_be_written_is_done_without(catalog: icecore.Catalog) -> None:
    """A file where the cache folder should be keeps no plan from being made."""
    make_table(catalog).append(rows(1))
    with icecore.open(catalog.path) as again:
        cache = catalog.path / ".icecore"
        for path in sorted(cache.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()
        (cache if not cache.exists() else cache / "segments").write_text("a file")
        assert ids_of(again.load_table("ns.t")) == [1]


def test_all_metadata_may_be_lost(catalog: icecore.Catalog) -> None:
    """Scans, deletes and appends go on from the log alone where every metadata file is gone."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    folder = local(table.metadata_location).parent
    for path in folder.iterdir():
        path.unlink()
    with icecore.open(catalog.path) as again:
        assert ids_of(again.load_table("ns.t")) == [1, 2]
        again.rebuild()
        again.load_table("ns.t").delete("id = 1")
        assert ids_of(again.load_table("ns.t")) == [2]
        assert again.verify().problems == ()


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "lost"])
def test_a_damaged_data_file_is_named(catalog: icecore.Catalog, damage: str) -> None:
    """Reading and rewriting a damaged data file names it; nothing is committed, and other files still read."""
    table = make_table(catalog)
    table.append(rows(1, 2))
    table.append(rows(10, 11))
    path = local(next(t.file.file_path for t in table.scan("id < 5").plan_files()))
    match damage:
        case "cut":
            path.write_bytes(path.read_bytes()[:-20])
        case "empty":
            path.write_bytes(b"")
        case "text":
            path.write_text("what was here is gone")
        case _:
            path.unlink()
    expected = MissingFileError if damage == "lost" else (CorruptFileError, StorageError)
    position = catalog.position
    with pytest.raises(expected, match=path.name):
        table.scan().to_arrow()
    with pytest.raises(expected, match=path.name):
        table.scan("id = 1").count()
    with pytest.raises(expected, match=path.name):
        table.delete("id = 1")
    assert catalog.position == position
    assert ids_of(table, row_filter="id > 5") == [10, 11]
    table.delete("id < 5")
    assert ids_of(table) == [10, 11], "a whole file goes without being read"


def test_a_bit_that_flips_is_found_or_does_no_harm(catalog: icecore.Catalog) -> None:
    """Whatever byte of a Parquet file is hit, rows are right or the file is refused; a deep look names what is refused.

    Checksums cover pages only: the footer's ids are held against the schema it has as JSON, its counts against each
    other.
    """
    table = make_table(catalog)
    table.append(rows(1, 2))
    # Planned once: a file is opened anew each time it is read.
    scan = table.scan()
    expected = scan.to_arrow()
    path = local(next(iter(scan.plan_files())).file.file_path)
    good = path.read_bytes()
    refused = 0
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 1 << at % 8
        path.write_bytes(bad)
        try:
            assert scan.to_arrow().equals(expected), f"byte {at}, bit {at % 8}"
        except (CorruptFileError, StorageError) as e:
            assert path.name in str(e)
            refused += 1
    assert refused > len(good) // 8
    start = good.rindex(b"PAR1") - 4 - int.from_bytes(good[-8:-4], "little")
    at = start + good[start:].index(b"\x18\x04name") + len(b"\x18\x04name%\x005")
    path.write_bytes(good[:at] + bytes([good[at] ^ 8]) + good[at + 1 :])
    with pytest.raises(CorruptFileError, match="was written with a column of field id 2, and has none"):
        table.scan(selected_fields=("name",)).to_arrow()
    assert any("field id" in p for p in catalog.verify(deep=True).problems)
