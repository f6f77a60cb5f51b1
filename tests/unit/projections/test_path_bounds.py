"""Bounds on paths of position delete files let in every data file that they may name, however cut (SP3, SP4)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import duckdb
import pytest

from icecore.engine.expression.strings import string_successor
from icecore.engine.spec.reserved import DELETE_PATH_ID
from icecore.projections.plan.deletes.delete_bounds import path_bounds, plain_bounds

COLUMNS = {f"{side}_{DELETE_PATH_ID}": "VARCHAR" for side in ("lower", "upper")}
STORES = {
    "s3": (("s3://", "s3a://", "s3n://"), "my-company-warehouse/ns/t/data/f.parquet"),
    "local": (("file:///", "file:/", "/", "file://localhost/"), "tmp/warehouse/ns/t/data/f.parquet"),
    "relative": (("",), "data/ns/t/f.parquet"),
    "hdfs": (("hdfs://nn:8020/", "hdfs:///", "/"), "user/hive/t/data/f.parquet"),
    "azure": (("abfss://c@acc.dfs.core.windows.net/", "abfs://c@acc.dfs.core.windows.net/"), "ns/t/data/f.parquet"),
}


@pytest.mark.parametrize("store", STORES)
def test_no_cut_of_a_bound_leaves_its_file_out(store: str) -> None:
    """In any spelling of either, cut anywhere, also within scheme or authority; a whole bound leaves others out."""
    spellings, rest = STORES[store]
    cut = [
        (data + rest, (bound + rest)[:end], string_successor((bound + rest)[:end]))
        for data, bound in product(spellings, spellings)
        for end in range(1, len(bound + rest))
    ]
    another = rest.replace("f.parquet", "g.parquet")
    other = [(spelling + another, spelling + rest, spelling + rest) for spelling in spellings]
    assert all(let_in(cut))
    assert not any(let_in(other))


@pytest.mark.parametrize("store", STORES)
def test_bounds_may_be_spelled_in_two_ways(store: str) -> None:
    """A delete file of two data files, each in any spelling: neither is left out, however the table spells it."""
    spellings, rest = STORES[store]
    names = (rest, rest.replace("f.parquet", "g.parquet"))
    found = [
        (data + names[at], min(one, two), max(one, two))
        for one, two in product(*([s + name for s in spellings] for name in names))
        for data, at in product(spellings, (0, 1))
    ]
    assert all(let_in(found))


def let_in(rows: Sequence[tuple[str, str, str | None]]) -> list[bool]:
    """Whether each path may lie in its bounds."""
    with duckdb.connect() as con:
        con.execute("CREATE TABLE rows (number INT, file_path VARCHAR, lower VARCHAR, upper VARCHAR)")
        con.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", [[i, *row] for i, row in enumerate(rows)])
        deletes = ", ".join(f"{side} AS {side}_{DELETE_PATH_ID}" for side in ("lower", "upper"))
        found = con.sql(
            f"SELECT data.number, ({path_bounds(COLUMNS)}) FROM rows AS data JOIN (SELECT *{plain_bounds(COLUMNS)} "
            f"FROM (SELECT number, {deletes} FROM rows) AS d) AS d ON d.number = data.number ORDER BY 1"
        ).fetchall()
    return [is_let_in for _, is_let_in in found]
