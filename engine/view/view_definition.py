"""The definition of a view by a caller, as the updates that make it so."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve, frozen

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.location import given_location
from icecore.engine.common.version import VERSION
from icecore.engine.data.arrow.arrow_schema import arrow_to_schema
from icecore.engine.data.given_schema import SchemaLike, given_schema
from icecore.engine.errors import ValidationError, name_text
from icecore.engine.properties.string_properties import string_properties
from icecore.engine.query.prepare_query import query_schema
from icecore.engine.query.source_names import Lookup, NameScope
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.updates.metadata_update import LAST_ADDED, AddSchema, AssignUuid, SetLocation, SetProperties
from icecore.engine.spec.updates.view_update import AddViewVersion, SetCurrentViewVersion, ViewUpdate
from icecore.engine.spec.view import DUCKDB, ViewVersion
from icecore.engine.view.view_dialects import representations_of, sql_for

COMMENT = "comment"
_ALL_TYPES = 3
_FIRST_VERSION = 1


@frozen
class ViewDefinition:
    """A version in the making: its id, that of its schema and its time are assigned when it is committed."""

    version: ViewVersion
    schema: Schema

    @classmethod
    def of(
        cls,
        sql: str | None,
        dialect: str,
        representations: Mapping[str, str] | None,
        schema: SchemaLike | None,
        default_namespace: Identifier,
        default_catalog: str | None,
        summary: Mapping[str, str] | None,
        *,
        name: Identifier,
        lookup: Lookup,
    ) -> ViewDefinition:
        """The definition, with a derived schema where none is given.

        Raises ValidationError, and NoSuchTableError while deriving.
        """
        version = ViewVersion(
            _FIRST_VERSION,
            LAST_ADDED,
            0,
            representations_of(sql, dialect, representations),
            default_namespace,
            default_catalog,
            _summary(summary),
        )
        return cls(version, _schema(schema, version, name, lookup))

    def updates(self, timestamp_ms: int) -> list[ViewUpdate]:
        """The updates that make it the current version."""
        version = evolve(self.version, timestamp_ms=timestamp_ms)
        return [
            AddSchema(self.schema),
            AddViewVersion(version),
            SetCurrentViewVersion(LAST_ADDED),
        ]

    def creation(
        self, view_uuid: str, location: str | None, properties: Mapping[str, str] | None, comment: str | None
    ) -> Callable[[int], list[ViewUpdate]]:
        """The updates that make a view of it, by the time of their commit in milliseconds since the epoch."""
        first = [AssignUuid(view_uuid), *location_updates(location), *property_updates(properties, comment)]
        return lambda timestamp_ms: [*first, *self.updates(timestamp_ms)]


def property_updates(properties: Mapping[str, str] | None, comment: str | None = None) -> list[ViewUpdate]:
    """The update that sets properties, with the comment as one; none where there is nothing to set."""
    found = dict(properties or {}) | ({} if comment is None else {COMMENT: comment})
    return [SetProperties(string_properties(found, "a view's properties"))] if found else []


def location_updates(location: str | None) -> list[ViewUpdate]:
    """The update that sets the location; none where it is not given."""
    return [] if location is None else [SetLocation(given_location(location))]


def _schema(given: SchemaLike | None, version: ViewVersion, name: Identifier, lookup: Lookup) -> Schema:
    if given is None:
        scope = NameScope(version.namespace, version.default_catalog, f"view {name_text(name)}")
        columns = query_schema(lookup, name, sql_for(version, DUCKDB, name_text(name)).sql, scope)
        try:
            return arrow_to_schema(columns, format_version=_ALL_TYPES)
        except ValidationError as e:
            raise ValidationError(f"{scope.owner}: {e}; cast or rename it in the query, or give a schema") from e
    return given_schema(given, format_version=_ALL_TYPES)


def _summary(summary: Mapping[str, str] | None) -> dict[str, str]:
    """The summary of a new version: the engine that makes it (V1), and the caller's entries."""
    given = string_properties(summary, "a view's summary")
    return {"engine-name": "icecore", "engine-version": VERSION} | given
