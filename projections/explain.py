"""Why each data file of a scan is in its plan, or is not. The plan's own conditions are asked one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import duckdb
import pyarrow as pa
from attrs import define, field

from icecore.engine.expression.nodes import (
    TRUE,
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundTerm,
    Expression,
    Not,
    Or,
    Predicate,
)
from icecore.engine.expression.project import project_inclusive
from icecore.engine.expression.text import expression_text
from icecore.engine.expression.walk import predicates
from icecore.engine.formats.entry_arrow import decode_partition
from icecore.engine.lazily import lazily
from icecore.engine.manifest_changes import ListedManifest
from icecore.engine.spec.content_file import ManifestContent
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.sql_files import query, quote
from icecore.engine.state import TableState
from icecore.projections import duck
from icecore.projections.duck import Statement
from icecore.projections.entry_table import EntryTable
from icecore.projections.entry_typing import METRIC_PREFIXES
from icecore.projections.explain_text import known_metrics, known_summary, plain_count
from icecore.projections.manifest_pruning import leaves_in_manifests
from icecore.projections.planner import PlanCounts, PlannedFiles, Planner
from icecore.projections.predicate import PlanPredicate, plan_predicate, residual

MANIFEST, PARTITION, METRICS, PLANNED = "manifest", "partition", "metrics", "planned"
REASONS = (MANIFEST, PARTITION, METRICS, PLANNED)

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
    """Why each live data file is planned or not.

    `files` has a row for each (see EXPLAIN_SCHEMA). `reason` is `planned`, or what left the file out: `manifest` (the
    summaries of its manifest), `partition` or `metrics`. `predicate` is the part of the filter that no row of the file
    can satisfy, `field` the partition field or column that says so, `known` what is known of it; of a planned file
    `residual` is what is left of the filter. `statements` is the SQL that the plan ran.
    """

    row_filter: Expression
    counts: PlanCounts
    statements: tuple[Statement, ...]
    files: pa.Table = field(repr=False)

    def to_arrow(self) -> pa.Table:
        return self.files

    @lazily
    def summary(self) -> pa.Table:
        """Files and records by reason, predicate and field (see SUMMARY_SCHEMA), in the order of planning."""
        groups: dict[tuple[str, str | None, str | None], list[Any]] = defaultdict(lambda: [set(), 0, 0])
        names = ("reason", "predicate", "field", "manifest_path", "record_count")
        for reason, predicate, name, manifest, records in zip(*(self.files[n].to_pylist() for n in names), strict=True):
            group = groups[reason, predicate, name]
            group[0].add(manifest)
            group[1] += 1
            group[2] += records
        ordered = sorted(groups.items(), key=lambda g: (REASONS.index(g[0][0]), -g[1][1], str(g[0])))
        rows = [(*key, len(manifests), files, records) for key, (manifests, files, records) in ordered]
        return pa.Table.from_pylist(
            [dict(zip(SUMMARY_SCHEMA.names, row, strict=True)) for row in rows], schema=SUMMARY_SCHEMA
        )

    @property
    def sql(self) -> str:
        """The statements that the plan ran, one after another, with the values that were bound as comments."""
        parts = []
        for s in self.statements:
            bound = "".join(f"-- ${name} = {value!r}\n" for name, value in s.parameters.items())
            parts.append(f"{bound}{s.sql.strip()};")
        return "\n\n".join(parts)

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
        left = sum(r is not None and r != "TRUE" for r in self.files["residual"].to_pylist())
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
    """Plans over the manifests, and says of every file why it is planned or not. The arguments are `plan_manifests`'.

    Entries of manifests that the plan does not look into are loaded too, so this costs more than a plan.
    """
    with duck.recording() as statements:
        planned = planner.plan_manifests(state, listed, bound, schema, entries)
    live = [m for m in listed if m.manifest.content is ManifestContent.DATA and m.manifest.has_live_files]
    files = planner.over_manifests(state, live, lambda con, table: _files(con, table, live, planned, entries))
    return Explanation(bound, planned.counts, tuple(statements), files)


@define
class _Reasons:
    """Finds the reasons of files; each combination of what holds is worked out once."""

    bound: Expression
    leaves: tuple[Predicate, ...]
    specs: Mapping[int, PartitionSpec]
    schema: Schema
    _known: dict[Any, tuple[str, str | None, tuple[int, ...]]] = field(factory=dict)

    def of(self, reason: str, flags: tuple[bool, ...], spec_id: int) -> tuple[str, str | None, tuple[int, ...]]:
        """The predicate as text, the names of the fields, and the ids of the columns that leave a file out."""
        key = (reason, flags, spec_id)
        if key not in self._known:
            might = dict(zip(self.leaves, flags, strict=True))
            # Leaves one by one allow for more than all together where values of several can't meet.
            blamed = blame(self.bound, might)
            blamed = tuple(dict.fromkeys(self.leaves if blamed is None else blamed))
            terms = {p.term.field.field_id: p.term for p in blamed if isinstance(p.term, BoundTerm)}
            if reason == METRICS:
                names = [t.name for t in terms.values()]
            else:
                names = list(dict.fromkeys(n for p in blamed for n in self._partition_fields(p, spec_id)))
            text = " OR ".join(expression_text(p) for p in blamed) or expression_text(self.bound)
            self._known[key] = (text, ", ".join(names) or None, tuple(terms))
        return self._known[key]

    def _partition_fields(self, p: Predicate, spec_id: int) -> list[str]:
        spec = self.specs[spec_id]
        return [f.name for f in spec.fields if project_inclusive(p, PartitionSpec((f,), spec_id), self.schema) != TRUE]


def blame(e: Expression, might: Mapping[Predicate, bool]) -> tuple[Predicate, ...] | None:
    """The fewest leaves that make an expression false where these are; None where it may hold."""
    match e:
        case AlwaysTrue():
            return None
        case AlwaysFalse():
            return ()
        case Predicate():
            return None if might[e] else (e,)
        case And(children=children):
            found = [b for b in (blame(c, might) for c in children) if b is not None]
            return min(found, key=len) if found else None
        case Or(children=children):
            parts = [blame(c, might) for c in children]
            return None if any(p is None for p in parts) else tuple(p for part in parts for p in part or ())
        case Not():
            return None
        case _:
            assert_never(e)


def _files(
    connection: duckdb.DuckDBPyConnection,
    table: EntryTable,
    live: Sequence[ListedManifest],
    planned: PlannedFiles,
    entries: str,
) -> pa.Table:
    if not table.columns or not live:
        return EXPLAIN_SCHEMA.empty_table()
    metadata, schema, bound = planned.state.metadata, planned.schema, planned.bound
    leaves = predicates(bound)
    flags = leaves_in_manifests(connection, live, leaves, metadata.specs, schema, table.schema)
    might = {m.manifest.manifest_path: f for m, f in zip(live, flags, strict=True)}
    by_number = {table.numbers[m.manifest.manifest_path]: m for m in live}
    by_metrics = plan_predicate(bound, metadata.specs, schema, table.columns)
    rows = _explained(connection, table, planned, by_metrics, leaves, entries)
    reasons = _Reasons(bound, leaves, metadata.specs, schema)
    deletes = _delete_counts(planned)
    partitions: dict[Any, str] = {}
    out = []
    for row in rows.to_pylist():
        listed, spec_id = by_number[row["m"]], row["spec_id"]
        spec = metadata.specs[spec_id]
        key = (spec_id, tuple(row["partition"] or ()))
        if key not in partitions:
            values = decode_partition(spec, metadata.all_fields, row["partition"])
            partitions[key] = spec.partition_to_path(values, metadata.all_fields)
        found: dict[str, Any] = {
            **{n: row[n] for n in ("file_path", "spec_id", "record_count", "file_size_in_bytes")},
            "manifest_path": listed.manifest.manifest_path,
            "partition": partitions[key],
        }
        manifest_flags = might[listed.manifest.manifest_path]
        if bound != TRUE and blame(bound, dict(zip(leaves, manifest_flags, strict=True))) is not None:
            predicate, name, ids = reasons.of(MANIFEST, manifest_flags, spec_id)
            known = known_summary(listed.manifest, spec, ids, metadata.all_fields)
            found |= {"reason": MANIFEST, "predicate": predicate, "field": name, "known": known}
        elif not row["by_partition"]:
            predicate, name, _ = reasons.of(PARTITION, tuple(row["partition_leaves"]), spec_id)
            found |= {"reason": PARTITION, "predicate": predicate, "field": name, "known": partitions[key]}
        elif not row["by_metrics"]:
            predicate, name, ids = reasons.of(METRICS, tuple(row["leaves"]), spec_id)
            found |= {"reason": METRICS, "predicate": predicate, "field": name}
            found["known"] = known_metrics(row, ids, schema)
        else:
            left = residual(bound, _number(row["leaves"]), _number(row["surely"]))
            found |= {"reason": PLANNED, "residual": expression_text(left)}
            found["delete_files"] = deletes.get(row["file_path"], 0)
        out.append(found)
    return pa.Table.from_pylist(out, schema=EXPLAIN_SCHEMA)


def _explained(
    connection: duckdb.DuckDBPyConnection,
    table: EntryTable,
    planned: PlannedFiles,
    by_metrics: PlanPredicate,
    leaves: Sequence[Predicate],
    entries: str,
) -> pa.Table:
    """A row for each live data file of the manifests, with what its partition and its metrics say."""
    parts = {n: t for n, t in table.columns.items() if n.startswith("part_") or n == "spec_id"}
    by_partition = plan_predicate(planned.bound, planned.state.metadata.specs, planned.schema, parts)
    # Both number their parameters from p0: those of one are renamed.
    renamed = {name: f"q{name[1:]}" for name in by_partition.parameters}
    ids = {p.term.field.field_id for p in leaves if isinstance(p.term, BoundTerm)}
    known = [n for i in sorted(ids) for n in (f"{p}_{i}" for p in METRIC_PREFIXES) if n in table.columns]
    partition_sql = [_renamed(sql) for sql in (by_partition.where_sql, *by_partition.leaf_might)]
    sql = query("plan/explain.sql", "explained").format(
        entries=table.name,
        only=entries,
        by_partition=partition_sql[0],
        by_metrics=by_metrics.where_sql,
        partition_leaves=_flags(partition_sql[1:]),
        leaves=_flags(by_metrics.leaf_might),
        surely=_flags(by_metrics.leaf_all),
        known="".join(f", e.{quote(n)}" for n in known),
    )
    parameters = {
        **by_metrics.parameters_of(by_metrics.where_sql, *by_metrics.leaf_might, *by_metrics.leaf_all),
        **{
            renamed[n]: v
            for n, v in by_partition.parameters_of(by_partition.where_sql, *by_partition.leaf_might).items()
        },
    }
    return duck.arrow(connection, sql, parameters)


def _renamed(sql: str) -> str:
    return sql.replace("$p", "$q")


def _flags(conditions: Sequence[str]) -> str:
    return f"[{', '.join(conditions)}]::BOOLEAN[]"


def _number(flags: Sequence[bool]) -> int:
    return sum(1 << i for i, flag in enumerate(flags) if flag)


def _delete_counts(planned: PlannedFiles) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    each = planned.pairs.counts(planned.files.num_rows).tolist()
    for path, count in zip(planned.files["file_path"].to_pylist(), each, strict=True):
        counts[path] += count
    return counts
