"""Taking in Parquet files that lie somewhere already."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.add_files import describe_files
from icecore.engine.errors import ValidationError
from icecore.engine.name_mapping import table_name_mapping
from icecore.engine.repository import Repository
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.state import TableState


def describe_existing_files(
    repository: Repository,
    state: TableState,
    metadata: TableMetadata,
    file_paths: tuple[str, ...],
    branch: str,
    check_duplicate_files: bool,
) -> list[ContentFile]:
    """Descriptions of Parquet files that exist already.

    Raises ValidationError where one is given twice, is in the branch already, or does not fit the table.
    """
    repeated = sorted(p for p, n in Counter(file_paths).items() if n > 1)
    if repeated:
        raise ValidationError(f"files are given twice: {repeated[:5]}")
    if check_duplicate_files:
        known = _in_branch(repository, state, file_paths, branch)
        if known:
            raise ValidationError(f"files are in the table already: {known[:5]}")
    return describe_files(
        file_paths,
        schema=metadata.schema(),
        spec=metadata.spec(),
        storage=repository.storage_of(state),
        properties=metadata.properties,
        name_mapping=table_name_mapping(metadata) or NameMapping.of_fields(metadata.schema().fields),
    )


def _in_branch(repository: Repository, state: TableState, file_paths: tuple[str, ...], branch: str) -> list[str]:
    snapshot = state.metadata.snapshot_by_ref(branch)
    if snapshot is None:
        return []
    wanted = pa.array(list(file_paths), pa.string())
    for listed in repository.list_manifests(state, snapshot):
        paths = repository.entries.live(state.stream, listed, repository.storage_of(state))["file_path"]
        known: list[str] = paths.filter(pc.is_in(paths, wanted)).to_pylist()
        if known:
            return known
    return []
