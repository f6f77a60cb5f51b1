"""Manifest pruning: the manifests that a scan has to open, by the summaries in the manifest list (Spec: SP1)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import duckdb
import numpy as np
import pyarrow as pa

from icecore.engine.errors import CorruptFileError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import TRUE, Expression, Predicate
from icecore.engine.expression.sql.fragment import ALWAYS, BoundParameters
from icecore.engine.formats import arrays
from icecore.engine.formats.typed_values import typed_values
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.spec.content_file import FieldSummary
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.projections.entries.wide_entries import drop_inverted
from icecore.projections.plan.predicate import manifest_predicate


def matching_manifests(
    connection: duckdb.DuckDBPyConnection,
    manifests: Sequence[ListedManifest],
    bound: Expression,
    specs: dict[int, PartitionSpec],
    schema: Schema,
    all_fields: Schema,
) -> list[ListedManifest]:
    """The manifests with live files that may have a file of interest, in order.

    `schema` is the one that the filter is bound to, `all_fields` types partition values. A manifest without summaries
    is kept. Raises CorruptFileError for one of a partition spec that is not among `specs`.
    """
    live = [m for m in manifests if m.manifest.has_live_files]
    if (lost := next((m.manifest for m in live if m.manifest.partition_spec_id not in specs), None)) is not None:
        known = f"the table has {sorted(specs)}"
        raise CorruptFileError(f"{lost.manifest_path} is listed as one of spec {lost.partition_spec_id}, {known}")
    if bound == TRUE:
        return live
    by_spec: dict[int, list[int]] = defaultdict(list)
    keep: set[int] = set()
    for i, listed in enumerate(live):
        spec = specs[listed.manifest.partition_spec_id]
        partitions = listed.manifest.partitions
        if partitions is None or len(partitions) != len(spec.fields):
            keep.add(i)
        else:
            by_spec[spec.spec_id].append(i)
    for spec_id, indexes in by_spec.items():
        where = manifest_predicate(bound, specs[spec_id], schema)
        if where == ALWAYS:
            keep.update(indexes)
            continue
        summaries = _summaries([live[i] for i in indexes], indexes, specs[spec_id], all_fields)
        connection.register("summaries", summaries)
        try:
            parameters = BoundParameters()
            sql = query("plan/files.sql", "manifests_in_scan", where=parameters.write(where))
            keep.update(row[0] for row in duck.rows(connection, sql, parameters.values))
        finally:
            connection.unregister("summaries")
    return [m for i, m in enumerate(live) if i in keep]


def leaves_in_manifests(
    connection: duckdb.DuckDBPyConnection,
    manifests: Sequence[ListedManifest],
    leaves: Sequence[Predicate],
    specs: dict[int, PartitionSpec],
    schema: Schema,
    all_fields: Schema,
) -> list[tuple[bool, ...]]:
    """Flags of each manifest: which leaves of a filter some of its files may satisfy, by its summaries."""
    found: list[list[bool]] = [[True] * len(leaves) for _ in manifests]
    for position, leaf in enumerate(leaves):
        kept = {id(m) for m in matching_manifests(connection, manifests, leaf, specs, schema, all_fields)}
        for flags, listed in zip(found, manifests, strict=True):
            flags[position] = id(listed) in kept
    return [tuple(flags) for flags in found]


def _summaries(
    manifests: Sequence[ListedManifest], indexes: Sequence[int], spec: PartitionSpec, schema: Schema
) -> pa.Table:
    """One row a manifest, five columns a partition field."""
    columns: dict[str, pa.Array] = {"i": arrays.numbers(indexes)}
    for position, f in enumerate(spec.fields):
        result = f.result_type(schema)
        of_field: list[FieldSummary] = [m.manifest.partitions[position] for m in manifests if m.manifest.partitions]
        prefix = f"pf{position}"
        columns[f"{prefix}_contains_null"] = arrays.optional_booleans([s.contains_null for s in of_field])
        columns[f"{prefix}_contains_nan"] = arrays.optional_booleans([s.contains_nan for s in of_field])
        no_bounds = [s.lower_bound is None and s.upper_bound is None for s in of_field]
        columns[f"{prefix}_no_bounds"] = arrays.booleans(np.array(no_bounds, np.bool_))
        for name in ("lower", "upper"):
            raw = arrays.optional_bytes(getattr(s, f"{name}_bound") for s in of_field)
            columns[f"{prefix}_{name}"] = typed_values(result, raw, nan_is_null=True, is_partition=True)
        drop_inverted(columns, result, [f"{prefix}_lower", f"{prefix}_upper"])
    return pa.table(columns)
