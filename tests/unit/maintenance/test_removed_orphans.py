"""Files that a search for orphans removed: a commit that adds them afterwards is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from client_writes import ClientCatalog
from core_tables import ids_of, local, make_table, repository_of, rows

import icecore
from icecore.engine.errors import CommitConflictError

Commit = Callable[[], Any]
Writer = Callable[[icecore.Catalog], Commit]


def by_ours(catalog: icecore.Catalog) -> Commit:
    transaction = catalog.load_table("ns.t").transaction()
    transaction.append(rows(2))
    return transaction.commit


def by_a_client(catalog: icecore.Catalog) -> Commit:
    transaction = ClientCatalog(catalog).load_table("ns.t").transaction()
    transaction.append(rows(2))
    return transaction.commit_transaction  # type: ignore[no-any-return]


def remove(table: icecore.Table) -> list[str]:
    """The data files that a search removes, whatever their age; manifests stay."""
    now, data = int(time.time() * 1000) + 1000, f"{table.location()}/data"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("icecore.engine.deletion.orphan_files.LEAST_AGE_MS", -10_000)
        return list(table.maintenance.remove_orphan_files(now, location=data).deleted_files)


WRITERS = pytest.mark.parametrize("write", [by_ours, by_a_client])


@WRITERS
def test_a_commit_of_a_file_that_was_removed_as_an_orphan_is_refused(catalog: icecore.Catalog, write: Writer) -> None:
    table = make_table(catalog)
    table.append(rows(1))
    commit = write(catalog)
    assert len(remove(table)) == 1
    position = catalog.position
    with pytest.raises(CommitConflictError, match=f"removed as an orphan by position {position} by"):
        commit()
    assert catalog.position == position and ids_of(catalog.load_table("ns.t")) == [1]
    table.append(rows(3))
    assert ids_of(table) == [1, 3] and catalog.verify().ok


@WRITERS
def test_a_file_that_has_the_name_of_a_removed_one_anew_is_taken(catalog: icecore.Catalog, write: Writer) -> None:
    table = make_table(catalog)
    commit = write(catalog)
    (removed,) = remove(table)
    pq.write_table(rows(2), local(removed))
    commit()
    assert removed in catalog.load_table("ns.t").files()["file_path"].to_pylist()


@pytest.mark.parametrize("way", ["import", "rebuild"])
def test_a_log_that_was_imported_or_rebuilt_still_knows_them(
    catalog: icecore.Catalog, tmp_path: Path, way: str
) -> None:
    table, client = make_table(catalog), ClientCatalog(catalog)
    transaction = client.load_table("ns.t").transaction()
    transaction.append(rows(2))
    assert len(remove(table)) == 1
    catalog.export_log(tmp_path / "log.jsonl")
    catalog.close()
    if way == "import":
        (catalog.path / "icecore.db").rename(tmp_path / "old.db")
        icecore.import_log(tmp_path / "log.jsonl", catalog.path)
    with icecore.open(catalog.path) as again:
        if way == "rebuild":
            again.rebuild()
        client.engine = repository_of(again)
        with pytest.raises(CommitConflictError, match="removed as an orphan"):
            transaction.commit_transaction()


def test_a_file_that_could_not_be_deleted_yet_is_kept_for_the_commit(
    catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(catalog)
    commit = by_ours(catalog)
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="not all deleted yet"):
        patch.setattr("icecore.engine.deletion.delete_files._Turns._delete_one", _refuses)
        remove(table)
    commit()
    assert remove(table) == [] and ids_of(catalog.load_table("ns.t")) == [2]


def _refuses(*_: Any) -> None:
    raise icecore.engine.errors.StorageError("no")
