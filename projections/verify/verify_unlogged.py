"""Metadata files of later commits than the log has: an earlier copy of the log was put back, or a crash left them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from icecore.engine.errors import IcecoreError, name_text
from icecore.engine.metadata.fold import TableState
from icecore.engine.metadata.view_fold import ViewState
from icecore.engine.repository.repository import Repository
from icecore.engine.storage.file_io import Storage
from icecore.projections.verify.findings import SHOWN_EXAMPLES, Cause, Finding

# Named by an event's id, a UUID of version 7, as other engines' are not.
_OURS = re.compile(r"(\d{5,})-([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})(\.gz)?\.metadata\.json")


def unlogged_commits(repository: Repository, state: TableState | ViewState, storage: Storage) -> Iterator[Finding]:
    """A note on metadata files beside the table's own that have later versions, and whose events are not in the log.

    There is none for dropped tables, as another catalog may have them, nor for files that are not on a local disk.
    """
    location = state.metadata_location
    if state.dropped or location is None or storage.local_path(location) is None:
        return
    folder, _, current = location.rpartition("/")
    if (own := _OURS.fullmatch(current)) is None:
        return
    try:
        names = storage.list(folder)
    except IcecoreError:
        # Then its files can't be looked at either, which is told of them.
        return
    later = [n for n in names if (m := _OURS.fullmatch(n)) and int(m[1]) > int(own[1])]
    unknown = [f"{folder}/{n}" for n in later if repository.store.event_by_id(n.partition("-")[2][:36]) is None]
    if unknown:
        shown = tuple(unknown[:SHOWN_EXAMPLES])
        details = tuple(
            f"{n} is of a later commit than the log has, as where an earlier icecore.db was put back" for n in shown
        )
        yield Finding(
            Cause.UNLOGGED, name_text(state.identifier), "metadata file", len(unknown), shown, details, folder
        )
