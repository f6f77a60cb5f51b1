"""The pairs of tables of the log and rows of `iceberg_tables` that hold them, where rows and names differ.

Several tables may have one UUID, as where one was registered twice. So a table is looked for first where its own last
file stands, then by the metadata log of the row's file, which names the table's, and by its UUID only at last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from icecore.engine.common.location import location_key
from icecore.engine.errors import IcecoreError
from icecore.engine.events import event as ev
from icecore.engine.foreign.adoption import AdoptionRun
from icecore.engine.foreign.foreign_metadata import read_foreign, read_foreign_view
from icecore.engine.foreign.foreign_rows import Difference
from icecore.engine.storage.file_io import Storage

_BY_UUID = (2, 0)


@frozen
class Pair:
    """A table under its name in the log, and the row where it is now; the same difference where the name is the same.

    `rank` says how far the row's file is from the table's: (0, 0) where it is that file.
    """

    old: Difference
    now: Difference
    rank: tuple[int, int] = (0, 0)

    @property
    def is_exact(self) -> bool:
        """Whether the row has the very file that the log published last, so that nothing else can be meant."""
        return self.rank == (0, 0)


def pair_names(adoption: AdoptionRun, differences: Sequence[Difference]) -> tuple[list[Pair], list[Difference]]:
    """The tables that stand in a row, each in one, and the rows whose file can't be read, which are noted as problems.

    Each file is read once at most.
    """
    groups = _groups(adoption, [d for d in differences if d.stream is not None])
    found, unread = list[Pair](), list[Difference]()
    for now in differences:
        if now.row_location is not None:
            try:
                found.extend(_matches(now, groups))
            except IcecoreError as e:
                adoption.failed(now.identifier, now.stream, e)
                unread.append(now)
    # The order of names decides between those that are as near; before it, that a table is where it was.
    found.sort(key=lambda p: (p.rank, p.old is not p.now))
    pairs, olds, rows = list[Pair](), set[int](), set[int]()
    for pair in found:
        if id(pair.old) not in olds and id(pair.now) not in rows:
            pairs.append(pair)
            olds.add(id(pair.old))
            rows.add(id(pair.now))
    return pairs, unread


@define
class _Group:
    """The tables, or the views, of the log that are read through one storage, by their last file and by identity."""

    is_view: bool
    storage: Storage
    by_file: dict[str, list[Difference]] = field(factory=dict)
    by_identity: dict[str, list[Difference]] = field(factory=dict)

    def add(self, old: Difference, *identities: str) -> None:
        """Adds a table with its UUID and location."""
        if old.logged_location is not None:
            self.by_file.setdefault(location_key(old.logged_location), []).append(old)
        for identity in identities:
            self.by_identity.setdefault(identity, []).append(old)

    def published(self, location: str) -> Sequence[Difference]:
        """The tables whose last file is this one."""
        return self.by_file.get(location_key(location), ())

    def read(self, location: str) -> tuple[str, list[str]]:
        """The identity that a file has, and the files that its metadata log names. Raises as `read_foreign`."""
        if self.is_view:
            return read_foreign_view(location, self.storage)[1].view_uuid.lower(), []
        metadata = read_foreign(location, self.storage).metadata
        named = [e.metadata_file for e in reversed(metadata.metadata_log)]
        # Files of version 1 may lack the UUID.
        return metadata.location if metadata.table_uuid is None else metadata.table_uuid.lower(), named

    def matches(self, now: Difference, location: str) -> Iterator[Pair]:
        """The tables that the row may hold, by its file. Raises as `read_foreign`."""
        identity, log = self.read(location)
        same = self.by_identity.get(identity, ())
        same_ids = {id(old) for old in same}
        named = [now.previous, *log] if now.previous is not None else log
        for distance, name in enumerate(named):
            # A file that follows that of its own name is a commit, or a conflict, whatever its UUID.
            yield from (
                Pair(old, now, (1, distance)) for old in self.published(name) if old is now or id(old) in same_ids
            )
        yield from (Pair(old, now, _BY_UUID) for old in same)


def _groups(adoption: AdoptionRun, olds: Iterable[Difference]) -> list[_Group]:
    context, groups = adoption.context, dict[object, _Group]()
    for old in olds:
        assert old.stream is not None, "the caller checked"
        if ev.is_view_stream(old.stream):
            view = context.views.state_at(old.stream)
            assert view is not None, "a view with a name has events"
            groups.setdefault(None, _Group(True, context.storage)).add(old, view.metadata.view_uuid.lower())
            continue
        state = adoption.latest(old.stream)
        group = groups.setdefault(state.location_mapping, _Group(False, context.storage_of(state)))
        group.add(old, (state.metadata.table_uuid or "").lower(), state.metadata.location)
    return list(groups.values())


def _matches(now: Difference, groups: Sequence[_Group]) -> Iterator[Pair]:
    """The tables that a row may hold. Raises as `read_foreign` where its file has to be read."""
    assert now.row_location is not None, "the caller checked"
    fitting = [g for g in groups if g.is_view is now.is_view]
    if now.stream is not None and now.logged_location is None and ev.is_view_stream(now.stream) is now.is_view:
        # Nothing was published, so that no file tells whose the row is.
        yield Pair(now, now)
    elif exact := [old for g in fitting for old in g.published(now.row_location)]:
        yield from (Pair(old, now) for old in exact)
    else:
        for group in fitting:
            yield from group.matches(now, now.row_location)
