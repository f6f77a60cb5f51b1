"""The search for orphan files by Spark: it finds what the engine's own finds, and deletes no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from core_tables import age, local, make_table, put, rows  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.spark.files import listed_files  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def active(spark: Any) -> Iterator[None]:
    yield


@pytest.mark.parametrize("levels", ["tasks list", "too few folders for tasks"])
def test_what_nothing_needs_goes(
    catalog: icecore.Catalog, warehouse: Path, levels: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nested, encoded and hidden folders, links, young files, those of another table: as the engine judges them."""
    if levels == "tasks list":
        monkeypatch.setattr(listed_files, "_MANY", 2)
    table, other = make_table(catalog, partition_spec=["name"]), make_table(catalog, name="other")
    for number in range(3):
        table.append(rows(number))
    other.append(rows(7))
    folder = local(table.location())
    orphans = {
        put(folder / "data/name=n1/stray.parquet"), put(folder / "data/name=a%20b/deep/er/x.orc"),
        put(folder / "metadata/stray-m0.avro"), put(folder / "x.parquet"),
    }  # fmt: skip
    kept = [
        put(folder / "data/young.parquet", days=2), put(folder / "data/_hidden/x.parquet"),
        put(folder / "data/name=n1/notes.txt"), put(warehouse / "elsewhere/x.parquet"),
    ]  # fmt: skip
    (folder / "data/link").symlink_to(warehouse / "elsewhere", target_is_directory=True)
    for path in warehouse.rglob("*.parquet"):
        if path not in kept:
            age(path)
    told: list[tuple[int, int]] = []
    found = table.spark.remove_orphan_files(dry_run=True, on_progress=lambda *n: told.append(n))
    same = table.maintenance.remove_orphan_files(dry_run=True)
    assert sorted(found.orphan_file_locations) == sorted(same.orphan_file_locations)
    assert sorted(found.passed_over) == sorted(same.passed_over) and found.total_bytes == same.total_bytes
    assert {local(f) for f in found.orphan_file_locations} == orphans
    assert bool(told) == (levels == "tasks list") and all(p.exists() for p in orphans)
    done = table.spark.remove_orphan_files(message="of crashed writers")
    assert {local(f) for f in done.deleted_files} == orphans
    assert not any(p.exists() for p in orphans) and all(p.exists() for p in kept)
    assert sorted(r["id"] for t in (table, other) for r in t.scan().to_arrow().to_pylist()) == [0, 1, 2, 7]
    assert catalog.verify(deep=True).ok
    with pytest.raises(ValidationError, match="24 hours"):
        table.spark.remove_orphan_files("2100-01-01T00:00:00")
    with pytest.raises(TypeError, match="unexpected keyword argument 'folder'"):
        table.spark.remove_orphan_files(folder="x")  # type: ignore[call-arg]
