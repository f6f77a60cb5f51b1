"""Appends of files that were written already, with descriptions or described here. Spec: Snapshots (L4: append)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
from attrs import frozen

from icecore.engine.commit.added_files import added_entries, check_data_files
from icecore.engine.commit.decide import ProduceSnapshot
from icecore.engine.common.location import local_path, location_key, path_fault, to_uri
from icecore.engine.common.text import abbreviated
from icecore.engine.data.write.describe_files import Describer
from icecore.engine.errors import ValidationError
from icecore.engine.metadata.name_mapping_changes import table_name_mapping
from icecore.engine.operations.action import PlanContext, SnapshotTarget
from icecore.engine.operations.file_effects import live_among
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.snapshot import Operation
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


def describe_existing_files(
    at: PlanContext, file_paths: tuple[str, ...], branch: str, check_duplicate_files: bool, describe: Describer
) -> list[ContentFile]:
    """Descriptions of Parquet files that exist already, under locations that say all (G4).

    Raises ValidationError where one is given twice, is in the branch already, or does not fit the table.
    """
    for path in file_paths:
        if text := path_fault(path):
            raise ValidationError(f"the path of a file to add {text}")
    storage, metadata = at.storage, at.metadata
    places = [location_key(storage.resolve(p)) for p in file_paths]
    repeated = sorted(p for p, n in Counter(places).items() if n > 1)
    if repeated:
        raise ValidationError(f"files are given twice: {abbreviated(repeated, 5)}")
    if check_duplicate_files:
        spelled = [s for p in file_paths for s in _spellings(storage, p)]
        present = live_among(spelled, at.repository, at.state, metadata.snapshot_by_ref(branch))
        if present:
            raise ValidationError(f"files are in the table already: {abbreviated(present, 5)}")
    return describe(
        # A path that the table's location mapping knows is one of the table's own.
        [to_uri(p) if storage.resolve(p) == p else p for p in file_paths],
        schema=metadata.schema(),
        spec=metadata.spec(),
        storage=storage,
        properties=metadata.properties,
        name_mapping=table_name_mapping(metadata) or NameMapping.of_fields(metadata.schema().fields),
    )


def _spellings(storage: Storage, path: str) -> set[str]:
    """The spellings that manifests may have of a file: with and without `file:`, as s3 and s3a, before a mapping."""
    place = location_key(storage.resolve(path))
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
