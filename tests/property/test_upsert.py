"""Upserts against a model: a dictionary by key, through several upserts, modes, versions and partitions."""

from __future__ import annotations

import tempfile
from typing import Any

import pyarrow as pa
from budgets import examples
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.operations.upsert import UpsertResult

SCHEMA = pa.schema([("a", pa.int64()), ("b", pa.string()), ("v", pa.int32()), ("w", pa.float64())])
KEYS = st.tuples(st.one_of(st.none(), st.integers(0, 5)), st.sampled_from([None, "", "x", "y"]))
VALUES = st.tuples(st.one_of(st.none(), st.integers(0, 3)), st.sampled_from([None, 0.0, float("nan"), 1.5]))
BATCHES = st.lists(
    st.tuples(st.dictionaries(KEYS, VALUES, max_size=8), st.booleans(), st.booleans()), min_size=1, max_size=5
)

Model = dict[tuple[Any, ...], tuple[Any, ...]]


def table_of(rows: Model) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, (*k, *v), strict=True)) for k, v in rows.items()], schema=SCHEMA
    )


def same(x: tuple[Any, ...], y: tuple[Any, ...]) -> bool:
    return repr(x) == repr(y)


@examples(5, new=105)
@given(
    batches=BATCHES,
    version=st.sampled_from([1, 2, 3]),
    mode=st.sampled_from(["copy-on-write", "merge-on-read"]),
    spec=st.sampled_from([(), ("b",), ("bucket(3, a)",), ("v",)]),
)
def test_the_table_is_what_the_model_is(
    batches: list[tuple[Model, bool, bool]], version: int, mode: str, spec: tuple[str, ...]
) -> None:
    """After each upsert the rows are the model's, and the counts are those of the keys that changed and came."""
    model: Model = {}
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        table = catalog.create_table(
            "ns.t", SCHEMA, partition_spec=spec, format_version=version, properties={"write.update.mode": mode}
        )
        for rows, updates, inserts in batches:
            if not (updates or inserts):
                continue
            changed = {k: v for k, v in rows.items() if updates and k in model and not same(model[k], v)}
            new = {k: v for k, v in rows.items() if inserts and k not in model}
            result = table.upsert(
                table_of(rows), ["a", "b"], when_matched_update_all=updates, when_not_matched_insert_all=inserts
            )
            assert result == UpsertResult(len(changed), len(new))
            model |= changed | new
            found = [tuple(r.values()) for r in table.scan().to_arrow().to_pylist()]
            assert sorted(map(repr, found)) == sorted(repr((*k, *v)) for k, v in model.items())
        assert catalog.verify().problems == ()
