"""What was: states of the log to look back at, and commits to be undone."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from .filters import Row
from .model import Column, Model, Version


@frozen
class Moment:
    """Main as it was after a position of the log. `names` are those of the references that there were."""

    position: int
    columns: tuple[Column, ...]
    refs: dict[str, Version]
    properties: dict[str, str]

    @classmethod
    def of(cls, position: int, model: Model) -> Moment:
        return cls(position, model.columns, dict(model.refs), dict(model.properties))

    @property
    def main(self) -> Version | None:
        return self.refs.get("main")


@frozen
class RowChange:
    """One event of ours that changed the rows of one branch and nothing else."""

    position: int
    branch: str
    before: tuple[Row, ...]
    after: tuple[Row, ...]

    @classmethod
    def between(cls, before: Moment, after: Moment) -> RowChange | None:
        """What happened between two moments, where that is one such event."""
        changed = [n for n, v in after.refs.items() if before.refs.get(n) is not v]
        same = before.columns == after.columns and before.properties == after.properties
        if after.position != before.position + 1 or not same or len(changed) != 1:
            return None
        if before.refs.keys() != after.refs.keys() or after.refs[changed[0]].parent is not before.refs[changed[0]]:
            return None
        name = changed[0]
        return cls(after.position, name, before.refs[name].rows, after.refs[name].rows)

    def undone(self, rows: Sequence[Row]) -> tuple[Row, ...]:
        """Rows of now without those that came by it, and with those that went."""
        came = _without(self.after, self.before)
        return (*_without(rows, came), *_without(self.before, self.after))


def _without(rows: Sequence[Row], gone: Sequence[Row]) -> tuple[Row, ...]:
    left = list(gone)
    out = []
    for row in rows:
        if row in left:
            left.remove(row)
        else:
            out.append(row)
    return tuple(out)
