"""The clauses of a merge: the pairs of rows that they are for, and their acts. The first clause for a pair acts."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from attrs import define, field, frozen

from icecore.engine.errors import ValidationError
from icecore.engine.spark.change.assignments import Assignments, Values
from icecore.engine.spark.change.own_names import own_names
from icecore.engine.spark.pyspark_api import Column
from icecore.engine.spark.pyspark_api import functions as F
from icecore.engine.spark.read.write_defaults import write_default_sql
from icecore.engine.spark.spark_sql_text import quote
from icecore.engine.spec.schema import Schema


class When(enum.StrEnum):
    """The rows that a clause is for."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    NOT_MATCHED_BY_SOURCE = "not matched by source"


class Then(enum.StrEnum):
    """The act of a clause."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@frozen
class MergeClause:
    """A clause; `values` are by column of the table, by default the source's columns of the same names."""

    when: When
    then: Then
    condition: str | Column | None = None
    values: Values | None = field(default=None, repr=False)

    def assignments(self, names: MergeNames) -> Assignments:
        """The values of columns. Raises ValidationError where columns are unknown, or would lose nanoseconds."""
        if self.values is None:
            found = {f: ((((), F.col(names.theirs(c)))),) for f, c in names.common().items()}
            assigned = Assignments(found)
        else:
            assigned = Assignments.of(self.values, names.schema, case_sensitive=names.case_sensitive)
        if self.then is Then.UPDATE:
            assigned.check_kept(names.schema)
        elif any(path for parts in assigned.by_column.values() for path, _ in parts):
            raise ValidationError("an inserted row has no struct yet of which a field could be set")
        return assigned

    def outputs(self, names: MergeNames) -> dict[str, Column]:
        """The new row, by column of the table; an inserted one lacks columns without value and default.

        Raises ValidationError where a default has nanoseconds, of which Spark has none.
        """
        assigned, out = self.assignments(names), {}
        for f in names.schema.fields:
            if self.then is Then.UPDATE:
                out[f.name] = assigned.column(f, F.col(names.mine(f.name)))
            elif f.name in assigned.by_column:
                out[f.name] = assigned.column(f, F.lit(None))
            elif (default := write_default_sql(f)) is not None:
                out[f.name] = F.expr(default)
        return out


@define(frozen=True, slots=False)
class MergeNames:
    """The names that expressions know: of the table and the source, and of their columns."""

    target: str
    source: str
    schema: Schema
    source_columns: tuple[str, ...]
    case_sensitive: bool

    def mine(self, column: str) -> str:
        """SQL of a column of the table, by its second name where it has one."""
        return quote(self.target, self._own_names_of_table.get(column, column))

    def theirs(self, column: str) -> str:
        """SQL of a column of the source, likewise."""
        return quote(self.source, self.own_names.get(column, column))

    @cached_property
    def _own_names_of_table(self) -> Mapping[str, str]:
        return own_names([f.name for f in self.schema.fields], case_sensitive=self.case_sensitive)

    @cached_property
    def own_names(self) -> Mapping[str, str]:
        """The second names of columns of the source that have one."""
        return own_names(self.source_columns, case_sensitive=self.case_sensitive)

    def common(self) -> dict[str, str]:
        """The columns of the table that the source has too, with its names of them.

        Names that differ in case match where each side has only one of them, unless the session is case sensitive.
        Raises ValidationError where no column matches, and where it can't be told which one is meant.
        """
        known = [f.name for f in self.schema.fields]
        common = {name: name for name in known if name in self.source_columns}
        if not self.case_sensitive:
            common |= self._alike(known)
        if not common:
            raise ValidationError("the source has no column of the table")
        return {name: common[name] for name in known if name in common}

    def _alike(self, known: Sequence[str]) -> dict[str, str]:
        """The columns whose names differ in case, by the table's names."""
        theirs, alike = _by_lower_case(self.source_columns), dict[str, str]()
        for lower, names in _by_lower_case(known).items():
            columns = [c for c in theirs.get(lower, ()) if c not in names]
            if not columns or (len(names) == 1 and names[0] in theirs[lower]):
                continue
            if len(names) > 1 or len(columns) > 1:
                raise ValidationError(
                    f"it can't be told which of the source's columns {', '.join(map(repr, columns))} is which of the "
                    f"table's {', '.join(map(repr, names))}"
                )
            alike[names[0]] = columns[0]
        return alike


def _by_lower_case(names: Sequence[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.lower(), []).append(name)
    return found


def check_clauses(clauses: Sequence[MergeClause]) -> None:
    """Raises ValidationError for no clause, and for one that never acts, as an earlier one has no condition."""
    if not clauses:
        raise ValidationError("a merge must have a clause")
    closed: set[When] = set()
    for clause in clauses:
        if clause.when in closed:
            raise ValidationError(f"a clause for rows {clause.when} comes after one without a condition")
        if clause.condition is None:
            closed.add(clause.when)


def condition_of(condition: Any) -> Column:
    """A condition in Spark's SQL, or as a Column. Raises ValidationError for anything else."""
    if isinstance(condition, Column):
        return condition
    if not isinstance(condition, str):
        raise ValidationError(f"a condition is SQL text or a Column, found {type(condition).__name__}")
    return F.expr(condition)
