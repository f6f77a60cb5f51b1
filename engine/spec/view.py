"""View metadata, format version 1, with its JSON. Spec: View spec (V1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from attrs import define, field, frozen

from icecore.engine.common.compressed_json import decompress
from icecore.engine.common.json_reader import get, get_list, get_str_map, keys_of, loads, unknown
from icecore.engine.common.text import short_repr
from icecore.engine.errors import UnsupportedFormatVersionError, ValidationError
from icecore.engine.spec.schema import Schema

WHERE = "view metadata"
VIEW_FORMAT_VERSION = 1
DUCKDB = "duckdb"
"""The dialect of SQL that runs here."""


@frozen
class ViewRepresentation:
    """One representation of a view's query. Type `sql` has `sql` and `dialect`; other types keep their fields."""

    type: str
    sql: str | None = None
    dialect: str | None = None
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        own = {"type": self.type, "sql": self.sql, "dialect": self.dialect}
        return {k: v for k, v in own.items() if v is not None} | dict(self.extra)

    @classmethod
    def from_dict(cls, obj: Any) -> ViewRepresentation:
        """The representation of a JSON object. Raises ValidationError where it is none."""
        where = "view representation"
        kind = get(obj, "type", str, where)
        required: Any = {} if kind == "sql" else {"default": None}
        return cls(
            kind,
            get(obj, "sql", str, where, **required),
            get(obj, "dialect", str, where, **required),
            unknown(obj, frozenset({"type", "sql", "dialect"})),
        )


@frozen
class ViewVersion:
    """One immutable version of a view."""

    __repr__ = short_repr

    version_id: int
    schema_id: int
    timestamp_ms: int
    representations: tuple[ViewRepresentation, ...]
    default_namespace: tuple[str, ...]
    default_catalog: str | None = None
    summary: Mapping[str, str] = field(factory=dict)
    extra: Mapping[str, Any] = field(factory=dict)

    @property
    def dialects(self) -> frozenset[str]:
        """The dialects that the version has SQL for, in lower case."""
        return frozenset(r.dialect.lower() for r in self.representations if r.type == "sql" and r.dialect is not None)

    @property
    def namespace(self) -> tuple[str, ...]:
        """The default namespace as names; clients once gave it levels that are no text."""
        return tuple(map(str, self.default_namespace))

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "version-id": self.version_id,
            "timestamp-ms": self.timestamp_ms,
            "schema-id": self.schema_id,
            "summary": dict(self.summary),
        }
        if self.default_catalog is not None:
            out["default-catalog"] = self.default_catalog
        out["default-namespace"] = list(self.default_namespace)
        out["representations"] = [r.to_dict() for r in self.representations]
        return out | dict(self.extra)

    @classmethod
    def from_dict(cls, obj: Any) -> ViewVersion:
        """The view version of a JSON object. Raises ValidationError where it is none."""
        where = f"view version {obj.get('version-id')}" if isinstance(obj, Mapping) else "view version"
        return cls(
            get(obj, "version-id", int, where),
            get(obj, "schema-id", int, where),
            get(obj, "timestamp-ms", int, where),
            tuple(ViewRepresentation.from_dict(r) for r in get_list(obj, "representations", where)),
            tuple(get_list(obj, "default-namespace", where)),
            get(obj, "default-catalog", str, where, None),
            get_str_map(obj, "summary", where),
            unknown(obj, _VERSION_KEYS),
        )


_VERSION_KEYS = keys_of(ViewVersion)


@frozen
class ViewHistoryEntry:
    """A change of the current version, in the version log: the version and the time at which it became current."""

    timestamp_ms: int
    version_id: int
    extra: Mapping[str, Any] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {"timestamp-ms": self.timestamp_ms, "version-id": self.version_id, **self.extra}

    @classmethod
    def from_dict(cls, obj: Any) -> ViewHistoryEntry:
        """The entry of a JSON object. Raises ValidationError where it is none."""
        where = "version-log entry"
        known = frozenset({"timestamp-ms", "version-id"})
        return cls(get(obj, "timestamp-ms", int, where), get(obj, "version-id", int, where), unknown(obj, known))


@define(frozen=True)
class ViewMetadata:
    """View metadata. Raises ValidationError where ids point nowhere."""

    __repr__ = short_repr

    view_uuid: str
    location: str
    schemas: tuple[Schema, ...]
    current_version_id: int
    versions: tuple[ViewVersion, ...]
    version_log: tuple[ViewHistoryEntry, ...] = ()
    properties: Mapping[str, str] = field(factory=dict)
    format_version: int = VIEW_FORMAT_VERSION
    extra: Mapping[str, Any] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.format_version != VIEW_FORMAT_VERSION:
            raise UnsupportedFormatVersionError(f"{WHERE} has format version {self.format_version}; supported is 1")
        self.schema()

    def current_version(self) -> ViewVersion:
        """The current version. Raises ValidationError where there is none."""
        for version in self.versions:
            if version.version_id == self.current_version_id:
                return version
        raise ValidationError(f"{WHERE}: current-version-id {self.current_version_id} is not among the versions")

    def schema(self) -> Schema:
        """The schema of the current version. Raises ValidationError where there is none."""
        schema_id = self.current_version().schema_id
        for schema in self.schemas:
            if schema.schema_id == schema_id:
                return schema
        raise ValidationError(f"{WHERE}: there is no schema {schema_id}")

    def to_dict(self) -> dict[str, Any]:
        out: dict[str, Any] = {
            "view-uuid": self.view_uuid,
            "format-version": self.format_version,
            "location": self.location,
        }
        if self.properties:
            out["properties"] = dict(self.properties)
        return {
            **out,
            "schemas": [s.to_dict() for s in self.schemas],
            "current-version-id": self.current_version_id,
            "versions": [v.to_dict() for v in self.versions],
            "version-log": [e.to_dict() for e in self.version_log],
            **self.extra,
        }

    def to_json(self) -> bytes:
        """The bytes of a metadata file, uncompressed."""
        return orjson.dumps(self.to_dict())

    @classmethod
    def from_json(cls, data: bytes | str) -> ViewMetadata:
        """The metadata of a view metadata file, gzip-compressed or not. Raises as `from_dict` does."""
        return cls.from_dict(loads(decompress(data, WHERE), WHERE))

    @classmethod
    def from_dict(cls, obj: dict[str, Any]) -> ViewMetadata:
        """The metadata of a view metadata file's JSON object.

        Raises UnsupportedFormatVersionError for a version other than 1, ValidationError for anything else that is
        wrong.
        """
        version = get(obj, "format-version", int, WHERE)
        if version != VIEW_FORMAT_VERSION:
            raise UnsupportedFormatVersionError(f"{WHERE} has format version {version}; supported is 1")
        return cls(
            get(obj, "view-uuid", str, WHERE),
            get(obj, "location", str, WHERE),
            tuple(Schema.from_dict(s, default_id=i) for i, s in enumerate(get_list(obj, "schemas", WHERE))),
            get(obj, "current-version-id", int, WHERE),
            tuple(ViewVersion.from_dict(v) for v in get_list(obj, "versions", WHERE)),
            tuple(ViewHistoryEntry.from_dict(e) for e in get_list(obj, "version-log", WHERE)),
            get_str_map(obj, "properties", WHERE, {}),
            version,
            unknown(obj, _KNOWN),
        )


_KNOWN = keys_of(ViewMetadata)
