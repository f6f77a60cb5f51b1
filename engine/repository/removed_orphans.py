"""The refusal of commits whose files a search for orphans removed between their writing and the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from icecore.engine.errors import CommitConflictError, name_text
from icecore.engine.log.deletion_content import any_removed_orphans, removed_orphans
from icecore.engine.spec.content_file import ManifestEntryStatus

if TYPE_CHECKING:
    import pyarrow as pa

    from icecore.engine.log.store import EventStore
    from icecore.engine.metadata.fold import TableState
    from icecore.engine.storage.file_io import Storage


def check_none_removed(store: EventStore, state: TableState, storage: Storage, entries: pa.Table) -> None:
    """Raises CommitConflictError where a commit adds a file that was removed as an orphan, and does not exist.

    Called under the write lock: a file that exists is retained for the commit; it may be a new one of that name.
    """
    if not any_removed_orphans(store):
        return
    is_added = pc.equal(entries["status"], int(ManifestEntryStatus.ADDED))
    paths = {storage.key(path): path for path in entries.filter(is_added)["file_path"].to_pylist()}
    for key, position in removed_orphans(store, paths).items():
        if not storage.exists(paths[key]):
            event = store.event_at(position)
            raise CommitConflictError(
                f"{paths[key]} can't be added to {name_text(state.identifier)}: it was removed as an orphan by "
                f"position {position} by {event.provenance.told}, as no commit named it; write it again"
            )
