"""Schema operations: the changes that `UpdateSchema` records and `evolve_schema` applies.

A column is named by its dotted name in the schema before the change, whatever the other operations of the batch do to
it; a column added in the same batch by the name it was added under. Steps into lists and maps are `element`, `key`
and `value`.
"""

from __future__ import annotations

import enum
from typing import Any, Final, Literal, TypeAlias

from attrs import frozen

from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import Type


class Unset(enum.Enum):
    """The mark for "leave it as it is" where None is a value."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET


class MovePosition(enum.StrEnum):
    """The place that a column is moved to."""

    FIRST = "first"
    BEFORE = "before"
    AFTER = "after"


@frozen
class AddColumn:
    """Adds a column at the end of a struct; `parent` is the path to it, empty for the root.

    A parent that is a list or map stands for its element or value. Ids in `field_type` don't matter, fresh ones are
    assigned. `default` is a Python or internal value; it becomes initial-default and write-default (T9).
    """

    parent: tuple[str, ...]
    name: str
    field_type: Type
    required: bool = False
    doc: str | None = None
    default: Any = None


@frozen
class DeleteColumn:
    """Deletes a column with all below it."""

    path: str


@frozen
class RenameColumn:
    """Gives a column another name; `new_name` is a name, not a path."""

    path: str
    new_name: str


@frozen
class UpdateColumn:
    """Changes the parts that are not None. The write-default stays if it is UNSET, and None clears it."""

    path: str
    field_type: Type | None = None
    required: bool | None = None
    doc: str | None = None
    write_default: Any | Literal[Unset.UNSET] = UNSET


@frozen
class MoveColumn:
    """Moves a column inside its struct; for BEFORE and AFTER, `reference` is the path of the other column."""

    path: str
    position: MovePosition
    reference: str | None = None


@frozen
class SetIdentifierFields:
    """Replaces the identifier fields; the names are those after the change (T5)."""

    names: tuple[str, ...]


@frozen
class UnionByName:
    """Adds the columns that the table lacks, widens types, and makes optional what is optional in `schema`.

    Columns are matched by name, at every depth; nothing is deleted, narrowed or moved. New columns are optional.
    """

    schema: Schema


SchemaOp: TypeAlias = (
    AddColumn | DeleteColumn | RenameColumn | UpdateColumn | MoveColumn | SetIdentifierFields | UnionByName
)
