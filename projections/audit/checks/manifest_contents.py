"""The rows of `manifest_contents`: what lists say of manifests beside what their entries come to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.commit.manifest_summary import field_summaries
from icecore.engine.errors import IcecoreError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats.entry_arrow import METRICS
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import FieldSummary, ManifestEntryStatus
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import UnknownTransform
from icecore.engine.spec.types import PrimitiveType, UUIDType
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.audited_tables import signed
from icecore.projections.audit.file_rows import entries_of
from icecore.projections.entries.wide_entries import inherit, inherit_all
from icecore.projections.history.logged_tables import NAMED
from icecore.projections.inspect.entry_batches import faults_told

_STATUSES = {
    "added": ManifestEntryStatus.ADDED,
    "existing": ManifestEntryStatus.EXISTING,
    "deleted": ManifestEntryStatus.DELETED,
}
COUNTED = [f"{status}_{what}" for what in ("files", "rows") for status in _STATUSES]
MANIFEST_CONTENTS = pa.schema(
    [
        *NAMED,
        ("manifest_path", pa.string()),
        ("content", pa.string()),
        ("partition_spec_id", pa.int32()),
        ("added_snapshot_id", pa.int64()),
        ("sequence_number", pa.int64()),
        ("min_sequence_number", pa.int64()),
        ("min_sequence_number_found", pa.int64()),
        ("misnumbered_files", pa.int64()),
        *((f"{name}_count", pa.int64()) for name in COUNTED),
        *((f"{name}_found", pa.int64()) for name in COUNTED),
        ("summaries_hold", pa.bool_()),
    ]
)
_AT_ONCE = 64
"""The manifests whose entries are completed together, few enough for memory."""
_LEFT_OUT = frozenset({*METRICS, "split_offsets", "equality_ids", "sort_order_id"})


def manifest_contents(of: AuditedRows) -> pa.Table:
    """The rows of `manifest_contents`."""
    return of.of(MANIFEST_CONTENTS, lambda table: _rows(of.log.repository, table))


def _rows(repository: Repository, table: Table) -> Iterator[dict[str, Any]]:
    state = table.state
    listed = entries_of(table).all_listed()
    read = repository.entries.canonical_all(state.stream, listed, repository.storage_of(state), _LEFT_OUT)
    with faults_told(state):
        pairs = zip(listed, read, strict=True)
        while some := list(islice(pairs, _AT_ONCE)):
            yield from (_row(state, each, entries) for each, entries in _completed(some))


def _completed(some: Sequence[tuple[ListedManifest, pa.Table]]) -> Iterator[tuple[ListedManifest, pa.Table]]:
    """Manifests with their entries and what these inherit, all at once where none is at fault."""
    counts = [len(entries) for _, entries in some]
    try:
        whole = inherit_all(pa.concat_tables([t for _, t in some]), [each.manifest for each, _ in some], counts)
    except IcecoreError:
        yield from ((each, inherit(entries, each.manifest)) for each, entries in some)
        return
    ends = accumulate(counts)
    yield from ((each, whole.slice(end - n, n)) for (each, _), n, end in zip(some, counts, ends, strict=True))


def _row(state: TableState, listed: ListedManifest, entries: pa.Table) -> dict[str, Any]:
    m = listed.manifest
    live = entries.filter(pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)))
    return {
        "manifest_path": m.manifest_path,
        "content": m.content.name.lower(),
        "partition_spec_id": m.partition_spec_id,
        "added_snapshot_id": signed(m.added_snapshot_id),
        "sequence_number": m.sequence_number,
        "min_sequence_number": m.min_sequence_number,
        "min_sequence_number_found": pc.min(live["sequence_number"]).as_py(),
        "misnumbered_files": _misnumbered(live, m.sequence_number),
        **{f"{name}_count": getattr(m, f"{name}_count") for name in COUNTED},
        **_found(entries),
        "summaries_hold": _summaries_hold(m.partitions, live, state.metadata.specs.get(m.partition_spec_id), state),
    }


def _misnumbered(live: pa.Table, sequence_number: int) -> int:
    """The number of files that are newer than their manifest, or whose data is newer than they are."""
    data, file = live["sequence_number"], live["file_sequence_number"]
    wrong = pc.or_kleene(pc.greater(data, sequence_number), pc.greater(file, sequence_number))
    return pc.sum(pc.or_kleene(wrong, pc.greater(data, file))).as_py() or 0


def _found(entries: pa.Table) -> dict[str, int]:
    status, records = (entries[name].to_numpy() for name in ("status", "record_count"))
    found: dict[str, int] = {}
    for name, wanted in _STATUSES.items():
        rows = records[status == int(wanted)]
        found[f"{name}_files_found"], found[f"{name}_rows_found"] = len(rows), int(rows.sum())
    return found


def _summaries_hold(
    listed: tuple[FieldSummary, ...] | None, live: pa.Table, spec: PartitionSpec | None, state: TableState
) -> bool | None:
    """Whether a list's summaries hold all partitions of the live entries; None where that can't be told."""
    if listed is None or spec is None or any(isinstance(f.transform, UnknownTransform) for f in spec.fields):
        return None
    if not live.num_rows:
        return True
    schema: Schema = state.metadata.all_fields
    found = field_summaries(live["partition"], spec, schema)
    kinds = [f.result_type(schema) for f in spec.fields]
    return len(listed) == len(found) and all(map(_holds, kinds, listed, found))


def _holds(kind: PrimitiveType, said: FieldSummary, found: FieldSummary) -> bool:
    if (found.contains_null and not said.contains_null) or (found.contains_nan and said.contains_nan is False):
        return False
    if found.lower_bound is None or found.upper_bound is None:
        return True
    lower, upper = _value(kind, said.lower_bound), _value(kind, said.upper_bound)
    if lower is None or upper is None:
        return False
    least, most = _value(kind, found.lower_bound), _value(kind, found.upper_bound)
    if isinstance(kind, UUIDType):
        # Java has another order of these, and `metrics_predicate` takes both: they agree on first halves, or it shows.
        return bool(lower > upper or (lower.bytes[:8] <= least.bytes[:8] and most.bytes[:8] <= upper.bytes[:8]))
    return bool(lower <= least and most <= upper)


def _value(kind: PrimitiveType, bound: bytes | None) -> Any:
    value = None if bound is None else single_value.from_bytes(kind, bound)
    return None if isinstance(value, float) and math.isnan(value) else value
