"""Bounds on the paths of position deletes: schemes and authorities may differ between writers (Spec: SP3)."""

from __future__ import annotations

import re
from itertools import product

import duckdb
import pyarrow as pa

from icecore.projections.plan.plan_deletes import path_bounds, plain_bounds
from icecore.projections.segments.entry_typing import PATH_FIELD_ID

LOWER, UPPER = f"lower_{PATH_FIELD_ID}", f"upper_{PATH_FIELD_ID}"
ROOTS = ("", "/", "//", "file:", "file:/", "file:///", "s3://b/", "s3://bu/", "s3://b", "s3a://b/", "s3:", "S3://b/")
TAILS = ("", "a", "a/b", "b", "u/a")
PATHS = sorted({root + tail for root, tail in product(ROOTS, TAILS)})


def may_lie(path: str, lower: str | None, upper: str | None) -> bool:
    """As the rule says it: in order with scheme and authority, or without them."""

    def plain(text: str) -> str:
        return re.sub(r"^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?", "", text)

    above = lower is None or lower <= path or plain(lower) <= plain(path)
    return above and (upper is None or upper >= path or plain(upper) >= plain(path))


def test_the_short_way_says_what_the_rule_says() -> None:
    """For all pairs of paths as bounds, alike or not, cut or not, or missing."""
    columns = {LOWER: "VARCHAR", UPPER: "VARCHAR"}
    bounds = [*((low, up) for low, up in product(PATHS[::2], PATHS[1::2])), *((p, None) for p in PATHS), (None, None)]
    with duckdb.connect(":memory:") as connection:
        lower, upper = (pa.array(side, pa.string()) for side in zip(*bounds, strict=True))
        connection.register("bounds", pa.table({"n": range(len(bounds)), LOWER: lower, UPPER: upper}))
        connection.register("data", pa.table({"file_path": PATHS}))
        found = connection.execute(
            f"SELECT d.n, data.file_path FROM data JOIN (SELECT *{plain_bounds(columns)} FROM bounds AS d) AS d "
            f"ON TRUE WHERE {path_bounds(columns)}"
        ).fetchall()
    wanted = {(n, p) for (n, b), p in product(enumerate(bounds), PATHS) if may_lie(p, *b)}
    assert set(found) == wanted
    assert len(found) == len(wanted)
    assert 0 < len(wanted) < len(bounds) * len(PATHS)
