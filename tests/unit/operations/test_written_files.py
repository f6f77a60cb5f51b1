"""Files that others wrote for a commit: committed once, or deleted."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import icecore
from icecore.engine.data.write.write_rows import write_data_files
from icecore.engine.errors import ValidationError
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.table.written_files import WrittenFiles, give_up, is_answered


@pytest.fixture
def table(catalog: icecore.Catalog) -> icecore.Table:
    return catalog.create_table("ns.t", pa.schema([("id", pa.int64()), ("p", pa.int64())]), partition_spec=["p"])


def written(table: icecore.Table, *rows: tuple[int, int]) -> tuple[ContentFile, ...]:
    """Files with rows of (id, p), as a task of another process writes them."""
    files = write_data_files(
        pa.table({"id": [r[0] for r in rows], "p": [r[1] for r in rows]}),
        schema=table.schema(),
        spec=table.spec(),
        location=f"{table.location()}/data",
        storage=table.scan().storage,
        properties={},
        file_prefix=str(uuid.uuid4()),
    )
    return tuple(files)


def there(files: tuple[ContentFile, ...]) -> list[bool]:
    return [Path(f.file_path.removeprefix("file://")).exists() for f in files]


def ids(table: icecore.Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def test_they_are_the_data_of_any_change(table: icecore.Table) -> None:
    table.append(WrittenFiles(written(table, (1, 1), (2, 2))))
    assert ids(table) == [1, 2]
    table.dynamic_partition_overwrite(WrittenFiles(written(table, (3, 2))))
    assert ids(table) == [1, 3]
    table.overwrite(WrittenFiles(written(table, (4, 1))), "id = 1")
    assert ids(table) == [3, 4]


def test_what_comes_again_is_deleted_and_what_is_committed_stays(table: icecore.Table) -> None:
    """A batch that is written once more has other files; the same files again are those of the commit."""
    first, again = written(table, (1, 1), (2, 2)), written(table, (1, 1), (2, 2))
    for files in (first, first, again):
        table.append(WrittenFiles(files), idempotency_key="batch 1")
    assert ids(table) == [1, 2]
    assert there(first) == [True, True] and there(again) == [False, False]
    give_up(table._repository, (*first, *again), "batch 1", table.scan().storage)
    assert there(first) == [True, True]
    assert is_answered(table._repository, "batch 1") and not is_answered(table._repository, "batch 2")


def test_a_refused_commit_deletes_them(table: icecore.Table) -> None:
    files = written(table, (1, 1))
    with pytest.raises(ValidationError):
        table.append(WrittenFiles(files), branch="")
    kept = there(files)
    with pytest.raises(icecore.IcecoreError), table.transaction() as transaction:
        transaction.append(WrittenFiles(files))
        raise ValidationError("something else")
    assert kept == [True] and there(files) == [False]


def test_a_commit_and_who_gives_it_up_never_both_win(table: icecore.Table, catalog: icecore.Catalog) -> None:
    """Either the rows are there with all their files, or the commit is refused and no file is left."""
    for round in range(10):
        files, key = written(table, (2 * round, 1), (2 * round + 1, 2)), f"round {round}"
        before, outcome = ids(table), list[Any]()

        def commit(files: Any = files, key: str = key, outcome: Any = outcome) -> None:
            try:
                catalog.load_table("ns.t").append(WrittenFiles(files), idempotency_key=key)
            except ValidationError as e:
                outcome.append(e)

        threads = [
            threading.Thread(target=commit),
            threading.Thread(target=give_up, args=(table._repository, files, key, table.scan().storage)),
        ]
        for t in threads if round % 2 else reversed(threads):
            t.start()
        for t in threads:
            t.join()
        if outcome:
            assert "given up" in str(outcome[0])
            assert ids(table) == before and there(files) == [False, False]
        else:
            assert ids(table) == [*before, 2 * round, 2 * round + 1] and there(files) == [True, True]
    assert not catalog.verify().problems
