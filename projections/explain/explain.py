"""Explanations: the reason why each data file of a scan is in its plan, or is not, by the plan's own conditions."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from attrs import define, field

from icecore.engine.common.lazy_property import lazy_property
from icecore.engine.common.text import rows_html, short_repr
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.sql.sql_text import expression_text
from icecore.engine.metadata.fold import TableState
from icecore.engine.queries import duck
from icecore.engine.queries.duck import Statement
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.schema import Schema
from icecore.projections.explain.explain_text import plain_count
from icecore.projections.explain.explained_files import (
    MANIFEST,
    METRICS,
    PARTITION,
    PLANNED,
    REASONS,
    ExplainedFiles,
    explained_files,
)
from icecore.projections.plan.planned_files import PlanCounts
from icecore.projections.plan.planner import Planner

EXPLAIN_SCHEMA = pa.schema(
    [
        ("file_path", pa.string()),
        ("manifest_path", pa.string()),
        ("spec_id", pa.int32()),
        ("partition", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("reason", pa.string()),
        ("predicate", pa.string()),
        ("field", pa.string()),
        ("known", pa.string()),
        ("residual", pa.string()),
        ("delete_files", pa.int64()),
    ]
)
SUMMARY_SCHEMA = pa.schema(
    [
        ("reason", pa.string()),
        ("predicate", pa.string()),
        ("field", pa.string()),
        ("manifests", pa.int64()),
        ("files", pa.int64()),
        ("records", pa.int64()),
    ]
)
_WORDS = {
    MANIFEST: "left out by manifest summaries",
    PARTITION: "left out by partition",
    METRICS: "left out by column metrics",
    PLANNED: "planned",
}


@define(slots=False)
class Explanation:
    """The reason why each live data file is planned or not.

    `files` has a row for each (see EXPLAIN_SCHEMA). `reason` is `planned`, or what left the file out: `manifest` (the
    summaries of its manifest), `partition` or `metrics`. `predicate` is the part of the filter that no row of the file
    can satisfy, `field` the partition field or column that says so, `known` what is known of it. Of a planned file
    `residual` is what is left of the filter, and `known` names bounds that are gone by `Table.forget`, which might have
    left it out. `statements` is the SQL that the plan ran.
    """

    __repr__ = short_repr

    row_filter: Expression
    counts: PlanCounts
    statements: tuple[Statement, ...]
    _explained: ExplainedFiles | None = field(repr=False)

    @lazy_property
    def files(self) -> pa.Table:
        """A row for each live data file (see EXPLAIN_SCHEMA)."""
        if self._explained is None:
            return EXPLAIN_SCHEMA.empty_table()
        return self._explained.to_arrow().select(EXPLAIN_SCHEMA.names).cast(EXPLAIN_SCHEMA)

    def to_arrow(self) -> pa.Table:
        """A row for each live data file, as in `files`."""
        return self.files

    @lazy_property
    def summary(self) -> pa.Table:
        """Files and records by reason, predicate and field (see SUMMARY_SCHEMA), in the order of planning."""
        sums = [] if self._explained is None else self._explained.sums()
        ordered = sorted(sums, key=lambda row: (REASONS.index(row[0][0]), -row[2], str(row[0])))
        rows = [dict(zip(SUMMARY_SCHEMA.names, (*key, *counts), strict=True)) for key, *counts in ordered]
        return pa.Table.from_pylist(rows, schema=SUMMARY_SCHEMA)

    @property
    def sql(self) -> str:
        """The statements that the plan ran, one after another, with the values that were bound as comments."""
        parts = []
        for s in self.statements:
            bound = "".join(f"-- ${name} = {value!r}\n" for name, value in s.parameters.items())
            parts.append(f"{bound}{s.sql.strip()};")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        """The summary in a notebook."""
        return rows_html(("explanation",), [(line,) for line in str(self).split("\n")])

    def __str__(self) -> str:
        """The summary in words."""
        lines = [f"filter: {expression_text(self.row_filter)}"]
        total = sum(self.summary["files"].to_pylist())
        records = sum(self.summary["records"].to_pylist())
        lines.append(f"{plain_count(total, 'file')} with {plain_count(records, 'row')}")
        for reason in REASONS:
            rows = [r for r in self.summary.to_pylist() if r["reason"] == reason]
            if not rows:
                continue
            files, found = (sum(r[n] for r in rows) for n in ("files", "records"))
            lines.append(f"{_WORDS[reason]}: {plain_count(files, 'file')}, {plain_count(found, 'row')}")
            for r in rows if reason != PLANNED else ():
                by = f" by {r['field']}" if r["field"] else ""
                lines.append(f"  {r['predicate']}{by}: {plain_count(r['files'], 'file')}")
        left = 0 if self._explained is None else self._explained.left_to_filter()
        if left:
            lines.append(f"  a filter is left to apply to {plain_count(left, 'file')}")
        return "\n".join(lines)


def explain(
    planner: Planner,
    state: TableState,
    listed: Sequence[ListedManifest],
    bound: Expression,
    schema: Schema,
    entries: str = "TRUE",
) -> Explanation:
    """Plans over the manifests, and explains why every file is planned or not. The arguments are `plan_manifests`'.

    Entries of manifests that the plan does not look into are loaded too, so this costs more than a plan.
    """
    with duck.recording() as statements:
        planned = planner.plan_manifests(state, listed, bound, schema, entries)
    live = [m for m in listed if m.manifest.content is ManifestContent.DATA and m.manifest.has_live_files]
    forgotten = planner.forgotten(state.stream)
    found = planner.over_manifests(
        state, live, lambda con, table: explained_files(con, table, planned, entries, forgotten)
    )
    return Explanation(bound, planned.counts, tuple(statements), found)
