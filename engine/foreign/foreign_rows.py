"""The rows of tables and namespaces in the SQLite file that other engines changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from attrs import frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.stored_json import stored_json
from icecore.engine.common.text import shown_text
from icecore.engine.errors import CorruptLogError
from icecore.engine.log.read_models import MINIMAL_PROPERTIES, SEPARATOR
from icecore.engine.log.store import EventStore

FOREIGN = "log/foreign.sql"
VIEW_TYPE = "VIEW"


@frozen
class Difference:
    """One table or view that the log and `iceberg_tables` tell differently.

    `logged_location` is what the log published last, `row_location` what the row says: None where it is gone. `stream`
    is None where the log knows no such name. `previous` is what the row's writer says to have replaced, and `is_view`
    what the row holds; where it does not say that, what the log has. Of a row that is not `is_text` nothing is known:
    it has bytes where the text of a name or location belongs.
    """

    identifier: Identifier
    stream: str | None
    logged_location: str | None
    row_location: str | None
    previous: str | None
    is_view: bool
    is_text: bool = True


def _properties(text: str) -> dict[str, str]:
    """A namespace's properties; none where the row can't be read, which is compared with the log before it is used."""
    try:
        return stored_json(text, dict, "the row of a namespace")
    except CorruptLogError:
        return {}


@frozen
class NamespaceDifference:
    """A namespace that the log and `iceberg_namespace_properties` tell differently; None where there is none.

    Of one that is not `is_text` nothing is known: its rows have bytes where text belongs.
    """

    namespace: Identifier
    logged_properties: dict[str, str] | None
    row_properties: dict[str, str] | None
    is_text: bool = True


@frozen
class NumberedHead:
    """A file system table, by its last published file."""

    identifier: Identifier
    stream: str
    logged_location: str


class ForeignRows:
    """The comparison of the tables that other engines write with the read models."""

    def __init__(self, store: EventStore, catalog_name: str) -> None:
        self._store = store
        self._catalog = catalog_name

    def differences(self) -> list[Difference]:
        """All differences, by name."""
        return self._differences("differences")

    def of_stream(self, stream: str) -> Difference | None:
        """The difference of one table or view that has a name."""
        return next(iter(self._differences("of_stream", stream=stream)), None)

    def of_name(self, identifier: Identifier) -> Difference | None:
        """The row under a name that the log doesn't know."""
        namespace = SEPARATOR.join(identifier[:-1])
        return next(iter(self._differences("of_name", namespace=namespace, name=identifier[-1])), None)

    def _differences(self, query_name: str, /, **parameters: str) -> list[Difference]:
        return [_difference(r) for r in self._store.rows(FOREIGN, query_name, catalog=self._catalog, **parameters)]

    def streams_at(self, location: str | None) -> list[str]:
        """The streams whose published metadata file is this one, dropped ones too."""
        return [r["stream"] for r in self._store.rows(FOREIGN, "streams_at", location=location)]

    def numbered_heads(self) -> list[NumberedHead]:
        """The file system tables."""
        return [
            NumberedHead((*r["namespace"].split(SEPARATOR), r["name"]), r["stream"], r["known"])
            for r in self._store.rows(FOREIGN, "numbered_heads")
        ]

    def namespaces(self) -> list[NamespaceDifference]:
        """The namespaces that differ, outer ones first."""
        known = {r["name"]: _properties(r["properties"]) for r in self._store.rows(FOREIGN, "namespaces")}
        shared, not_text = dict[str, dict[str, str]](), set[str]()
        for r in self._store.rows(FOREIGN, "namespace_properties", catalog=self._catalog):
            name, key, value = map(shown_text, r)
            shared.setdefault(name, {})[key] = value
            if not _is_text(r):
                not_text.add(name)
        out = []
        for name in sorted(known.keys() | shared.keys()):
            ours, theirs, is_text = known.get(name), shared.get(name), name not in not_text
            if (
                ours is None
                or theirs is None
                or not is_text
                or MINIMAL_PROPERTIES | ours != MINIMAL_PROPERTIES | theirs
            ):
                out.append(NamespaceDifference(tuple(name.split(SEPARATOR)), ours, theirs, is_text))
        return out


def _difference(row: sqlite3.Row) -> Difference:
    namespace, name, shared, previous, kind = (
        None if row[c] is None else shown_text(row[c])
        for c in ("namespace", "name", "shared", "previous", "iceberg_type")
    )
    assert namespace is not None and name is not None, "both tables forbid it"
    is_view = (kind or row["kind"] or "").upper() == VIEW_TYPE
    identifier = (*namespace.split(SEPARATOR), name)
    return Difference(identifier, row["stream"], row["known"], shared, previous, is_view, _is_text(row))


def _is_text(row: Iterable[object]) -> bool:
    return not any(isinstance(value, bytes) for value in row)
