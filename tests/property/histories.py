"""Random histories of a table, with all its rows after each snapshot: what properties of scans are tested on."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

import icecore
from icecore.engine.errors import ValidationError

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string()), ("x", pa.float64())])
SPECS: list[list[str]] = [[], ["v"], ["bucket(2, id)"], ["truncate(4, id)"]]
LAYOUTS = [(1, "copy-on-write"), (2, "copy-on-write"), (2, "merge-on-read"), (3, "copy-on-write"), (3, "merge-on-read")]

row = st.fixed_dictionaries(
    {
        "id": st.integers(0, 9),
        "v": st.sampled_from([None, "a", "b", "a much longer value than bounds hold"]),
        "x": st.sampled_from([None, 0.0, -0.0, 1.5, float("nan"), float("inf")]),
    }
)
rows = st.lists(row, min_size=1, max_size=5)
unique_rows = st.lists(row, min_size=1, max_size=4, unique_by=lambda r: r["id"])
CONDITIONS = ["id < 4", "v = 'a'", "x IS NULL", "id = 7 OR v = 'b'", "id IN (1, 2, 3)", "TRUE", "isnan(x)", "id > 20"]
conditions = st.sampled_from(CONDITIONS)
step = st.one_of(
    st.tuples(st.just("append"), rows),
    st.tuples(st.just("append"), rows),
    st.tuples(st.just("delete"), conditions),
    st.tuples(st.just("overwrite"), st.tuples(conditions, rows)),
    st.tuples(st.just("same"), conditions),
    st.tuples(st.just("upsert"), unique_rows),
    st.tuples(st.just("delete_keys"), st.lists(st.integers(0, 9), min_size=1, max_size=3)),
    st.tuples(st.just("rewrite_manifests"), st.none()),
    st.tuples(st.just("mode"), st.sampled_from(["copy-on-write", "merge-on-read"])),
)
steps = st.lists(step, min_size=1, max_size=7)


def make_table(catalog: icecore.Catalog, spec: list[str], format_version: int, mode: str) -> icecore.Table:
    """An empty table whose manifests are merged at every second commit."""
    catalog.create_namespace("ns")
    properties = {
        "write.delete.mode": mode,
        "write.update.mode": mode,
        "commit.manifest.min-count-to-merge": "2",
    }
    return catalog.create_table(
        "ns.t", SCHEMA, partition_spec=spec, format_version=format_version, properties=properties
    )


def arrow(found: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(found, schema=SCHEMA)


def apply(table: icecore.Table, action: str, argument: Any) -> None:
    """Makes one step; one that the table or its version refuses changes nothing."""
    match action:
        case "append":
            table.append(arrow(argument))
        case "delete":
            table.delete(argument)
        case "overwrite":
            table.overwrite(arrow(argument[1]), argument[0])
        case "same":
            # The rows go and come again with the same values.
            table.overwrite(table.scan(argument).to_arrow(), argument)
        case "upsert":
            with contextlib.suppress(ValidationError):
                table.upsert(arrow(argument), ["id"])
        case "delete_keys":
            with contextlib.suppress(ValidationError):
                table.delete_keys(pa.table({"id": pa.array(argument, pa.int64())}), ["id"])
        case "rewrite_manifests":
            table.rewrite_manifests()
        case "mode":
            modes = {"write.delete.mode": argument, "write.update.mode": argument}
            table.set_properties(modes)


def canonical(found: pa.Table) -> Counter[str]:
    """The rows as text, counted; floats by their bits, all NaN as one."""
    return Counter(repr([v.hex() if isinstance(v, float) else v for v in r.values()]) for r in found.to_pylist())


def rows_of(table: icecore.Table, row_filter: str | None = None, **scan: Any) -> Counter[str]:
    return canonical(table.scan(row_filter, **scan).to_arrow())
