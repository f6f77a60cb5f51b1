"""Workers of Spark that die while they write for a change: nothing of it is there, and the next call makes it, once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from attrs import asdict, frozen

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_change_tables import SCHEMA, Row, make, row, rows_of  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.repository.repository import Repository  # noqa: E402
from icecore.engine.spark_source.batch_writer import TableWriter  # noqa: E402
from icecore.engine.spark_source.iceberg_source import IcecoreSource  # noqa: E402
from icecore.engine.spark_source.source_options import WRITING  # noqa: E402
from icecore.engine.spark_source.write_plan import PREFIX  # noqa: E402
from icecore.engine.storage.file_io import Storage  # noqa: E402

COW, MOR = "copy-on-write", "merge-on-read"
Rows = dict[int, Row]


@frozen
class Change:
    """A change under a key, of a table of a version and a mode, and the rows after it."""

    version: int
    mode: str
    run: Callable[[icecore.Table, str, Any, Path], object]
    after: Callable[[Rows], Rows]


def source(spark: Any) -> Any:
    """Rows of five ids that the table has, and of five others."""
    rows = [tuple({**row(i), "x": -1.0}.values()) for i in range(25, 35)]
    return spark.createDataFrame(rows, "id BIGINT, k INT, name STRING, x DOUBLE")


def merge(table: icecore.Table, key: str, spark: Any, _: Path) -> None:
    change = table.spark.merge(source(spark), ["id"]).when_matched_delete("source.id = 25")
    change.when_matched_update_all().when_not_matched_insert_all().commit(idempotency_key=key)


def merged(before: Rows) -> Rows:
    return {i: r for i, r in (before | {i: {**row(i), "x": -1.0} for i in range(25, 35)}).items() if i != 25}


def add_files(table: icecore.Table, key: str, _: Any, folder: Path) -> None:
    file = folder / "given.parquet"
    if not file.exists():
        pq.write_table(pa.Table.from_pylist([row(30, 0), row(33, 0)], SCHEMA), file)
    table.spark.add_files([str(file)], idempotency_key=key)


def by_format(table: icecore.Table, key: str, spark: Any, _: Path) -> None:
    write = source(spark).where("id >= 30").write.format("mortal").mode("append").option("idempotency-key", key)
    write.option("warehouse", str(table._repository.store.path.parent)).save("ns.t")


CHANGES = {
    "append": Change(2, COW, lambda t, k, s, _: t.append(source(s).where("id >= 30"), idempotency_key=k),
                     lambda b: b | {i: {**row(i), "x": -1.0} for i in range(30, 35)}),
    "format": Change(2, COW, by_format, lambda b: b | {i: {**row(i), "x": -1.0} for i in range(30, 35)}),
    "merge by copies": Change(3, COW, merge, merged),
    "merge by deletes": Change(3, MOR, merge, merged),
    "update": Change(2, COW, lambda t, k, s, _: t.spark.update({"x": -2.0}, "id < 12", idempotency_key=k),
                     lambda b: b | {i: {**b[i], "x": -2.0} for i in range(12)}),
    "delete": Change(2, MOR, lambda t, k, s, _: t.spark.delete("id < 12", idempotency_key=k),
                     lambda b: {i: r for i, r in b.items() if i >= 12}),
    "add_files": Change(2, COW, add_files, lambda b: b | {i: row(i, 0) for i in (30, 33)}),
}  # fmt: skip


@pytest.fixture
def dies_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> Iterator[Path]:
    """A mark of the death of the first task that has written a file for good, or looks at one."""
    mark, driver = tmp_path / "died", os.getpid()
    original = Repository.storage_of

    # A class of a function goes to the tasks with all that it says.
    class MortalStorage(Storage):
        def sync(self, location: str) -> None:
            super().sync(location)
            die(str(mark), driver)

        def create(self, location: str, data: bytes) -> None:
            super().create(location, data)
            die(str(mark), driver)

        def size(self, location: str) -> int:
            die(str(mark), driver)
            return super().size(location)

    def die(mark: str, driver: int) -> None:
        if os.getpid() != driver and not os.path.exists(mark):
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signal.SIGKILL)

    def mortal(storage: Storage) -> Storage:
        return MortalStorage(**{k.lstrip("_"): v for k, v in asdict(storage, recurse=False).items()})

    class MortalSource(IcecoreSource):
        @classmethod
        def name(cls) -> str:
            return "mortal"

        def writer(self, schema: Any, overwrite: bool) -> Any:
            made = TableWriter(self._options(WRITING, PREFIX), schema, overwrite)
            object.__setattr__(made._files, "storage", mortal(made._files.storage))
            return made

    monkeypatch.setattr(Repository, "storage_of", lambda self, state: mortal(original(self, state)))
    spark.dataSource.register(MortalSource)
    yield mark


@pytest.mark.parametrize("name", CHANGES)
def test_a_worker_that_is_killed(
    spark: Any, catalog: icecore.Catalog, tmp_path: Path, dies_once: Path, name: str
) -> None:
    """By SIGKILL, once a file is written: the call fails, and the next one under its key makes the commit, once."""
    change = CHANGES[name]
    table = make(catalog, change.version, change.mode, partition_spec=["k"])
    before, position = rows_of(table), catalog.position
    with pytest.raises(Exception, match="worker"):
        change.run(table, "key", spark, tmp_path)
    assert dies_once.exists() and catalog.position == position
    assert rows_of(table.refresh()) == before
    for _ in range(2):
        change.run(table, "key", spark, tmp_path)
        assert rows_of(table.refresh()) == change.after(before)
        assert catalog.position == position + 1
    assert catalog.verify(deep=True).ok
