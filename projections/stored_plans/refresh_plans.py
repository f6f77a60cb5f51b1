"""Named plans brought up to date by looking only into the changes of later commits.

The result of a data manifest is kept under its path, since a manifest never changes: its planned files, and the delete
files that apply to them. New manifests are evaluated, and so are those whose files a new delete file may apply to, or
had a delete file that is gone now. Where the filter, a schema or a partition spec changed, all is planned anew.
Thus it does not matter how the table came to its snapshot: by commits, a rollback, or an expiry.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, frozen

from icecore.engine.events.manifest_changes import ListedManifest, Listing
from icecore.engine.expression.json.stored_expression import to_kept, value_to_kept
from icecore.engine.expression.nodes import Expression
from icecore.engine.formats import arrays
from icecore.engine.formats.entry_arrow import decode_partition, partition_types, path_keys
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.content_file import DataFileContent, ManifestContent
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.snapshot import Snapshot
from icecore.projections.entries.partition_key import partition_of_key
from icecore.projections.plan.deletes.delete_pairs import DeletePairs, Rows
from icecore.projections.plan.deletes.lost_values import losable_fields
from icecore.projections.plan.planner import PlannedFiles, Planner
from icecore.projections.segments.segment_files import SEGMENT_VERSION

RULES = 3
"""The version of the rules: to be raised when a manifest's plan, or what is kept of it, changes."""
DELETES = pa.schema(
    [
        ("manifest", pa.string()),
        ("file_path", pa.string()),
        ("content_offset", pa.int64()),
        ("sequence_number", pa.int64()),
        ("content", pa.int32()),
        ("spec_id", pa.int32()),
        ("partition", pa.string()),
        ("referenced_data_file", pa.string()),
    ]
)

Identity = tuple[str, int | None]
_Result = tuple[pa.Table, pa.Table, DeletePairs]


@frozen
class Kept:
    """The results of a plan by manifest.

    `parts` maps a data manifest, with the first row id that its list gives it, to a number, which is `m` in `files`.
    `delete_files` are those that apply, as `pairs` says; `deletes` has all live ones that were looked at.
    """

    key: str
    parts: Mapping[Listing, int]
    files: pa.Table
    delete_files: pa.Table
    pairs: DeletePairs
    deletes: pa.Table

    @classmethod
    def from_stored(cls, head: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Kept:
        """The results in a stored plan."""
        parts = {(path, first_row_id): number for path, first_row_id, number in head["parts"]}
        pairs = DeletePairs.from_arrow(tables["pairs"])
        return cls(head["key"], parts, tables["files"], tables["delete_files"], pairs, tables["deletes"])

    def head(self) -> dict[str, Any]:
        """The JSON of the results' key and parts."""
        return {"key": self.key, "parts": [[path, row_id, number] for (path, row_id), number in self.parts.items()]}

    def tables(self) -> dict[str, pa.Table]:
        """The results as tables, by name."""
        tables = {"files": self.files, "delete_files": self.delete_files, "deletes": self.deletes}
        return {**tables, "pairs": self.pairs.to_arrow()}


@frozen
class Refreshed:
    """A plan of a snapshot, the results to keep, and the numbers of manifests that were evaluated and reused."""

    planned: PlannedFiles
    kept: Kept
    manifests_evaluated: int
    manifests_reused: int


def refresh(
    planner: Planner,
    state: TableState,
    snapshot: Snapshot | None,
    bound: Expression,
    schema: Schema,
    kept: Kept | None,
) -> Refreshed:
    """The plan of a snapshot, from the stored one of an earlier snapshot as far as that still holds.

    Raises CorruptFileError or StorageError where a manifest can't be read.
    """
    return _Refresh(planner, state, bound, schema, kept).run(snapshot)


def validity_key(metadata: TableMetadata, bound: Expression, schema: Schema) -> str:
    """A digest of all that the result of a manifest depends on beside the manifest.

    That is the rules of planning, the filter by the ids of its columns, the schema it is bound to, the partition specs
    and the types of all columns. Raises ExpressionError for a filter that can't be written down.
    """
    depends_on = {
        "segments": SEGMENT_VERSION,
        "rules": RULES,
        "filter": to_kept(bound, schema),
        "schema": schema.to_dict(),
        "specs": [s.to_dict() for s in metadata.partition_specs],
        "types": sorted((f.field_id, str(f.field_type)) for f in metadata.all_fields.fields),
    }
    return hashlib.sha256(orjson.dumps(depends_on)).hexdigest()


def _partition_text(partition: Iterable[Any]) -> str:
    """A partition tuple as JSON of its values, equal where two tuples of a spec are."""
    return orjson.dumps([value_to_kept(v) for v in partition]).decode()


@define
class _Refresh:
    planner: Planner
    state: TableState
    bound: Expression
    schema: Schema
    kept: Kept | None

    def run(self, snapshot: Snapshot | None) -> Refreshed:
        repository = self.planner.repository
        listed = () if snapshot is None else repository.list_manifests(self.state, snapshot)
        live = [m for m in listed if m.manifest.has_live_files]
        data = [m for m in live if m.manifest.content is ManifestContent.DATA]
        delete_manifests = [m for m in live if m.manifest.content is ManifestContent.DELETES]
        key = validity_key(self.state.metadata, self.bound, self.schema)
        old = self.kept if self.kept is not None and self.kept.key == key else None
        deletes, read = self._deletes(delete_manifests, old)
        known = {} if old is None else {m.listing: old.parts[m.listing] for m in data if m.listing in old.parts}
        touched = set() if old is None else _touched(old, deletes, self.state.metadata)
        again = [m for m in data if known.get(m.listing, -1) in touched or m.listing not in known]
        evaluated = {m.listing for m in again}
        reused = {part: number for part, number in known.items() if part not in evaluated}
        fresh, of_fresh = self._evaluate(again, delete_manifests)
        kept = self._merged(key, old, reused, again, fresh, of_fresh, deletes)
        planned = self._planned(listed, kept, fresh)
        total = len(data) + len(delete_manifests)
        return Refreshed(planned, kept, len(again) + read, total - len(again) - read)

    def _deletes(self, manifests: Sequence[ListedManifest], old: Kept | None) -> tuple[pa.Table, int]:
        """All live delete files, those of manifests read before as kept; and the number of manifests read now."""
        seen = set() if old is None else set(old.deletes["manifest"].to_pylist())
        tables = []
        if old is not None:
            listed = pa.array([m.manifest.manifest_path for m in manifests], pa.string())
            tables.append(old.deletes.filter(pc.is_in(old.deletes["manifest"], listed)))
        new = [m for m in manifests if m.manifest.manifest_path not in seen]
        tables += [self._delete_entries(m) for m in new]
        return pa.concat_tables([DELETES.empty_table(), *tables]), len(new)

    def _delete_entries(self, listed: ListedManifest) -> pa.Table:
        repository, metadata = self.planner.repository, self.state.metadata
        live = repository.lists.live_entries(self.state, listed)
        names = [n for n in DELETES.names if n not in ("manifest", "partition")]
        rows = []
        for row in live.select([*names, "partition"]).to_pylist():
            values = decode_partition(metadata.specs[row["spec_id"]], metadata.all_fields, row["partition"])
            rows.append({**row, "manifest": listed.manifest.manifest_path, "partition": _partition_text(values)})
        return pa.Table.from_pylist(rows, schema=DELETES)

    def _evaluate(
        self, data: Sequence[ListedManifest], deletes: Sequence[ListedManifest]
    ) -> tuple[PlannedFiles, Sequence[ListedManifest]]:
        """The plan over some data manifests, and the manifests among which `m` of its files is a place."""

        def planned(relevant: Sequence[ListedManifest]) -> tuple[PlannedFiles, Sequence[ListedManifest]]:
            return self.planner.plan_with_manifests(self.state, (*data, *relevant), self.bound, self.schema)

        # A delete applies to no newer file, so a delete manifest that is older than all data files is left out.
        told = min((m.manifest.min_sequence_number for m in data), default=0)
        if all(m.manifest.sequence_number >= told for m in deletes):
            return planned(deletes)
        # Early releases of PyIceberg note a least number that is too great, so the files themselves are asked.
        found = planned(())
        oldest = pc.min(pc.fill_null(found[0].files["sequence_number"], 0)).as_py()
        relevant = [m for m in deletes if oldest is not None and m.manifest.sequence_number >= oldest]
        return planned(relevant) if relevant else found

    def _merged(
        self,
        key: str,
        old: Kept | None,
        reused: Mapping[Listing, int],
        again: Sequence[ListedManifest],
        fresh: PlannedFiles,
        of_fresh: Sequence[ListedManifest],
        deletes: pa.Table,
    ) -> Kept:
        """The results that still hold and those of newly evaluated manifests, under common numbers."""
        start = max(old.parts.values(), default=-1) + 1 if old is not None else 0
        numbers = {m.listing: start + i for i, m in enumerate(again)}
        results: list[_Result] = []
        if old is not None and reused and old.files.num_rows:
            rows = np.flatnonzero(np.isin(arrays.to_numbers(old.files["m"]), list(reused.values())))
            results.append((old.files.take(arrays.numbers(rows)), old.delete_files, old.pairs.of_files(rows)))
        if fresh.files.num_rows:
            by_place = np.array([numbers[m.listing] for m in of_fresh], np.int64)
            files = self._with_partitions(_renumbered(fresh.files, by_place))
            results.append((files, fresh.deletes, fresh.pairs))
        return Kept(key, {**reused, **numbers}, *_together(results), deletes)

    def _with_partitions(self, files: pa.Table) -> pa.Table:
        """The files with their partition tuples as text, each decoded once, to compare new delete files with."""
        metadata = self.state.metadata
        texts: dict[bytes, str] = {}
        keys = files["partition_key"].to_pylist()
        for row, key in enumerate(keys):
            if key not in texts:
                spec = metadata.specs[files["spec_id"][row].as_py()]
                types = [t for _, t in partition_types(spec, metadata.all_fields)]
                texts[key] = _partition_text(partition_of_key(key, types))
        return files.append_column("partition_text", pa.array([texts[k] for k in keys], pa.string()))

    def _planned(self, listed: Sequence[ListedManifest], kept: Kept, fresh: PlannedFiles) -> PlannedFiles:
        def count(_: PlannedFiles) -> Any:
            # The files left out of reused manifests were not counted, so a whole plan is made for the counts.
            return self.planner.plan_manifests(self.state, listed, self.bound, self.schema).counts

        files = kept.files if kept.files.num_rows else fresh.files.slice(0, 0)
        deletes = kept.delete_files if kept.delete_files.num_rows else fresh.deletes.slice(0, 0)
        return PlannedFiles(self.state, self.schema, self.bound, files, deletes, kept.pairs, fresh.seconds, count)


def _touched(old: Kept, deletes: pa.Table, metadata: TableMetadata) -> set[int]:
    """The numbers of the data manifests that have a file to which other delete files may apply than before."""
    before, now = _by_identity(old.deletes), _by_identity(deletes)
    new = [d for i, d in now.items() if i not in before]
    gone = {(path, offset) for path, offset, _ in before.keys() - now.keys()}
    touched = _parts_with(old, gone) if gone else set()
    return touched | _parts_under(old, new, metadata) if new and old.files.num_rows else touched


def _by_identity(deletes: pa.Table) -> dict[tuple[str, int | None, int], dict[str, Any]]:
    return {(d["file_path"], d["content_offset"], d["sequence_number"]): d for d in deletes.to_pylist()}


def _parts_with(old: Kept, gone: set[Identity]) -> set[int]:
    if not len(old.pairs):
        return set()
    identities = zip(*(old.delete_files[n].to_pylist() for n in ("file_path", "content_offset")), strict=True)
    rows = [row for row, identity in enumerate(identities) if identity in gone]
    files = old.pairs.files[np.isin(old.pairs.deletes, rows)]
    return set(arrays.to_numbers(old.files["m"])[files].tolist())


def _parts_under(old: Kept, new: Iterable[Mapping[str, Any]], metadata: TableMetadata) -> set[int]:
    """The parts to which a new delete file may apply: by path, or by partition and sequence number, not by bounds.

    All partitions of a spec whose values may have been lost count as one.
    """
    losable = losable_fields(metadata)
    named = path_keys(pa.array(map(_named_file, new), pa.string()))
    is_named = pc.is_in(path_keys(old.files["file_path"]), named.drop_null()).to_pylist()
    latest: dict[tuple[int, str], int] = {}
    everywhere = -1
    for d in new:
        if _named_file(d) is not None:
            continue
        if d["content"] == DataFileContent.EQUALITY_DELETES and metadata.specs[d["spec_id"]].is_unpartitioned:
            everywhere = max(everywhere, d["sequence_number"])
        else:
            key = (d["spec_id"], "" if d["spec_id"] in losable else d["partition"])
            latest[key] = max(latest.get(key, -1), d["sequence_number"])
    names = ("m", "spec_id", "sequence_number", "partition_text")
    rows = zip(is_named, *(old.files[n].to_pylist() for n in names), strict=True)
    return {
        m
        for by_name, m, spec_id, sequence_number, partition in rows
        if by_name
        or max(everywhere, latest.get((spec_id, "" if spec_id in losable else partition), -1)) >= (sequence_number or 0)
    }


def _named_file(delete: Mapping[str, Any]) -> str | None:
    """The data file that a delete file is for alone; equality deletes are for none alone, whatever they name."""
    named: str | None = delete["referenced_data_file"]
    return None if delete["content"] == DataFileContent.EQUALITY_DELETES else named


def _together(results: Sequence[_Result]) -> _Result:
    """Files, the delete files that apply to any of them, and the pairs, of results one after another."""
    files: list[pa.Table] = []
    deletes: list[pa.Table] = []
    pairs: list[DeletePairs] = []
    for of_result, its_deletes, its_pairs in results:
        used = its_pairs.used_deletes()
        pairs.append(its_pairs.of_deletes(used).shifted(_rows(files), _rows(deletes)))
        files.append(of_result)
        deletes.append(its_deletes.take(arrays.numbers(used)))
    return _concat(files), _concat(deletes), DeletePairs.concatenated(pairs)


def _rows(tables: Sequence[pa.Table]) -> int:
    return sum(t.num_rows for t in tables)


def _renumbered(files: pa.Table, by_place: Rows) -> pa.Table:
    numbers = by_place[arrays.to_numbers(files["m"])]
    return files.set_column(files.schema.get_field_index("m"), "m", arrays.numbers(numbers))


def _concat(tables: Sequence[pa.Table]) -> pa.Table:
    filled = [t for t in tables if t.num_rows]
    return pa.concat_tables(filled, promote_options="permissive").combine_chunks() if filled else pa.table({})
