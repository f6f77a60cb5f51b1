"""The rows of `manifests` and `all_manifests`. Spec: Manifest Lists (L1).

Names, order and types of columns are those of PyIceberg's `inspect`, which are Iceberg Java's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from icecore.engine.common.ids import signed
from icecore.engine.errors import ValidationError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec import single_value
from icecore.engine.spec.content_file import FieldSummary, ManifestContent
from icecore.engine.spec.partition import PartitionField
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.engine.spec.transform import UnknownTransform, human_string

_COUNTS = ("added", "existing", "deleted")
COUNT_COLUMNS = tuple(f"{count}_{kind}_files_count" for kind in ("data", "delete") for count in _COUNTS)
_SUMMARIES = pa.list_(
    pa.struct(
        [
            pa.field("contains_null", pa.bool_(), nullable=False),
            ("contains_nan", pa.bool_()),
            ("lower_bound", pa.string()),
            ("upper_bound", pa.string()),
        ]
    )
)
MANIFESTS_OF_TABLE = pa.schema(
    [
        pa.field("content", pa.int8(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        ("length", pa.int64()),
        pa.field("partition_spec_id", pa.int32(), nullable=False),
        ("added_snapshot_id", pa.int64()),
        *((name, pa.int32()) for name in COUNT_COLUMNS),
        pa.field("partition_summaries", _SUMMARIES, nullable=False),
    ]
)
ALL_MANIFESTS = pa.schema(
    [
        *MANIFESTS_OF_TABLE,
        pa.field("reference_snapshot_id", pa.int64(), nullable=False),
        ("key_metadata", pa.binary()),
    ]
)


def manifests(repository: Repository, state: TableState, snapshot: Snapshot | None) -> pa.Table:
    """A row for each manifest of a snapshot, in the order of its list.

    `length` is null for a manifest of ours that was not written out yet. Raises StorageError, CorruptFileError.
    """
    listed = () if snapshot is None else repository.list_manifests(state, snapshot)
    return pa.Table.from_pylist(list(_Rows(repository, state).of(listed)), schema=MANIFESTS_OF_TABLE)


def all_manifests(repository: Repository, state: TableState) -> pa.Table:
    """A row for each manifest of each snapshot; `reference_snapshot_id` is that of the snapshot."""
    found, rows = [], _Rows(repository, state)
    for snapshot, listed in repository.lists.all_lists(state):
        for row, each in zip(rows.of(listed), listed, strict=True):
            own = {"reference_snapshot_id": signed(snapshot.snapshot_id), "key_metadata": each.manifest.key_metadata}
            found.append({**row, **own})
    return pa.Table.from_pylist(found, schema=ALL_MANIFESTS)


class _Rows:
    """The rows of manifests, each made once however many snapshots list it."""

    def __init__(self, repository: Repository, state: TableState) -> None:
        self._repository = repository
        self._metadata = state.metadata
        self._made: dict[ListedManifest, Mapping[str, Any]] = {}

    def of(self, listed: Iterable[ListedManifest]) -> Iterable[Mapping[str, Any]]:
        for each in listed:
            if each not in self._made:
                self._made[each] = self._row(each)
            yield self._made[each]

    def _row(self, listed: ListedManifest) -> Mapping[str, Any]:
        m = listed.manifest
        counts = (m.added_files_count, m.existing_files_count, m.deleted_files_count)
        is_data = m.content is ManifestContent.DATA
        row: dict[str, Any] = {
            "content": int(m.content),
            "path": m.manifest_path,
            "length": self._length(listed),
            "partition_spec_id": m.partition_spec_id,
            "added_snapshot_id": signed(m.added_snapshot_id),
            "partition_summaries": self._summaries(m.partition_spec_id, m.partitions or ()),
        }
        for name, value in zip(_COUNTS, counts, strict=True):
            row[f"{name}_data_files_count"] = value if is_data else 0
            row[f"{name}_delete_files_count"] = 0 if is_data else value
        return row

    def _length(self, listed: ListedManifest) -> int | None:
        if listed.is_foreign:
            return listed.manifest.manifest_length
        noted = self._repository.store.row(MODELS, "get_file", location=listed.manifest.manifest_path)
        return None if noted is None else noted["length"]

    def _summaries(self, spec_id: int, summaries: Iterable[FieldSummary]) -> list[dict[str, Any]]:
        spec = self._metadata.specs.get(spec_id)
        fields = () if spec is None else spec.fields
        return [_summary(f, s, self._metadata.all_fields) for f, s in zip(fields, summaries, strict=False)]


def _summary(f: PartitionField, summary: FieldSummary, schema: Schema) -> dict[str, Any]:
    return {
        "contains_null": summary.contains_null,
        "contains_nan": summary.contains_nan,
        "lower_bound": _shown(f, summary.lower_bound, schema),
        "upper_bound": _shown(f, summary.upper_bound, schema),
    }


def _shown(f: PartitionField, bound: bytes | None, schema: Schema) -> str | None:
    """A bound as people write it; null where there is none, or its bytes or its transform can't be read."""
    if bound is None or isinstance(f.transform, UnknownTransform):
        return None
    kind = f.result_type(schema)
    try:
        return human_string(f.transform, kind, single_value.from_bytes(kind, bound))
    except ValidationError:
        return None
