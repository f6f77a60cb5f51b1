"""The data files of a plan with their reasons, as columns: a reason that files share is worked out once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.events.manifest_changes import ListedManifest
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
from icecore.engine.expression.sql.fragment import BoundParameters
from icecore.engine.expression.sql.sql_text import expression_text
from icecore.engine.expression.walk import predicates
from icecore.engine.formats import arrays
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query, quote
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.projections.explain.explain_text import forgotten_bounds, known_metrics, known_summary
from icecore.projections.inspect.live_files import partition_paths
from icecore.projections.plan.deletes.lost_values import telling_specs
from icecore.projections.plan.file_queries import partition_columns
from icecore.projections.plan.manifest_pruning import leaves_in_manifests
from icecore.projections.plan.planned_files import PlannedFiles
from icecore.projections.plan.predicate import plan_predicate
from icecore.projections.plan.residuals import residual
from icecore.projections.plan.wide_filters import bit_columns, from_bits
from icecore.projections.segments.entry_table import ScannedEntries
from icecore.projections.segments.entry_typing import METRIC_PREFIXES

MANIFEST, PARTITION, METRICS, PLANNED = "manifest", "partition", "metrics", "planned"
REASONS = (MANIFEST, PARTITION, METRICS, PLANNED)
Codes = npt.NDArray[np.int64]


@frozen
class Reason:
    """A reason why files are planned or not; `ids` are its columns, none where the files have no rows."""

    reason: str
    predicate: str | None = None
    field: str | None = None
    residual: str | None = None
    ids: tuple[int, ...] = ()


@define(slots=False)
class ExplainedFiles:
    """The live data files of some manifests, and the reason of each, as a place in `reasons`.

    `rows` has columns of their entries, with `m` as a place in `manifests` and the partition as a path; `metrics`
    has the metrics of the filter's columns. `_forgotten` is the position at which bounds were forgotten last, if any.
    """

    rows: pa.Table
    metrics: pa.Table
    manifests: Sequence[ListedManifest]
    reasons: Sequence[Reason]
    codes: Codes
    delete_files: pa.Array
    _specs: Mapping[int, PartitionSpec] = field(repr=False)
    _fields: Schema = field(repr=False)
    _schema: Schema = field(repr=False)
    _forgotten: str = ""

    def sums(self) -> list[tuple[tuple[str, str | None, str | None], int, int, int]]:
        """Manifests, files and records by reason, predicate and field."""
        keys = [(r.reason, r.predicate, r.field) for r in self.reasons]
        groups = list(dict.fromkeys(keys))
        codes = np.array([groups.index(k) for k in keys], np.int64)[self.codes]
        columns = {"group": arrays.numbers(codes), "m": self.rows["m"], "records": self.rows["record_count"]}
        sums = [("m", "count_distinct"), ("records", "count"), ("records", "sum")]
        found = pa.table(columns).group_by("group").aggregate(sums)
        names = ("group", "m_count_distinct", "records_count", "records_sum")
        return [(groups[g], *rest) for g, *rest in zip(*(found[n].to_pylist() for n in names), strict=True)]

    def left_to_filter(self) -> int:
        """The number of planned files to whose rows the filter has still to be applied."""
        is_left = [r.reason == PLANNED and r.residual != "TRUE" for r in self.reasons]
        return int(np.array(is_left, np.bool_)[self.codes].sum())

    def to_arrow(self) -> pa.Table:
        """A row for each file, with its metadata in words."""
        rows, places = self.rows, arrays.numbers(self.codes)
        paths = pa.array([m.manifest.manifest_path for m in self.manifests], pa.string())
        columns = {n: rows[n] for n in ("file_path", "spec_id", "partition", "record_count", "file_size_in_bytes")}
        columns["manifest_path"] = paths.take(rows["m"].combine_chunks())
        for name in ("reason", "predicate", "field", "residual"):
            columns[name] = pa.array([getattr(r, name) for r in self.reasons], pa.string()).take(places)
        columns["known"] = self._known()
        columns["delete_files"] = self.delete_files
        return pa.table(columns)

    def _known(self) -> pa.Array:
        """The metadata that is the reason of each file, in words."""
        out = np.full(len(self.codes), None, object)
        for code, reason in enumerate(self.reasons):
            places = np.flatnonzero(self.codes == code)
            chosen = arrays.numbers(places)
            if reason.reason == MANIFEST:
                out[places] = self._summaries(reason, chosen)
            elif reason.reason == PARTITION:
                out[places] = self.rows["partition"].take(chosen).to_pylist()
            elif reason.reason == METRICS and reason.field is None:
                out[places] = "no rows"
            elif reason.reason == METRICS:
                names = [n for n in self.metrics.column_names if int(n.rpartition("_")[2]) in reason.ids]
                rows = self.metrics.select(names).take(chosen).to_pylist()
                out[places] = [known_metrics(r, reason.ids, self._schema) for r in rows]
            elif self._forgotten:
                rows = self.metrics.take(chosen).to_pylist()
                out[places] = [forgotten_bounds(r, self._schema, self._forgotten) for r in rows]
        return pa.array(out.tolist(), pa.string())

    def _summaries(self, reason: Reason, chosen: pa.Array) -> list[str | None]:
        texts: dict[int, str | None] = {}
        numbers = self.rows["m"].take(chosen).to_pylist()
        for m in set(numbers):
            manifest = self.manifests[m].manifest
            texts[m] = known_summary(manifest, self._specs[manifest.partition_spec_id], reason.ids, self._fields)
        return [texts[m] for m in numbers]


def explained_files(
    connection: duckdb.DuckDBPyConnection,
    table: ScannedEntries,
    planned: PlannedFiles,
    entries: str,
    forgotten: str = "",
) -> ExplainedFiles | None:
    """The data files of the manifests that are scanned; None where there are none.

    `forgotten` is the position at which bounds of the table's files were forgotten last, empty where they never were.
    """
    live = table.scope.manifests
    if not table.columns or not live:
        return None
    metadata, schema, bound = planned.state.metadata, planned.schema, planned.bound
    leaves = predicates(bound)
    rows = _rows(connection, table, planned, leaves, entries)
    places = table.scope.places_of(rows["m"])
    # Manifests of which the summaries say the same are alike.
    flags = leaves_in_manifests(connection, live, leaves, telling_specs(metadata), schema, table.schema)
    different = {f: i for i, f in enumerate(dict.fromkeys(flags))}
    by_manifest = np.array([different[f] for f in flags], np.int64)[places]
    bits = {n: [c for c in rows.column_names if re.fullmatch(rf"{n}_bits_\d+", c)] for n in ("part", "might", "all")}
    kinds = ["spec_id", "is_empty", "by_partition", "by_metrics", *(c for names in bits.values() for c in names)]
    codes, first = _codes([arrays.numbers(by_manifest), *(rows[n] for n in kinds)])
    finder = _Finder(bound, leaves, telling_specs(metadata), schema)
    distinct = rows.select(kinds).take(arrays.numbers(first)).to_pylist()
    found = [
        finder.of(list(different)[i], row, {n: [row[c] for c in names] for n, names in bits.items()})
        for i, row in zip(by_manifest[first].tolist(), distinct, strict=True)
    ]
    reasons = list(dict.fromkeys(found))
    codes = np.array([reasons.index(f) for f in found], np.int64)[codes]
    entry_columns = {n: rows[n] for n in ("file_path", "spec_id", "record_count", "file_size_in_bytes")}
    entry_columns["m"] = pa.chunked_array([arrays.numbers(places)])
    entry_columns["partition"] = partition_paths(connection, table, metadata, rows["partition_key"])
    is_planned = arrays.booleans(np.array([r.reason == PLANNED for r in reasons], np.bool_)[codes])
    return ExplainedFiles(
        pa.table(entry_columns),
        rows.select([n for n in rows.column_names if n.startswith(tuple(f"{p}_" for p in METRIC_PREFIXES))]),
        live,
        reasons,
        codes,
        _delete_counts(planned, rows["file_path"], is_planned),
        metadata.specs,
        metadata.all_fields,
        schema,
        forgotten,
    )


def _codes(columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Codes, Codes]:
    """Equal numbers for rows that are equal in all columns, ascending from 0, and a row of each."""
    codes: Codes = np.zeros(len(columns[0]), np.int64)
    first: Codes = np.zeros(0, np.int64)
    for column in columns:
        encoded = (column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column).dictionary_encode()
        together = codes * len(encoded.dictionary) + arrays.to_numbers(encoded.indices)
        again = arrays.numbers(together).dictionary_encode()
        codes = arrays.to_numbers(again.indices).astype(np.int64)
    if len(codes):
        _, first = np.unique(codes, return_index=True)
    return codes, first


@define
class _Finder:
    """The search for the reasons that files have in common."""

    bound: Expression
    leaves: tuple[Predicate, ...]
    specs: Mapping[int, PartitionSpec]
    schema: Schema

    def of(self, in_manifest: tuple[bool, ...], row: Mapping[str, Any], bits: Mapping[str, Sequence[int]]) -> Reason:
        """The reason; `in_manifest` says which leaves may hold by summaries, `bits` by partition and by metrics."""
        if self.bound != TRUE and blame(self.bound, dict(zip(self.leaves, in_manifest, strict=True))) is not None:
            return self._left_out(MANIFEST, in_manifest, row["spec_id"])
        if not row["by_partition"]:
            return self._left_out(PARTITION, self._flags(bits["part"]), row["spec_id"])
        if row["is_empty"] and not row["by_metrics"]:
            return Reason(METRICS, expression_text(self.bound))
        if not row["by_metrics"]:
            return self._left_out(METRICS, self._flags(bits["might"]), row["spec_id"])
        left = residual(self.bound, from_bits(bits["might"]), from_bits(bits["all"]))
        return Reason(PLANNED, residual=expression_text(left))

    def _flags(self, bits: Sequence[int]) -> tuple[bool, ...]:
        number = from_bits(bits)
        return tuple(bool(number >> i & 1) for i in range(len(self.leaves)))

    def _left_out(self, reason: str, flags: Sequence[bool], spec_id: int) -> Reason:
        might = dict(zip(self.leaves, flags, strict=True))
        # Each leaf may hold alone where all together can't: then all of them are named.
        blamed = blame(self.bound, might)
        blamed = tuple(dict.fromkeys(self.leaves if blamed is None else blamed))
        terms = {p.term.field.field_id: p.term for p in blamed if isinstance(p.term, BoundTerm)}
        if reason == METRICS:
            names = [t.name for t in terms.values()]
        else:
            names = list(dict.fromkeys(n for p in blamed for n in self._partition_fields(p, spec_id)))
        text = " OR ".join(expression_text(p) for p in blamed) or expression_text(self.bound)
        return Reason(reason, text, ", ".join(names) or None, None, tuple(terms))

    def _partition_fields(self, p: Predicate, spec_id: int) -> list[str]:
        spec = self.specs[spec_id]
        return [f.name for f in spec.fields if project_inclusive(p, PartitionSpec((f,), spec_id), self.schema) != TRUE]


def blame(e: Expression, might: Mapping[Predicate, bool]) -> tuple[Predicate, ...] | None:
    """The fewest leaves that make an expression false by being false; None where it may hold."""
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


def _rows(
    connection: duckdb.DuckDBPyConnection,
    table: ScannedEntries,
    planned: PlannedFiles,
    leaves: Sequence[Predicate],
    entries: str,
) -> pa.Table:
    """A row for each live data file of the manifests, with what its partition and its metrics say."""
    specs, bound, schema = telling_specs(planned.state.metadata), planned.bound, planned.schema
    by_metrics = plan_predicate(bound, specs, schema, table.columns)
    parts = partition_columns(table.columns)
    by_partition = plan_predicate(bound, specs, schema, parts)
    parameters = BoundParameters()
    ids = {p.term.field.field_id for p in leaves if isinstance(p.term, BoundTerm)}
    known = [n for i in sorted(ids) for n in (f"{p}_{i}" for p in METRIC_PREFIXES) if n in table.columns]
    sql = query(
        "plan/explain.sql",
        "explained",
        entries=table.name,
        only=entries,
        by_partition=parameters.write(by_partition.where),
        by_metrics=parameters.write(by_metrics.where),
        partition_leaves=parameters.write(bit_columns("part_bits", by_partition.leaf_might)),
        leaves=parameters.write(bit_columns("might_bits", by_metrics.leaf_might)),
        surely=parameters.write(bit_columns("all_bits", by_metrics.leaf_all)),
        known="".join(f", e.{quote(n)}" for n in known),
    )
    return duck.arrow(connection, sql, parameters.values)


def _delete_counts(planned: PlannedFiles, paths: pa.ChunkedArray, is_planned: pa.BooleanArray) -> pa.Array:
    """The number of delete files of each planned file."""
    found = pa.repeat(pa.scalar(0, pa.int64()), len(paths))
    if len(planned.pairs):
        each = arrays.numbers(planned.pairs.counts(planned.files.num_rows))
        found = each.take(pc.index_in(paths, planned.files["file_path"]).combine_chunks()).fill_null(0)
    return pc.if_else(is_planned, found, pa.scalar(None, pa.int64()))
