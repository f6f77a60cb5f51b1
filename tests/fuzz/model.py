"""What the table must hold: columns, rows of each snapshot, references. As naive as can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import define, evolve, field, frozen

from .filters import Filter, Row
from .values import sorted_rows


@frozen
class Column:
    """A column; its key stays when it is renamed or promoted, and is never used again."""

    key: int
    name: str
    type: str
    default: Any = None

    @property
    def is_float(self) -> bool:
        return self.type in ("float", "double")

    @property
    def is_struct(self) -> bool:
        """Whether nothing is compared with it, sorted by it or deleted by it here."""
        return self.type == "struct"

    def of(self, row: Row) -> Any:
        """The value in a row; rows from before the column was added have its default."""
        return row.get(self.key, self.default)


@define(eq=False)
class Version:
    """The rows that a snapshot has. `appended` is set where the snapshot only added rows."""

    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    parent: Version | None = None
    appended: tuple[Row, ...] | None = None
    snapshot_id: int | None = None
    is_expired: bool = False
    staged_as: str | None = None
    is_known: bool = True
    is_picked: bool = False

    def is_ancestor_of(self, other: Version | None) -> bool:
        while other is not None and other is not self:
            other = other.parent
        return other is self


@define
class Model:
    """One table. Rows are never changed in place."""

    columns: tuple[Column, ...]
    format_version: int
    refs: dict[str, Version] = field(factory=dict)
    tags: set[str] = field(factory=set)
    versions: list[Version] = field(factory=list)
    properties: dict[str, str] = field(factory=dict)
    equality_keys: set[int] = field(factory=set)
    has_picked: bool = False
    """Whether a file may have come again after deletes of its rows."""
    next_key: int = 100
    next_id: int = 1

    @property
    def plain(self) -> list[Column]:
        return [c for c in self.columns if not c.is_struct]

    @property
    def droppable(self) -> list[Column]:
        """Columns that nothing needs: Java can't read a table whose equality deletes are by a column that is gone."""
        return [c for c in self.columns if c.key not in self.equality_keys]

    @property
    def branches(self) -> list[str]:
        return sorted({"main", *self.refs} - self.tags)

    @property
    def known(self) -> list[Version]:
        """Snapshots that are there and whose rows are known, oldest first."""
        return [v for v in self.versions if v.snapshot_id is not None and v.is_known and not v.is_expired]

    def rows(self, ref: str = "main") -> tuple[Row, ...]:
        return self.refs[ref].rows if ref in self.refs else ()

    def commit(self, branch: str, rows: Iterable[Row], appended: tuple[Row, ...] | None = None) -> Version:
        """The branch has these rows now; one that is not there is made from main."""
        parent = self.refs.get(branch, self.refs.get("main"))
        made = Version(tuple(rows), self.columns, parent, appended)
        self.versions.append(made)
        self.refs[branch] = made
        return made

    def append(self, branch: str, rows: tuple[Row, ...]) -> None:
        self.commit(branch, (*self.at(branch), *rows), rows)

    def stage(self, rows: tuple[Row, ...], name: str) -> None:
        """A snapshot that adds rows to main, and that main does not have."""
        made = Version((*self.rows(), *rows), self.columns, self.refs.get("main"), rows, staged_as=name)
        self.versions.append(made)

    def replace(self, branch: str, gone: Callable[[Row], bool], rows: Iterable[Row] = ()) -> None:
        """Rows go, and others come."""
        self.commit(branch, (*(r for r in self.at(branch) if not gone(r)), *rows))

    def at(self, branch: str) -> tuple[Row, ...]:
        """The rows that a commit to a branch builds on."""
        return self.rows(branch if branch in self.refs else "main")

    def add_column(self, column: Column) -> None:
        self.columns = (*self.columns, column)
        self.next_key = max(self.next_key, column.key) + 1

    def drop_column(self, key: int) -> None:
        self.columns = tuple(c for c in self.columns if c.key != key)

    def rename(self, names: dict[int, str]) -> None:
        self.columns = tuple(evolve(c, name=names.get(c.key, c.name)) for c in self.columns)

    def column(self, key: int) -> Column:
        return next(c for c in self.columns if c.key == key)

    def change_column(self, key: int, **changes: Any) -> None:
        self.columns = tuple(evolve(c, **changes) if c.key == key else c for c in self.columns)


def seen(columns: Sequence[Column], rows: Iterable[Row], where: Filter | None = None) -> list[tuple[Any, ...]]:
    """Rows as a scan gives them, sorted."""
    return sorted_rows([c.of(r) for c in columns] for r in rows if where is None or where.holds(r))
