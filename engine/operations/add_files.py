"""Appends of files that were written already, with descriptions or described here. Spec: Snapshots (L4: append)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import pyarrow as pa
from attrs import frozen

from icecore.engine.commit.added_files import added_entries, check_data_files
from icecore.engine.commit.decide import ChangeMetadata, ProduceSnapshot, StaleRemovals
from icecore.engine.common.location import local_path, location_key, path_fault, to_uri
from icecore.engine.common.text import abbreviated
from icecore.engine.data.write.describe_files import Describer
from icecore.engine.errors import ValidationError
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.file_effects import live_among
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.snapshot import MAIN_BRANCH, Operation, Snapshot
from icecore.engine.spec.updates.table_update import TableUpdate
from icecore.engine.storage.file_io import Storage


@frozen
class AppendFiles:
    """An append of manifest entries; nothing is removed, so commits of others make no difference."""

    target: SnapshotTarget
    entries: pa.Table
    operation: Operation = Operation.APPEND

    @classmethod
    def of(cls, target: SnapshotTarget, files: Iterable[ContentFile], metadata: TableMetadata) -> AppendFiles:
        """The append of files by their descriptions.

        Raises ValidationError for files that are no data files, can't be written to manifests, or mislead readers.
        """
        return cls(target, added_entries(check_data_files(files), metadata))

    def plan(self, at: PlanContext) -> ProduceSnapshot:
        """The command, which holds on any head."""
        target = self.target
        return ProduceSnapshot(
            self.operation, target.snapshot_id, target.branch, added=self.entries, summary=target.summary
        )


@frozen
class AbsentFiles:
    """Files that must not be in a branch, nor be added to it by commits meanwhile.

    `spellings` are all paths by which manifests may name them. `head_id` is the branch head that was checked, or main's
    if the branch is yet to be made from main.
    """

    branch: str
    spellings: frozenset[str]
    head_id: int | None

    @classmethod
    def of(cls, at: PlanContext, file_paths: Iterable[str], branch: str) -> AbsentFiles:
        """The files of paths. Raises ValidationError where one is in the branch."""
        spellings = frozenset(s for p in file_paths for s in _spellings(at.storage, p))
        absent = cls(branch, spellings, _head_id(at.state.metadata, branch))
        absent._check(at, at.metadata.head_for_commit(branch))
        return absent

    def check_apart(self, earlier: Iterable[AbsentFiles]) -> None:
        """Raises ValidationError where the same transaction adds one of the files to the branch already."""
        given = (a.spellings & self.spellings for a in earlier if a.branch == self.branch)
        if again := sorted({location_key(s) for found in given for s in found}):
            raise ValidationError(f"files are given twice: {abbreviated(again, 5)}")

    def plan(self, at: PlanContext) -> ChangeMetadata:
        """A command without updates that holds on this head alone. Raises ValidationError where a file is there now."""
        head_id = _head_id(at.state.metadata, self.branch)
        if head_id is not None and head_id != self.head_id:
            self._check(at, at.state.metadata.find_snapshot(head_id))

        def updates_for(metadata: TableMetadata) -> list[TableUpdate]:
            if _head_id(metadata, self.branch) != head_id:
                raise StaleRemovals
            return []

        return ChangeMetadata(updates_for)

    def _check(self, at: PlanContext, head: Snapshot | None) -> None:
        if present := live_among(sorted(self.spellings), at.repository, at.state, head):
            raise ValidationError(f"files are in the table already: {abbreviated(present, 5)}")


def _head_id(metadata: TableMetadata, branch: str) -> int | None:
    ref = metadata.refs.get(branch) or metadata.refs.get(MAIN_BRANCH)
    return None if ref is None else ref.snapshot_id


def check_paths(at: PlanContext, file_paths: Sequence[str]) -> None:
    """Raises ValidationError where what is given is no path, or a file is given twice."""
    for path in file_paths:
        if text := path_fault(path):
            raise ValidationError(f"the path of a file to add {text}")
    places = [at.storage.key(p) for p in file_paths]
    repeated = sorted(p for p, n in Counter(places).items() if n > 1)
    if repeated:
        raise ValidationError(f"files are given twice: {abbreviated(repeated, 5)}")


def describe_existing_files(at: PlanContext, file_paths: Iterable[str], describe: Describer) -> list[ContentFile]:
    """Descriptions of Parquet files that exist already, by their full locations (G4).

    Raises ValidationError where one does not fit the table.
    """
    storage, metadata = at.storage, at.metadata
    return describe(
        # A path that the table's location mapping knows is one of the table's own.
        [to_uri(p) if storage.resolve(p) == p else p for p in file_paths],
        schema=metadata.schema(),
        spec=metadata.spec(),
        storage=storage,
        properties=metadata.properties,
        name_mapping=NAME_MAPPING.find(metadata.properties) or NameMapping.of_fields(metadata.schema().fields),
    )


def _spellings(storage: Storage, path: str) -> set[str]:
    """The paths by which manifests may name a file: with and without `file:`, as s3 and s3a, before a mapping."""
    place = storage.key(path)
    spellings = {path, storage.resolve(path), place}
    if local_path(place) is not None:
        spellings |= {f"file:{place}", f"file://{place}"}
    elif place.startswith("s3://"):
        spellings |= {f"{scheme}{place.removeprefix('s3')}" for scheme in ("s3a", "s3n")}
    for old, new in storage.mapping.prefixes:
        inside = location_key(new)
        if place.startswith(inside + "/"):
            spellings.add(old + place.removeprefix(inside))
    return spellings
