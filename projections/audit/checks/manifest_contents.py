"""The rows of `manifest_contents`: what lists say of manifests beside what their entries come to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.commit.manifest_summary import field_summaries
from icecore.engine.common.ids import signed
from icecore.engine.errors import IcecoreError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.formats import arrays
from icecore.engine.formats.arrays import Mask
from icecore.engine.formats.binary_columns import Ints
from icecore.engine.formats.entry_arrow import METRICS
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import FieldSummary, ManifestEntryStatus
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import UnknownTransform
from icecore.engine.spec.types import PrimitiveType, UUIDType
from icecore.engine.table.table import Table
from icecore.projections.audit.audited_rows import AuditedRows
from icecore.projections.audit.audited_tables import AuditedTable
from icecore.projections.entries.wide_entries import inherit, inherit_all
from icecore.projections.history.logged_tables import NAMED
from icecore.projections.inspect.entry_batches import faults_told
from icecore.projections.segments.entry_expansion import expected_rows
from icecore.projections.segments.entry_faults import FAULTS

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
_TOLD = (
    "partition_spec_id",
    "sequence_number",
    "min_sequence_number",
    *(f"{name}_count" for name in COUNTED),
    "partitions",
)
_AT_ONCE = 64
"""The manifests whose entries are completed together, few enough for memory."""
FEW_ENTRIES = 2_000
"""A table with more entries is read by itself, `_AT_ONCE` manifests at a time."""
_LEFT_OUT = frozenset({*METRICS, "split_offsets", "equality_ids", "sort_order_id"})


@frozen(eq=False)
class _Contents:
    """The manifests of all snapshots of a table, and their entries as they are read."""

    state: TableState
    listed: Sequence[ListedManifest]
    read: Iterator[pa.Table]

    @property
    def pairs(self) -> Iterator[tuple[TableState, ListedManifest, pa.Table]]:
        """Each manifest with its entries."""
        return ((self.state, each, entries) for each, entries in zip(self.listed, self.read, strict=True))


_Pairs = Sequence[tuple[TableState, ListedManifest, pa.Table]]


def manifest_contents(of: AuditedRows) -> pa.Table:
    """The rows of `manifest_contents`, of tables with few entries made together."""
    found: list[dict[str, Any]] = []
    waiting: list[tuple[AuditedTable, _Pairs]] = []
    size = 0
    for audited, few in of.each(lambda table: _few(of.log.repository, table)):
        waiting.append((audited, few))
        # A table without manifests counts, too, as it may be one that is told alone.
        size += max(len(few), 1)
        if size >= _AT_ONCE:
            found += _made(of, waiting)
            waiting, size = [], 0
    return pa.Table.from_pylist([*found, *_made(of, waiting)], schema=MANIFEST_CONTENTS)


def _few(repository: Repository, table: Table) -> _Pairs:
    """The manifests of a table with their entries; none where there are many."""
    found = _contents(repository, table)
    if len(found.listed) > _AT_ONCE or sum(map(expected_rows, found.listed)) > FEW_ENTRIES:
        return ()
    with faults_told(table.state):
        return list(found.pairs)


def _contents(repository: Repository, table: Table) -> _Contents:
    state = table.state
    listed = _listed(repository, state)
    read = repository.entries.canonical_all(state.stream, listed, repository.storage_of(state), _LEFT_OUT)
    return _Contents(state, listed, read)


def _listed(repository: Repository, state: TableState) -> list[ListedManifest]:
    """The manifests of all snapshots; one that lists of other engines describe in several ways is there for each."""
    found: dict[str, list[ListedManifest]] = {}
    for _, manifests in repository.lists.all_lists(state):
        for listed in manifests:
            known = found.setdefault(listed.manifest.manifest_path, [])
            if not known or (listed.is_foreign and not any(_is_told_alike(listed, k) for k in known)):
                known.append(listed)
    return [listed for known in found.values() for listed in known]


def _is_told_alike(one: ListedManifest, other: ListedManifest) -> bool:
    return one.manifest is other.manifest or all(
        getattr(one.manifest, name) == getattr(other.manifest, name) for name in _TOLD
    )


def _made(of: AuditedRows, waiting: Sequence[tuple[AuditedTable, _Pairs]]) -> Iterator[dict[str, Any]]:
    """The rows of tables, with their names; where they can't be made together, as one is at fault, one by one."""
    try:
        together = iter(_rows([pair for _, pairs in waiting for pair in pairs]))
        made = [list(islice(together, len(pairs))) for _, pairs in waiting]
    except (IcecoreError, *FAULTS):
        made = [[] for _ in waiting]
    for (audited, _), rows in zip(waiting, made, strict=True):
        for row in rows or of.tables.tried(audited, lambda table: _alone(of.log.repository, table)) or ():
            yield {**audited.named, **row}


def _alone(repository: Repository, table: Table) -> list[dict[str, Any]]:
    found = list[dict[str, Any]]()
    with faults_told(table.state):
        pairs = _contents(repository, table).pairs
        while some := list(islice(pairs, _AT_ONCE)):
            found += _rows(some)
    return found


def _rows(some: _Pairs) -> Sequence[dict[str, Any]]:
    """The rows of manifests, their entries completed all at once where none is at fault."""
    if not some:
        return ()
    counts = [len(entries) for _, _, entries in some]
    ends = list(accumulate(counts))
    try:
        whole = inherit_all(pa.concat_tables([t for _, _, t in some]), [each.manifest for _, each, _ in some], counts)
    except IcecoreError:
        # Raises the error of the first manifest that is at fault.
        whole = pa.concat_tables([inherit(entries, each.manifest) for _, each, entries in some])
    of = _Entries.of(whole)
    return [_row(state, each, of, end - n, end) for (state, each, _), n, end in zip(some, counts, ends, strict=True)]


@frozen(eq=False)
class _Entries:
    """The columns of entries that are counted; numbers that are null are marked."""

    entries: pa.Table
    status: Ints
    records: Ints
    data: tuple[Ints, Mask]
    file: tuple[Ints, Mask]

    @classmethod
    def of(cls, entries: pa.Table) -> _Entries:
        status, records = (arrays.to_numbers(entries[name]) for name in ("status", "record_count"))
        numbers = (_numbers(entries[name]) for name in ("sequence_number", "file_sequence_number"))
        return cls(entries, status, records, *numbers)


def _numbers(column: pa.ChunkedArray) -> tuple[Ints, Mask]:
    return arrays.to_numbers(column), arrays.to_mask(pc.is_valid(column))


def _row(state: TableState, listed: ListedManifest, of: _Entries, start: int, end: int) -> dict[str, Any]:
    m, at = listed.manifest, slice(start, end)
    status, records = of.status[at], of.records[at]
    live = status != int(ManifestEntryStatus.DELETED)
    (data, has_data), (file, has_file) = ((n[at][live], there[at][live]) for n, there in (of.data, of.file))
    least = data[has_data]
    newer = (has_data & (data > m.sequence_number)) | (has_file & (file > m.sequence_number))
    return {
        "manifest_path": m.manifest_path,
        "content": m.content.name.lower(),
        "partition_spec_id": m.partition_spec_id,
        "added_snapshot_id": signed(m.added_snapshot_id),
        "sequence_number": m.sequence_number,
        "min_sequence_number": m.min_sequence_number,
        "min_sequence_number_found": int(least.min()) if len(least) else None,
        # Newer than their manifest, or their data newer than they are.
        "misnumbered_files": int((newer | (has_data & has_file & (data > file))).sum()),
        **{f"{name}_count": getattr(m, f"{name}_count") for name in COUNTED},
        **_found(status, records),
        "summaries_hold": _summaries_hold(m.partitions, of.entries, start, live, m.partition_spec_id, state),
    }


def _found(status: Ints, records: Ints) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, wanted in _STATUSES.items():
        rows = records[status == int(wanted)]
        found[f"{name}_files_found"], found[f"{name}_rows_found"] = len(rows), int(rows.sum())
    return found


def _summaries_hold(
    listed: tuple[FieldSummary, ...] | None,
    entries: pa.Table,
    start: int,
    live: Mask,
    spec_id: int,
    state: TableState,
) -> bool | None:
    """Whether a list's summaries hold all partitions of the live entries; None where that can't be told."""
    spec = state.metadata.specs.get(spec_id)
    if listed is None or spec is None or any(isinstance(f.transform, UnknownTransform) for f in spec.fields):
        return None
    if not live.any():
        return True
    if not spec.fields:
        return not listed
    partitions = entries["partition"].slice(start, len(live))
    if not live.all():
        partitions = partitions.filter(arrays.booleans(live))
    schema: Schema = state.metadata.all_fields
    found = field_summaries(partitions, spec, schema)
    kinds = [f.result_type(schema) for f in spec.fields]
    return len(listed) == len(found) and all(map(_holds, kinds, listed, found))


def _holds(kind: PrimitiveType, said: FieldSummary, found: FieldSummary) -> bool:
    if (found.contains_null and not said.contains_null) or (found.contains_nan and said.contains_nan is False):
        return False
    if found.lower_bound is None or found.upper_bound is None:
        return True
    if said.lower_bound is None or said.upper_bound is None:
        return False
    lower, upper, least, most = (
        single_value.from_bytes(kind, bound)
        for bound in (said.lower_bound, said.upper_bound, found.lower_bound, found.upper_bound)
    )
    if isinstance(kind, UUIDType):
        # Java has another order of these, and `metrics_predicate` takes both: they agree on first halves, or it shows.
        return bool(lower > upper or (lower.bytes[:8] <= least.bytes[:8] and most.bytes[:8] <= upper.bytes[:8]))
    return all(_is_nan(bound) or held for bound, held in ((lower, lower <= least), (upper, most <= upper)))


def _is_nan(bound: object) -> bool:
    """Whether it is the NaN that older writers took for the greatest value; plans rule out nothing by it."""
    return isinstance(bound, float) and math.isnan(bound)
