"""The columns of Parquet files: from marks in the names of files that the engine wrote, else from footers.

Spec: Column Projection (P1, P2). A file without field ids gets them from the table's name mapping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import duckdb
import pyarrow as pa
from attrs import define, field

from icecore.engine.common.text import ascii_lower
from icecore.engine.data.arrow.row_filter import connection
from icecore.engine.data.file.file_field import FileField
from icecore.engine.data.file.schema_mark import mark_of, schema_mark
from icecore.engine.data.read.table_columns import Identification
from icecore.engine.properties.table_properties import NAME_MAPPING
from icecore.engine.queries import duck
from icecore.engine.queries.named_queries import query
from icecore.engine.scan.relation.native_columns import FileColumn, FileColumns, file_columns
from icecore.engine.spec.content_file import ContentFile
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.name_mapping import NameMapping
from icecore.engine.spec.reserved import LINEAGE

SQL = "data/relations.sql"
_AT_ONCE = 1000


@define
class FileFooters:
    """The columns of a table's files. Files with the same columns share one object.

    Marks don't tell of row lineage columns, so all footers are read where these are asked for.
    """

    _metadata: TableMetadata
    _with_lineage: bool = False
    _marks: Mapping[str, FileColumns | None] = field(init=False)
    _known: dict[Any, FileColumns] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        schemas = (*self._metadata.schemas, self._metadata.schema())
        self._marks = {schema_mark(s): file_columns(s.fields) for s in schemas}

    def of(self, files: Sequence[ContentFile], paths: Sequence[str | None]) -> list[FileColumns | None]:
        """The columns of each file; None where DuckDB should not read the file, as one without a path."""
        marks = [mark_of(f.file_path) for f in files]
        asked = [i for i, (m, p) in enumerate(zip(marks, paths, strict=True)) if p is not None and self._is_read(m)]
        read: dict[int, FileColumns | None] = {}
        for start in range(0, len(asked), _AT_ONCE):
            some = asked[start : start + _AT_ONCE]
            read.update(zip(some, self._read([files[i] for i in some], [paths[i] or "" for i in some]), strict=True))
        found: list[FileColumns | None] = []
        for i, (mark, path) in enumerate(zip(marks, paths, strict=True)):
            known = self._marks.get(mark or "")
            if path is None or i not in read:
                found.append(None if path is None else known)
            else:
                found.append(self._and_lineage(known, read[i]) if mark in self._marks else read[i])
        return found

    def _is_read(self, mark: str | None) -> bool:
        return self._with_lineage or mark not in self._marks

    def _and_lineage(self, known: FileColumns | None, read: FileColumns | None) -> FileColumns | None:
        if known is None or read is None:
            return None
        lineage = {f.field_id: read[f.field_id] for f in LINEAGE if f.field_id in read}
        return self._known.setdefault((id(known), *lineage.items()), {**known, **lineage}) if lineage else known

    def _read(self, files: Sequence[ContentFile], paths: Sequence[str]) -> list[FileColumns | None]:
        """The columns by the footers; None for all if one can't be read: the engine's own reader raises its error."""
        try:
            rows = duck.rows(connection(), query(SQL, "footers"), {"files": list(paths)})
        except duckdb.Error:
            return [None] * len(files)
        by_path = {path: [r[1:] for r in elements] for path, elements in groupby(rows, key=lambda r: r[0])}
        return [self._columns(f, by_path.get(p, [])) for f, p in zip(files, paths, strict=True)]

    def _columns(self, file: ContentFile, elements: list[tuple[Any, ...]]) -> FileColumns | None:
        """The columns of one file, from the elements of its schema in depth-first order."""
        top = _top_level(elements)
        if not top or len({ascii_lower(name) for name, *_ in top}) < len(top):
            return None
        if any(e[2] is not None for e in elements):
            ids = [number for _, _, number, *_ in top]
        elif (mapping := NAME_MAPPING.find(self._metadata.properties)) is not None:
            ids = self._identified(file, [name for name, *_ in top], mapping)
        else:
            return None  # the engine's own reader looks at types too
        made = [(i, _column(*element)) for i, element in zip(ids, top, strict=True) if i is not None]
        # The first column of an id counts, as in the engine's own reader.
        return self._known.setdefault(tuple(made), dict(reversed(made)))

    def _identified(self, file: ContentFile, names: list[str], mapping: NameMapping) -> list[int | None]:
        identification = Identification(self._metadata.schema(), mapping)
        fields = tuple(FileField(name, None, pa.null(), (), i, 1) for i, name in enumerate(names))
        return [f.field_id for f in identification.identified(fields, file)]


def _top_level(elements: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The elements right below the root."""
    top, left = [], 0
    for element in elements[1:]:
        if left:
            left -= 1
        else:
            top.append(element)
        left += element[1] or 0
    return top


def _column(name: str, inside: int | None, _: int | None, physical: str | None, kind: str | None) -> FileColumn:
    """A column as the footer has it; nested ones are left to the reader of this engine, and so are odd encodings."""
    return FileColumn(name, kind if not inside and physical != "INT96" else None)
