"""The search of a catalog for a value: is it anywhere, in any snapshot, event or file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icecore.engine.catalog.catalog_handle import CatalogHandle
from icecore.engine.catalog.past.blaming import stream_of_table
from icecore.engine.common.identifiers import IdentifierLike
from icecore.engine.errors import ValidationError

if TYPE_CHECKING:
    from icecore.engine.forget.find_value import FoundValue


def find_value(
    catalog: CatalogHandle,
    value: object,
    *,
    table: IdentifierLike | None = None,
    column: str | None = None,
    exact: bool = False,
) -> FoundValue:
    """All places that hold a value: files of every snapshot and of none, dropped tables, the log and its archives.

    Text is found wherever it is part of a text, in rows with `exact` only where it is the whole. Numbers, days,
    times and UUIDs, written as text or given as such, are found where a column or a bound of it in the log has that
    value. Deleted rows are found as long as their file is there. `table`, a dropped one by the name that it had
    last, limits the search to what belongs to it. `column` limits it to the columns that ever had that name, and to
    texts such as messages only where these have no numbers or days. Defaults of columns are found, and what named
    plans were asked for; other caches follow from the log and are left out. The answer can be kept: see
    `FoundValue`. All files are read. Raises ValidationError, NoSuchTableError, MissingArchiveError,
    CorruptLogError.
    """
    from icecore.engine.forget.find_value import ValueSearch
    from icecore.engine.forget.value_matches import Wanted

    text = str(value)
    if not text:
        raise ValidationError("the empty text is everywhere")
    if column is not None and table is None:
        raise ValidationError("a column is one of a table: name the table too")
    catalog._warehouse.repository.foreign.adopt_all_if_changed()
    stream = None if table is None else stream_of_table(catalog, table)
    return ValueSearch(catalog._warehouse.repository, Wanted(text, exact), stream, column).run()
