"""SQL over the rows of a catalog's tables and views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from icecore.engine.common.identifiers import IdentifierLike, namespace_tuple

if TYPE_CHECKING:
    from icecore.engine.query.query_answer import QueryAnswer
    from icecore.engine.query.query_sources import QueryCatalog


def query(
    catalog: QueryCatalog,
    sql: str,
    parameters: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    namespace: IdentifierLike | None = None,
    timeout: float | None = None,
    memory_limit: str | None = None,
) -> QueryAnswer:
    """The answer of one SELECT in DuckDB's SQL over rows, computed when they are asked for.

    It names tables and views, `namespace.table`, or `table` alone in the `namespace` given. A table is asked as of a
    snapshot, ref or time by `AT (VERSION => ...)` and `AT (TIMESTAMP => ...)`; `namespace.table.files` and its like are
    its metadata tables. Only files that can have rows that are needed are read, and only columns that are. `parameters`
    gives the values of `$name` by name, or those of `?` and `$1` by position; `timeout` is in seconds, `memory_limit` a
    size, as `512MB`. Raises ValidationError with DuckDB's words where the query is wrong, NoSuchTableError with names
    like the unknown one, NoSuchSnapshotError.
    """
    from icecore.engine.query.prepare_query import prepare_query

    levels = () if namespace is None else namespace_tuple(namespace)
    return prepare_query(catalog, sql, parameters, levels, timeout, memory_limit)
