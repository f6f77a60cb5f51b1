"""Spark reads no row that a delete file or a vector deletes. Spec: Row-level Deletes (D3 to D5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from attrs import evolve

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from spark_reading import A_UUID, LONG, STRING, TWO, inner_of, pushed, rows, spark  # noqa: E402
from spark_tables import (  # noqa: E402
    deletion_vector,
    equality_deletes,
    hidden_copy,
    metadata_of,
    position_deletes,
    schema_of,
    tasks_of,
    write,
)

from icecore.engine.spec.types import IntegerType, UUIDType  # noqa: E402

__all__ = ["spark"]


def test_position_deletes(spark: Any, tmp_path: Path) -> None:
    """D3, D5: position delete files that name many data files, and vectors; with filters that skip row groups."""
    files = [
        write(
            tmp_path,
            TWO,
            {"id": list(range(k * 1000, k * 1000 + 300)), "name": ["x" * 30] * 300},
            properties={"write.parquet.row-group-limit": "100", "write.parquet.row-group-size-bytes": "3000"},
        )[0]
        for k in range(3)
    ]
    assert pq.ParquetFile(files[0].file_path).metadata.num_row_groups > 2
    shared = position_deletes(tmp_path / "d", [(f.file_path, p) for f in files[:2] for p in (0, 150, 299)])
    vector = deletion_vector(tmp_path / "d", files[2].file_path, list(range(0, 300, 2)))
    other = position_deletes(tmp_path / "d", [(files[0].file_path, 1)])
    tasks = [
        *tasks_of(files[:1], [shared, other]),
        *tasks_of(files[1:2], [shared]),
        *tasks_of(files[2:], [vector]),
    ]
    gone = {0, 1, 150, 299, 1000, 1150, 1299, *range(2000, 2300, 2)}
    everything = {k * 1000 + i for k in range(3) for i in range(300)}
    assert {r[0] for r in rows(spark, tasks, TWO)} == everything - gone
    late = {i for i in everything - gone if i >= 1140}
    assert {r[0] for r in rows(spark, tasks, TWO, where="id >= 1140")} == late
    assert pushed(spark, tasks, metadata_of(TWO), "id >= 1140") == [len(late)]


def test_equality_deletes(spark: Any, tmp_path: Path) -> None:
    """D4: by the columns of each delete file, null matching null; files with different sets of deletes at once."""
    schema = schema_of((1, "id", LONG), (2, "name", STRING), (3, "u", UUIDType()), (4, "v", LONG))
    data = {
        "id": [1, 2, None, 4],
        "name": ["a", None, "c", "d"],
        "u": [A_UUID.bytes, None, None, A_UUID.bytes],
        "v": [10, 20, 30, 40],
    }
    old, new, free = (write(tmp_path, schema, data)[0] for _ in range(3))
    by_id = equality_deletes(tmp_path / "e", schema_of((1, "id", LONG)), {"id": [None, 4, 99]})
    by_both = equality_deletes(
        tmp_path / "e", schema_of((2, "name", STRING), (3, "u", UUIDType())), {"name": [None], "u": [None]}
    )
    by_v = equality_deletes(tmp_path / "e", schema_of((4, "v", LONG)), {"v": [10]})
    vector = deletion_vector(tmp_path / "e", new.file_path, [3])
    tasks = [
        *tasks_of([old], [by_id, by_both, by_v]),
        *tasks_of([new], [by_both, vector]),
        *tasks_of([free]),
    ]
    found = rows(spark, tasks, schema, columns=["v"])
    assert sorted(v for (v,) in found) == sorted([*[], *[10, 30], *[10, 20, 30, 40]])
    hidden = [evolve(t, file=hidden_copy(t.file)) for t in tasks[:1]]
    assert rows(spark, hidden, schema, columns=["v"]) == []


def test_equality_deletes_by_renamed_promoted_and_dropped_columns(spark: Any, tmp_path: Path) -> None:
    """D4: keys are found by id in data and delete files, also those that the table has no more."""
    old = schema_of((1, "id", IntegerType()), (2, "gone", STRING), (3, "v", LONG), (5, "st", inner_of(6)))
    new = schema_of((1, "key", LONG), (3, "v", LONG), (4, "gone", STRING), (5, "s", inner_of(6)), schema_id=1)
    file = write(
        tmp_path,
        old,
        {"id": [1, 2, 3, 4], "gone": ["a", "b", None, "d"], "v": [1, 2, 3, 4], "st": [None, None, None, {"v": 5}]},
    )[0]
    by_id = equality_deletes(tmp_path / "e", schema_of((1, "id", IntegerType())), {"id": [1]})
    by_gone = equality_deletes(tmp_path / "e", schema_of((2, "gone", STRING)), {"gone": [None]})
    nested = write(tmp_path / "e", schema_of((5, "st", inner_of(6))), {"st": [{"v": 5}]})[0]
    by_nested = evolve(nested, content=by_id.content, equality_ids=(6,))
    metadata = metadata_of(old, new)
    assert rows(spark, tasks_of([file], [by_id, by_gone]), new, metadata=metadata) == [
        (2, 2, None, None),
        (4, 4, None, (5,)),
    ]
    assert rows(spark, tasks_of([file], [by_nested]), new, metadata=metadata, columns=["v"]) == [(1,), (2,), (3,)]
