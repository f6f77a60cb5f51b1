"""The conflict rules of each isolation level: whether a decision that was made on a base still holds.

A commit touches the data files that it removes, or deletes rows of by position. Under either level these must still be
live, and no deletes may have been added for them. Under `serializable` what the caller read must not have changed
either: no data file or delete file that may concern rows of the conflict filter was added or removed. The outcome is
then that of making the commits one after another. Spec: Commit Conflict Resolution (C2, C3). The rules are those of the
Java library (C5) for the files that a snapshot touches; beyond these Java checks only what its caller asks for.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from attrs import frozen

from icecore.engine.commit.conflict_text import commits_of, names
from icecore.engine.errors import ConflictingCommitsError, MissingArchiveError, ValidationError, name_text
from icecore.engine.events.event import Event
from icecore.engine.expression.bind import bind
from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.expression.sql.parse import FilterLike, parse_filter
from icecore.engine.operations.action import PlanContext
from icecore.engine.operations.equality_deletes import is_for_all, places_of
from icecore.engine.properties.table_properties import KnownProperty
from icecore.engine.spec.content_file import ContentFile
from icecore.projections.inspect.changes_since import ChangedFile, ChangesSince

Concerns = Callable[[ChangedFile], bool]


class IsolationLevel(enum.StrEnum):
    """The isolation levels: a change conflicts in all that was read, or only in files that the commit touches."""

    SERIALIZABLE = "serializable"
    SNAPSHOT = "snapshot"

    @classmethod
    def of(cls, name: str, where: str = "isolation_level") -> IsolationLevel:
        """The level of that name. Raises ValidationError for another name."""
        try:
            return cls(str(name).lower())
        except ValueError:
            raise ValidationError(f"{where} must be {' or '.join(cls)}, found {name!r}") from None


@frozen
class CommitBase:
    """The snapshot that a decision was made on, None for a branch without one, and the isolation level.

    `conflict_filter` selects the rows that were read; None stands for the operation's own filter.
    """

    base_snapshot_id: int | None
    level: IsolationLevel
    conflict_filter: FilterLike = None


def isolation_level(properties: Mapping[str, str], known: KnownProperty[str], wanted: str | None) -> IsolationLevel:
    """The level asked for, else that of the table property, else serializable. Raises ValidationError."""
    if wanted is not None:
        return IsolationLevel.of(wanted)
    return IsolationLevel(known.of(properties))


@frozen
class Check:
    """The validation of a decision that was made on a base against the present head of its branch.

    Every check raises ConflictingCommitsError naming the commits and their changes, and CommitConflictError where the
    history since the base is not there any more.
    """

    at: PlanContext
    base: CommitBase
    changes: ChangesSince

    @classmethod
    def of(cls, at: PlanContext, base: CommitBase, branch: str) -> Check:
        """The validation on a branch. Raises CommitConflictError, NoSuchSnapshotError for a base that never was."""
        return cls(at, base, ChangesSince.of(at.planner, at.state, base.base_snapshot_id, at.head(branch)))

    @property
    def is_needed(self) -> bool:
        """Whether anything was committed since the base."""
        return bool(self.changes.snapshots)

    def read(self, row_filter: FilterLike, concerns: Concerns = lambda _: True) -> None:
        """Checks, if serializable, that the rows read are unchanged: those of the base's filter, else of `row_filter`.

        `concerns` may leave out files that match the filter and are of no concern.
        """
        if not self.is_needed or self.base.level is IsolationLevel.SNAPSHOT:
            return
        self.unchanged(self.base.conflict_filter or row_filter, concerns, added=True)

    def unchanged(self, row_filter: FilterLike, concerns: Concerns, *, added: bool) -> None:
        """Checks that no data file that may have rows of the filter was removed, none added if `added`, and that no
        delete file for such rows was added or removed.
        """
        if not self.is_needed:
            return
        schema = self.at.metadata.schema()
        parsed = parse_filter(row_filter)
        bound = bind(parsed, schema)
        which = "" if bound == TRUE else f" that may have rows of {row_filter}"
        conflicts: list[str] = []
        if added:
            conflicts += self._told(
                "data file", "was added", which, filter(concerns, self.changes.added_data(bound, schema))
            )
        conflicts += self._told(
            "data file", "was removed", which, filter(concerns, self.changes.removed_data(bound, schema))
        )
        base = self._base_files(bound)
        deletes = self.changes.changed_deletes(bound, schema, base)
        conflicts += self._told("delete file", "was added or removed", which, filter(concerns, deletes))
        self._raise(conflicts)

    def touched(
        self,
        paths: Collection[str],
        *,
        replacing: tuple[int, Sequence[ContentFile]] | None = None,
        vectors: bool = True,
    ) -> None:
        """Checks that the data files are still there, and that no delete was added for them since.

        `replacing` are the files that take their place, after their sequence number. Equality deletes after it don't
        matter if they apply to all of these too, by their partition. `vectors` says that the commit replaces their
        deletion vectors: a rewrite of these matters then.
        """
        if not self.is_needed or not paths:
            return
        changes = self.changes
        missing = changes.missing_data(paths)
        conflicts = self._told("data file", "was removed", " that this commit touches", missing)
        gone = {m.file_path for m in missing}
        left = [p for p in paths if p not in gone]
        deletes = changes.deletes_for(left) if replacing is None else self._deletes_for(left, *replacing)
        if vectors:
            known = {(d.file_path, d.snapshot_id) for d in deletes}
            found_vectors = changes.concurrent_vectors(left)
            deletes += [v for v in found_vectors if (v.file_path, v.snapshot_id) not in known]
        conflicts += self._told("data file", "got or lost deletes", " that this commit touches", deletes)
        self._raise(conflicts)

    def _deletes_for(self, paths: Collection[str], number: int, added: Sequence[ContentFile]) -> list[ChangedFile]:
        """The changes of the files' deletes that don't apply to the `added` files of a sequence number as well."""
        places, metadata = places_of(added, self.at.metadata), self.at.state.metadata

        def is_for_added(delete: ChangedFile) -> bool:
            key = metadata.specs[delete.spec_id].key(delete.partition, metadata.all_fields)
            return is_for_all((delete.spec_id, key), places, metadata)

        earlier, later = self.changes.deletes_around(number, paths)
        return [*earlier, *(d for d in later if not is_for_added(d))]

    def _base_files(self, bound: Expression) -> set[str]:
        """The data files that may have had rows of the filter at the base."""
        if self.base.base_snapshot_id is None:
            return set()
        base = self.at.state.metadata.find_snapshot(self.base.base_snapshot_id)
        planned = self.at.planner.plan(self.at.state, base, bound, self.at.metadata.schema())
        return set(planned.files["file_path"].to_pylist())

    def _told(self, kind: str, verb: str, which: str, files: Iterable[ChangedFile]) -> list[str]:
        by_snapshot: dict[int, list[str]] = {}
        for file in files:
            by_snapshot.setdefault(file.snapshot_id, []).append(file.file_path)
        if not by_snapshot:
            return []
        commits = commits_of(self._events(), by_snapshot)
        return [
            f"{kind} {names(list(dict.fromkeys(paths)))}{which} {verb} by {commits[snapshot_id]}"
            for snapshot_id, paths in by_snapshot.items()
        ]

    def _events(self) -> list[Event]:
        """The table's events, as far as they can be read: a conflict stays one when its author is not known."""
        store, stream = self.at.repository.store, self.at.state.stream
        try:
            return list(store.stream_events(stream))
        except MissingArchiveError:
            return list(store.stream_events(stream, store.archives.last_version(stream)))

    def _raise(self, found: list[str]) -> None:
        if found:
            base = self.base.base_snapshot_id
            what = "an empty branch" if base is None else f"snapshot {base}"
            text = f"{name_text(self.at.state.identifier)}: what was decided on {what} does not hold any more"
            raise ConflictingCommitsError(text, tuple(found))
