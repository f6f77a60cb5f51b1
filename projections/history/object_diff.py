"""The changes between two states of a table, view or namespace, as facts and counts of files, and as rows of Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import short_repr
from icecore.engine.errors import name_text
from icecore.engine.spec.content_file import DataFileContent
from icecore.projections.history.facts import Facts

CONTENT_NAMES = {
    DataFileContent.DATA: "data-files",
    DataFileContent.POSITION_DELETES: "position-delete-files",
    DataFileContent.EQUALITY_DELETES: "equality-delete-files",
}
DIFF_SCHEMA = pa.schema(
    [
        ("kind", pa.string()),
        ("name", pa.string()),
        ("stream", pa.string()),
        ("action", pa.string()),
        ("what", pa.string()),
        ("key", pa.string()),
        ("before", pa.string()),
        ("after", pa.string()),
        ("added_files", pa.int64()),
        ("added_rows", pa.int64()),
        ("removed_files", pa.int64()),
        ("removed_rows", pa.int64()),
    ]
)


@frozen
class Change:
    """One fact that differs: its subject, its name, and its text before and after; None where it was not there."""

    what: str
    key: str
    before: str | None
    after: str | None

    @property
    def action(self) -> str:
        """`added`, `removed` or `changed`."""
        return action_of(self.before, self.after)


@frozen
class FileChanges:
    """Files of one kind of content that commits to a branch added and removed, and the rows or deletes in them.

    A file that came and went within the range is not counted, nor one that went and came back. Commits that a rollback
    took back do count: the ref that moved says so. `branch` is None for snapshots on no branch, and where the table
    came with them. In a difference of two snapshots it is always None, and a file that only one of them has is counted.
    """

    branch: str | None
    content: str
    added_files: int
    added_rows: int
    removed_files: int
    removed_rows: int


@frozen
class ObjectDiff:
    """The changes of one namespace, table or view: its names before and after, None where it had none.

    A table that was dropped and made anew under its name is two objects, since its stream is another one.
    """

    __repr__ = short_repr

    kind: str
    stream: str
    before: Identifier | None
    after: Identifier | None
    changes: tuple[Change, ...] = ()
    files: tuple[FileChanges, ...] = ()

    @property
    def name(self) -> Identifier:
        """The name after, or before where it was removed."""
        return self.after or self.before or ()

    @property
    def action(self) -> str:
        """`added`, `removed`, `renamed` or `changed`."""
        renamed = self.before is not None and self.after is not None and self.before != self.after
        return "renamed" if renamed else action_of(self.before, self.after)


def action_of(before: object, after: object) -> str:
    """The action between two states of a fact: `added`, `removed` or `changed`."""
    return "added" if before is None else "removed" if after is None else "changed"


def changes_of_facts(before: Facts, after: Facts) -> tuple[Change, ...]:
    """The changes of facts, in their order: those that were there first, then new ones."""
    out = []
    for fact in [*before, *(f for f in after if f not in before)]:
        old, new = before.get(fact), after.get(fact)
        if old != new:
            name = (new or old or ("", ""))[0]
            out.append(Change(fact[0], name, old[1] if old else None, new[1] if new else None))
    return tuple(out)


def rows_of_object(o: ObjectDiff) -> Iterator[dict[str, Any]]:
    """The rows of DIFF_SCHEMA of one object: its name where it changed, each fact, each count of files."""
    same = {"kind": o.kind, "name": name_text(o.name), "stream": o.stream}
    if o.action != "changed":
        names = [None if n is None else name_text(n) for n in (o.before, o.after)]
        yield {**same, "action": o.action, "what": o.kind, "before": names[0], "after": names[1]}
    for c in o.changes:
        yield {**same, "action": c.action, "what": c.what, "key": c.key, "before": c.before, "after": c.after}
    for f in o.files:
        yield {
            **same,
            "action": "changed",
            "what": f.content,
            "key": f.branch,
            "added_files": f.added_files,
            "added_rows": f.added_rows,
            "removed_files": f.removed_files,
            "removed_rows": f.removed_rows,
        }
