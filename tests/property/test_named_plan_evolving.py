"""Named plans stay the plans of their columns through renames, swaps, promotions, branches, rollbacks, compactions."""

from __future__ import annotations

import contextlib
import random
import tempfile
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from attrs import define, field
from budgets import examples
from hypothesis import example, given
from hypothesis import strategies as st
from test_named_plan_is_fresh import described

import icecore
from icecore.engine.errors import IcecoreError
from icecore.engine.spec.types import DecimalType, DoubleType, LongType

FIELDS: dict[str, pa.DataType] = {
    "i": pa.int32(),
    "f": pa.float32(),
    "n": pa.decimal128(4, 2),
    "v": pa.string(),
    "w": pa.string(),
}
WIDER: dict[str, tuple[Any, pa.DataType]] = {
    "i": (LongType(), pa.int64()),
    "f": (DoubleType(), pa.float64()),
    "n": (DecimalType(9, 2), pa.decimal128(9, 2)),
}
FILTERS = [
    "{i} < 4",
    "{i} > 3000000000",
    "{i} <= 3000000000",
    "{i} IS NULL",
    "NOT ({i} IS NULL OR {v} = 'a')",
    "{f} = 0.1",
    "{f} >= 1",
    "{n} < 1000.005",
    "{n} = 1.005 OR {w} > 'b'",
    "{v} LIKE 'a%' AND {w} <> 'c'",
    "bucket(2, {i}) = 1",
    "TRUE",
]
PARTITIONS = [[], ["v"], ["bucket(2, i)"], ["i", "truncate(1, v)"]]

step = st.one_of(
    *[st.tuples(st.just("append"), st.integers(0, 99))] * 3,
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("delete_keys"), st.integers(0, 9)),
    st.tuples(st.just("rename"), st.sampled_from(sorted(FIELDS))),
    st.tuples(st.just("swap"), st.none()),
    st.tuples(st.just("promote"), st.sampled_from(sorted(WIDER))),
    st.tuples(st.just("optional"), st.none()),
    st.tuples(st.just("add"), st.none()),
    st.tuples(st.just("branch"), st.integers(0, 9)),
    st.tuples(st.just("fast_forward"), st.none()),
    st.tuples(st.just("rollback"), st.integers(0, 9)),
    st.tuples(st.just("spec"), st.sampled_from(["v", "w", "bucket(3, i)"])),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("upgrade"), st.none()),
)


@define
class History:
    """A table whose columns `names` gives by what they were called first."""

    table: icecore.Table
    names: dict[str, str] = field(factory=lambda: {n: n for n in FIELDS})
    types: dict[str, pa.DataType] = field(factory=lambda: dict(FIELDS))
    optional: bool = False
    renamed: int = 0

    def rows(self, seed: int) -> pa.Table:
        r = random.Random(seed)
        wide, nothing = [2**40] if self.types["i"] == pa.int64() else [], [None] if self.optional else []
        more = [] if self.types["n"] == FIELDS["n"] else [Decimal("1000000.00")]
        values: dict[str, list[Any]] = {
            "i": [-3, 0, 2, 4, 7, *wide, *nothing],
            "f": [None, 0.1, 1.0, float("nan"), -0.0],
            "n": [None, Decimal("1.00"), Decimal("99.00"), *more],
            "v": [None, "a", "ab", "b"],
            "w": [None, "a", "c"],
        }
        count = r.randrange(1, 4)
        chosen = {n: [r.choice(v) for _ in range(count)] for n, v in values.items()}
        arrays = [pa.array(v).cast(self.types[n]) for n, v in chosen.items()]
        required = None if self.optional else "i"
        fields = [pa.field(self.names[n], a.type, nullable=n != required) for n, a in zip(chosen, arrays, strict=True)]
        return pa.table(arrays, schema=pa.schema(fields))

    def filter(self, template: str) -> str:
        return template.format(**self.names)

    def apply(self, action: str, argument: Any) -> None:
        table, names = self.table, self.names
        match action:
            case "append":
                table.append(self.rows(argument))
            case "delete":
                table.delete(f"{names['i']} = {argument}")
            case "delete_keys":
                keys = pa.table({names["i"]: pa.array([argument], self.types["i"])})
                table.delete_keys(keys, [names["i"]])
            case "rename":
                self.renamed += 1
                self.rename(argument, f"c{self.renamed}")
            case "swap":
                v, w = names["v"], names["w"]
                self.rename("v", "aside")
                self.rename("w", v)
                self.rename("v", w)
            case "promote":
                kind, self.types[argument] = WIDER[argument]
                table.update_schema().update_column(names[argument], kind).commit()
            case "optional":
                table.update_schema().make_column_optional(names["i"]).commit()
                self.optional = True
            case "add":
                self.renamed += 1
                table.update_schema().add_column(f"c{self.renamed}", LongType()).commit()
            case "branch":
                head = table.current_snapshot()
                if head is not None and "side" not in table.refs():
                    table.manage_snapshots().create_branch(head.snapshot_id, "side").commit()
                table.append(self.rows(argument), branch="side")
            case "fast_forward":
                table.manage_snapshots().fast_forward("main", "side").commit()
            case "rollback":
                ids = [s.snapshot_id for s in table.metadata.ancestors(table.metadata.current_snapshot_id)]
                table.manage_snapshots().rollback_to_snapshot(ids[argument % len(ids)]).commit()
            case "spec":
                term = argument.replace("v", names["v"]).replace("w", names["w"]).replace("i)", f"{names['i']})")
                table.update_spec().add_field(term, partition_field_name=f"p{len(table.specs())}").commit()
            case "compact":
                table.rewrite_data_files(options={"rewrite-all": "true"})
            case "upgrade":
                table.upgrade(3)

    def rename(self, column: str, new: str) -> None:
        self.table.update_schema().rename_column(self.names[column], new).commit()
        self.names[column] = new


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@examples(2, new=35)
@example([("append", 1), ("rename", "i")], [], ["bucket(2, {i}) = 1"])
@given(
    history=st.lists(step, min_size=2, max_size=9),
    partition=st.sampled_from(PARTITIONS),
    templates=st.lists(st.sampled_from(FILTERS), min_size=1, max_size=3, unique=True),
)
def test_named_plans_are_of_their_columns(
    mode: str, history: list[tuple[str, Any]], partition: list[str], templates: list[str]
) -> None:
    """After each step the plan is the one that a scan makes of the filter with the names that its columns have now."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        catalog.create_namespace("ns")
        schema = pa.schema([pa.field(n, t, nullable=n != "i") for n, t in FIELDS.items()])
        table = catalog.create_table(
            "ns.t", schema, partition_spec=partition, format_version=2, properties={"write.delete.mode": mode}
        )
        made = History(table)
        made.apply("append", 5)
        made.apply("branch", 6)
        plans = [(t, ref) for t in templates for ref in (None, "side")]
        for number, (template, ref) in enumerate(plans):
            table.prefetch(made.filter(template), name=str(number), ref=ref, selected_fields=("v", "i"))
        for action, argument in history:
            with contextlib.suppress(IcecoreError):
                made.apply(action, argument)
            for number, (template, ref) in enumerate(plans):
                fresh = table.scan(made.filter(template), ref=ref, selected_fields=(made.names["v"], made.names["i"]))
                plan = table.named_plan(str(number))
                assert described(plan.plan_files()) == described(fresh.plan_files()), (action, template)
                assert rows_of(plan.scan) == rows_of(fresh), (action, template)
                assert table.named_plan(str(number)).manifests_evaluated == 0


def rows_of(scan: icecore.DataScan) -> list[str]:
    return sorted(map(repr, scan.to_arrow().to_pylist()))
