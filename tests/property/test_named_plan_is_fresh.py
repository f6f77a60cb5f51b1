"""A named plan is always the plan that would be made anew, and looks into what commits brought."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import Any

import pytest
from budgets import examples
from core_tables import respec
from histories import CONDITIONS, LAYOUTS, SPECS, apply, canonical, make_table, rows, step
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.scan.exported_plan import load_plan

more_steps = st.lists(
    st.one_of(
        step,
        step,
        st.tuples(st.just("rollback"), st.integers(0, 9)),
        st.tuples(st.just("spec"), st.sampled_from(SPECS)),
        st.tuples(st.just("column"), st.none()),
        st.tuples(st.just("upgrade"), st.none()),
        st.tuples(st.just("expire"), st.integers(0, 9)),
    ),
    min_size=1,
    max_size=7,
)


def described(tasks: Sequence[FileScanTask]) -> list[Any]:
    """All that tasks say, in an order of their own; the order of delete files means nothing."""
    return sorted(
        repr((t.file, sorted(map(repr, t.delete_files)), t.residual, t.start, t.length, t.data_sequence_number))
        for t in tasks
    )


def change(table: icecore.Table, action: str, argument: Any) -> None:
    match action:
        case "rollback":
            ids = [s.snapshot_id for s in table.metadata.ancestors(table.metadata.current_snapshot_id)]
            if ids:
                table.manage_snapshots().rollback_to_snapshot(ids[argument % len(ids)]).commit()
        case "spec":
            respec(table, argument)
        case "column":
            table.update_schema().rename_column("x", "y").commit()
            table.update_schema().rename_column("y", "x").commit()
        case "upgrade":
            table.upgrade(3)
        case "expire":
            current = table.metadata.current_snapshot_id
            others = [s.snapshot_id for s in table.snapshots() if s.snapshot_id != current]
            if others:
                table.maintenance.expire_snapshots().by_id(others[argument % len(others)]).commit()
        case _:
            apply(table, action, argument)


@pytest.mark.parametrize(("format_version", "mode"), LAYOUTS)
@examples(4, new=56)
@given(first=rows, history=more_steps, spec=st.sampled_from(SPECS), condition=st.sampled_from([*CONDITIONS, "x > 1"]))
def test_a_named_plan_is_the_plan_made_anew(
    format_version: int,
    mode: str,
    first: list[dict[str, Any]],
    history: list[tuple[str, Any]],
    spec: list[str],
    condition: str,
) -> None:
    """After any commit, evolution, rollback and expiry, in the same process and in another."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder) as catalog:
        table = make_table(catalog, spec, format_version, mode)
        table.prefetch(condition, name="kept")
        for action, argument in [("append", first), *history]:
            change(table, action, argument)
            plan = table.named_plan("kept")
            fresh = table.scan(condition)
            assert described(plan.plan_files()) == described(fresh.plan_files()), action
            assert plan.manifests_evaluated + plan.manifests_reused == sum(
                m.manifest.has_live_files for m in table.manifests()
            )
            again = table.named_plan("kept")
            assert again.manifests_evaluated == 0
            assert described(again.plan_files()) == described(fresh.plan_files())
        assert canonical(plan.scan.to_arrow()) == canonical(fresh.to_arrow())
        with icecore.open(folder, read_only=True) as other:
            theirs = other.load_table("ns.t").named_plan("kept")
            assert theirs.manifests_evaluated == 0
            assert described(theirs.plan_files()) == described(fresh.plan_files())
            assert len(list(theirs.to_json_lines())) == len(fresh.plan_files())
        plan.export(f"{folder}/plan")
        exported = load_plan(f"{folder}/plan")
        assert described(exported.tasks) == described([t.slim() for t in fresh.plan_files()])
        assert (exported.row_filter, exported.projection) == (fresh.row_filter, fresh.projection)
