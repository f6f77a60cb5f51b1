"""The parts of commits that create, register and replace views, alone or in a transaction of the catalog."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Unpack

from icecore.engine.catalog.table_parts import Locations
from icecore.engine.common.identifiers import Identifier, IdentifierLike, namespace_tuple
from icecore.engine.common.location import to_uri
from icecore.engine.data.given_schema import SchemaLike
from icecore.engine.data.pyiceberg_values import PyIcebergValue, is_pyiceberg_value, version_of_pyiceberg
from icecore.engine.errors import ValidationError
from icecore.engine.events import event as ev
from icecore.engine.foreign.register import view_registration_payload
from icecore.engine.joint_commit.joint_views import NewView, RegisteredView, ViewChange
from icecore.engine.query.source_names import Lookup
from icecore.engine.repository.repository import Repository
from icecore.engine.spec.view import DUCKDB, ViewVersion
from icecore.engine.table.commit_options import DefineView
from icecore.engine.view.view import View
from icecore.engine.view.view_changes import ViewChanges
from icecore.engine.view.view_definition import ViewDefinition


def new_view(
    locations: Locations,
    lookup: Lookup,
    name: Identifier,
    sql: str | None,
    *,
    dialect: str,
    representations: Mapping[str, str] | None,
    schema: SchemaLike | None,
    default_namespace: IdentifierLike | None,
    default_catalog: str | None,
    properties: Mapping[str, str] | None,
    comment: str | None,
    summary: Mapping[str, str] | None,
    location: str | None,
) -> NewView:
    """A view of a query, whose names `lookup` finds. Raises ValidationError, NoSuchTableError."""
    namespace = name[:-1] if default_namespace is None else namespace_tuple(default_namespace)
    definition = ViewDefinition.of(
        sql, dialect, representations, schema, namespace, default_catalog, summary, name=name, lookup=lookup
    )
    view_uuid = str(uuid.uuid4())
    where = locations.new_location(name, view_uuid, location)
    return NewView(name, ev.view_stream(view_uuid), definition.creation(view_uuid, where, properties, comment))


def defined_by(
    version: ViewVersion | PyIcebergValue, definition: DefineView, schema: str | SchemaLike | None
) -> DefineView:
    """The definition of a view that a view version gives, ours or PyIceberg's; nothing else may define it.

    Raises ValidationError.
    """
    own = version_of_pyiceberg(version) if is_pyiceberg_value(version) else version
    if not isinstance(own, ViewVersion):
        raise ValidationError(f"expected a version of a view, found {version!r}")
    columns = definition.get("schema") if schema is None else schema
    said = [name for name in ("representations", "default_catalog", "summary") if definition.get(name) is not None]
    dialects = {DUCKDB, *(r.dialect.lower() for r in own.representations if r.dialect)}
    if definition["dialect"].lower() not in dialects:
        said.append("dialect")
    if said or columns is None or isinstance(columns, str):
        raise ValidationError(f"with a view_version comes a schema, and {', '.join(said) or 'its SQL'} is said by it")
    return {
        "schema": columns,
        "representations": {r.dialect: r.sql for r in own.representations if r.dialect and r.sql},
        "default_namespace": own.default_namespace or definition["default_namespace"],
        "default_catalog": own.default_catalog,
        "summary": own.summary,
    }


def view_replacement(view: View, sql: str | None, **definition: Unpack[DefineView]) -> ViewChange:
    """A change of a view's definition. Raises ValidationError, NoSuchTableError."""
    part = ViewChange(view.name(), view.state.stream)
    ViewChanges(view, part.changes, lambda: None).replace(sql, **definition)
    return part


def registered_view(repository: Repository, name: Identifier, metadata_location: str) -> RegisteredView:
    """A view of another engine.

    Raises MissingFileError, CorruptFileError, UnsupportedFormatVersionError, ForbiddenLocationError.
    """
    repository.location_rules.check_inside(to_uri(metadata_location), "metadata file")
    payload, view_uuid = view_registration_payload(name, metadata_location, repository.storage)
    return RegisteredView(name, repository.models.unused_stream(ev.view_stream(view_uuid)), payload)
