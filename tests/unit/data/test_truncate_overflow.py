"""Values at the edge of a type's range in truncate partitions: taken as in Java, and never lost by a plan.

Spec: Truncate Transform Details (PT5), Scan Planning (SP1, SP8).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import icecore
from icecore.engine.errors import ValidationError

INT_MIN, LONG_MIN = -(2**31), -(2**63)
LEAST = Decimal("-9999999999.99")
# For each column the partitioning, values whose truncation is in the type's range, and one where it is below.
CASES: list[tuple[pa.DataType, str, list[Any], Any]] = [
    (pa.int32(), "truncate(100, n)", [INT_MIN + 48, INT_MIN + 147, -1, 0, 2**31 - 1, None], INT_MIN + 47),
    (pa.int64(), "truncate(1000, n)", [LONG_MIN + 808, LONG_MIN + 809, 0, 2**63 - 1, None], LONG_MIN),
    (
        pa.decimal128(12, 2),
        "truncate(100, n)",
        [Decimal("-9999999999.00"), Decimal("-9999999998.01"), Decimal("0.00"), -LEAST, None],
        LEAST,
    ),
]


def one_column(t: pa.DataType, values: list[Any]) -> pa.Table:
    return pa.table({"n": pa.array(values, t), "i": pa.array(range(len(values)), pa.int64())})


def table_of(catalog: icecore.Catalog, t: pa.DataType, transform: str) -> icecore.Table:
    return catalog.create_table("ns.t", one_column(t, []).schema, partition_spec=[transform])


@pytest.mark.parametrize("t, transform, values, least", CASES, ids=["int", "long", "decimal"])
def test_pt5_the_least_value_is_taken_and_stands_in_nobodys_way(
    catalog: icecore.Catalog, warehouse: Path, t: pa.DataType, transform: str, values: list[Any], least: Any
) -> None:
    """A table that holds it and is partitioned later can be appended to, deleted from and compacted; PyIceberg reads
    its rows."""
    table = catalog.create_table("ns.t", one_column(t, []).schema)
    table.append(one_column(t, [*values, least]))
    with table.update_spec() as spec:
        spec.add_field(transform)
    table.delete("i = 0")
    table.append(one_column(t, [least]))
    table.rewrite_data_files(options={"rewrite-all": "true"})
    peer = SqlCatalog("icecore", uri=f"sqlite:///{warehouse}/icecore.db", warehouse=str(warehouse)).load_table("ns.t")
    expected = [*values[1:], least, least]
    for rows in (table.scan().to_arrow(), peer.scan().to_arrow()):
        assert sorted(rows["n"].to_pylist(), key=str) == sorted(expected, key=str)
    assert sorted(table.scan(row_filter=f"n = {least}").to_arrow()["i"].to_pylist()) == [0, len(values)]
    table.delete(f"n = {least}")
    assert table.scan().count() == len(values) - 1
    assert table.partitions().num_rows <= len(values)
    assert catalog.verify().ok


def test_pt5_a_decimal_that_no_manifest_has_room_for_is_refused_and_leaves_no_file(
    catalog: icecore.Catalog, warehouse: Path
) -> None:
    """The error names column and value; files of partitions that were begun are gone."""
    t = pa.decimal128(2, 1)
    table = table_of(catalog, t, "truncate(70, n)")
    batches = [one_column(t, [Decimal("1.0")]), one_column(t, [Decimal("-9.9")])]
    stream = pa.RecordBatchReader.from_batches(batches[0].schema, [b for x in batches for b in x.to_batches()])
    with pytest.raises(ValidationError, match=r"column 'n': truncate.* of -9.9 is below the range"):
        table.append(stream)
    assert [p for p in warehouse.rglob("*.parquet") if "data" in p.parts] == []
    assert table.refresh().current_snapshot() is None


@pytest.mark.parametrize("t, transform, values, wrong", CASES, ids=["int", "long", "decimal"])
def test_sp1_filters_at_the_edge_of_the_range_lose_no_row(
    catalog: icecore.Catalog, t: pa.DataType, transform: str, values: list[Any], wrong: Any
) -> None:
    """Every comparison with every value, also with those around the least of the type, selects what Python does."""
    table = table_of(catalog, t, transform)
    values = [*values, wrong]
    table.append(one_column(t, values))
    step = Decimal("0.01") if pa.types.is_decimal(t) else 1
    literals = sorted({v + d for v in (*values, wrong) if v is not None for d in (-step, 0, step)})
    literals += [wrong - 100 * step, -wrong + 100 * step]
    compare: dict[str, Callable[[Any, Any], bool]] = {
        "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
        ">=": lambda a, b: a >= b, "=": lambda a, b: a == b, "<>": lambda a, b: a != b,
    }  # fmt: skip
    for literal in literals:
        for op, holds in compare.items():
            text = f"n {op} {literal}"
            found = table.scan(row_filter=text).to_arrow()["i"].to_pylist()
            expected = [i for i, v in enumerate(values) if v is not None and holds(v, literal)]
            assert sorted(found) == expected, text


def test_sp1_days_at_the_edge_of_the_range_lose_no_row(catalog: icecore.Catalog) -> None:
    days = pa.array([-(2**31), -(2**31) + 1, 0, 2**31 - 1], pa.int32()).cast(pa.date32())
    schema = pa.schema([("d", pa.date32()), ("i", pa.int64())])
    table = catalog.create_table("ns.t", schema, partition_spec=["day(d)"])
    table.append(pa.table({"d": days, "i": range(4)}))
    least, most = "-5877641-06-23", "5881580-07-11"
    for text, expected in (
        (f"d <= DATE '{most}'", [0, 1, 2, 3]),
        (f"d < DATE '{most}'", [0, 1, 2]),
        (f"d > DATE '{most}'", []),
        (f"d >= DATE '{most}'", [3]),
        (f"d < DATE '{least}'", []),
        (f"d >= DATE '{least}'", [0, 1, 2, 3]),
        ("d < DATE '1970-01-01'", [0, 1]),
    ):
        assert sorted(table.scan(row_filter=text).to_arrow()["i"].to_pylist()) == expected, text
