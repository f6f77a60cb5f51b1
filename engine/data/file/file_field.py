"""The columns of a data file: names, types, and field ids where the file or a name mapping gives them.

Spec: Column Projection (P1, P2), Appendix A.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from attrs import evolve, frozen

from icecore.engine.common.text import number_in
from icecore.engine.data.arrow.arrow_schema import FIELD_ID_KEY, is_list_like
from icecore.engine.errors import CorruptFileError
from icecore.engine.spec.name_mapping import NameMapping

_ORC_ID_KEY = b"iceberg.id"


@frozen
class FileField:
    """One column of a file. `first_leaf` and `leaves` number the primitive columns under it, in the file's order.

    The children of a list are its element, those of a map its key and value, whatever the file calls them.
    """

    name: str
    field_id: int | None
    type: pa.DataType
    children: tuple[FileField, ...]
    first_leaf: int
    leaves: int


def file_fields(schema: pa.Schema) -> tuple[FileField, ...]:
    """The columns of a file's Arrow schema, with the ids that Parquet or ORC keep beside them."""
    return _numbered(schema, 0)


def _numbered(fields: Iterable[pa.Field], leaf: int) -> tuple[FileField, ...]:
    out = []
    for f in fields:
        made = _file_field(f, leaf)
        leaf += made.leaves
        out.append(made)
    return tuple(out)


def _file_field(f: pa.Field, leaf: int) -> FileField:
    children = _numbered(_children(f.type), leaf)
    leaves = sum(c.leaves for c in children) if children else 1
    return FileField(f.name, _field_id(f), f.type, children, leaf, leaves)


def _children(t: pa.DataType) -> list[pa.Field]:
    if pa.types.is_struct(t):
        return list(t)
    if pa.types.is_map(t):
        return [t.key_field.with_name("key"), t.item_field.with_name("value")]
    return [t.value_field.with_name("element")] if is_list_like(t) else []


def _field_id(f: pa.Field) -> int | None:
    metadata = f.metadata or {}
    text = metadata.get(FIELD_ID_KEY) or metadata.get(_ORC_ID_KEY)
    return None if text is None else number_in(text.decode("ascii", "replace"))


def walk_file(fields: Iterable[FileField]) -> Iterator[FileField]:
    """All columns of a file, parents before their children."""
    for f in fields:
        yield f
        yield from walk_file(f.children)


def check_names(fields: Iterable[FileField], where: str) -> None:
    """Raises CorruptFileError if two columns of one struct have the same name; `where` names the file."""
    seen: set[str] = set()
    for f in fields:
        if f.name in seen:
            raise CorruptFileError(f"{where}: two columns are called {f.name!r}")
        seen.add(f.name)
        check_names(f.children, where)


def has_ids(fields: Iterable[FileField]) -> bool:
    """Whether any column has an id; a name mapping applies only to files without ids."""
    return any(f.field_id is not None for f in walk_file(fields))


def with_mapping(fields: tuple[FileField, ...], mapping: NameMapping) -> tuple[FileField, ...]:
    """The columns with the ids that a name mapping gives to their names; without an id if the name is not mapped."""
    out = []
    for f in fields:
        found = mapping.find(f.name)
        inner = with_mapping(f.children, found.fields if found else NameMapping())
        out.append(evolve(f, field_id=found.field_id if found else None, children=inner))
    return tuple(out)
