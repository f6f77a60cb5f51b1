"""The entries of manifests for metadata tables: as they are in their files, with all that they inherit."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.content_file import ManifestEntryStatus
from icecore.projections.entries.wide_entries import inherit_all

ROWS_OF_A_BATCH = 65_536


def entry_batches(
    repository: Repository,
    state: TableState,
    manifests: Sequence[ListedManifest],
    *,
    contents: Collection[int] | None,
    left_out: frozenset[str] = frozenset(),
) -> Iterator[pa.Table]:
    """The canonical entries in the order of the manifests, some ten thousand at once.

    With `contents` only live ones of these contents; without, all, deleted ones too. Columns of `left_out` may be null.
    Raises CorruptFileError or StorageError where a manifest can't be read.
    """
    held: list[pa.Table] = []
    listed: list[ListedManifest] = []
    rows = 0
    read = repository.entries.canonical_all(state.stream, manifests, repository.storage_of(state), left_out)
    for each, entries in zip(manifests, read, strict=True):
        held.append(entries if contents is None else _live(entries, contents))
        listed.append(each)
        rows += held[-1].num_rows
        if rows >= ROWS_OF_A_BATCH:
            yield _joined(held, listed)
            held, listed, rows = [], [], 0
    if listed:
        yield _joined(held, listed)


def _joined(held: Sequence[pa.Table], listed: Sequence[ListedManifest]) -> pa.Table:
    records = [m.manifest for m in listed]
    return inherit_all(pa.concat_tables(held), records, [t.num_rows for t in held]).combine_chunks()


def _live(entries: pa.Table, contents: Collection[int]) -> pa.Table:
    """The live entries of some contents. What is left out has no first row id that others were counted from (RL3)."""
    wanted = pc.and_(
        pc.not_equal(entries["status"], int(ManifestEntryStatus.DELETED)),
        pc.is_in(entries["content"], pa.array(sorted(contents), pa.int32())),
    )
    return entries if pc.all(wanted).as_py() else entries.filter(wanted)
