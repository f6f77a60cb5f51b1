"""Avro schemas: those that Iceberg types are written as, and those of any writer, read by field id.

Spec: Appendix A, Avro (M7). A *plain* type is a type of a writer's schema with its references resolved: a dict with a
`type` that is a string, or a list of those (a union).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, assert_never

from attrs import frozen

from icecore.engine.errors import CorruptFileError
from icecore.engine.spec.single_value import decimal_size
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

FIELD_ID = "field-id"
FIELD_NAME = "iceberg-field-name"
MOST_TYPES = 10_000
"""The most types in the schema of a manifest or list: where types are named twice, few words may stand for many."""
MOST_FIXED_BYTES = 2**24
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


def field(name: str, field_id: int, avro_type: Any, *, optional: bool = False) -> dict[str, Any]:
    """A record field with its id; an optional one is a union with null and defaults to it.

    A name that Avro does not allow is sanitized, the original kept beside it.
    """
    avro_name = sanitize(name)
    out: dict[str, Any] = {"name": avro_name, "type": ["null", avro_type] if optional else avro_type}
    if optional:
        out["default"] = None
    if avro_name != name:
        out[FIELD_NAME] = name
    return {**out, FIELD_ID: field_id}


def record_fields(fields: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The fields of one record. A name that an earlier field has after both were sanitized gets its id behind it."""
    out, taken = [], set[str]()
    for f in fields:
        name = f["name"] if f["name"] not in taken else f"{f['name']}_{f[FIELD_ID]}"
        free = _free(name, taken)
        out.append(f if free == f["name"] else {**f, "name": free, FIELD_NAME: f.get(FIELD_NAME, f["name"])})
    return out


def int_map(key_id: int, value_id: int, value: str) -> dict[str, Any]:
    """A map with integer keys: in Avro an array of pairs, as its own maps have string keys only."""
    pair = {
        "type": "record",
        "name": f"k{key_id}_v{value_id}",
        "fields": [field("key", key_id, "int"), field("value", value_id, value)],
    }
    return {"type": "array", "logicalType": "map", "items": pair}


def array(element_id: int, element: Any) -> dict[str, Any]:
    """A list with required elements."""
    return {"type": "array", "items": element, "element-id": element_id}


def avro_type(iceberg_type: PrimitiveType, taken: set[str]) -> Any:  # noqa: C901  # one case a type
    """The Avro type of a primitive. `taken` collects names: a named type is defined once in a schema.

    The second definition gets a name of its own rather than a reference, which not every reader resolves.
    """
    match iceberg_type:
        case BooleanType():
            return "boolean"
        case IntegerType():
            return "int"
        case LongType():
            return "long"
        case FloatType():
            return "float"
        case DoubleType():
            return "double"
        case DateType():
            return {"type": "int", "logicalType": "date"}
        case TimeType():
            return {"type": "long", "logicalType": "time-micros"}
        case TimestampType() | TimestamptzType():
            with_zone = isinstance(iceberg_type, TimestamptzType)
            return {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": with_zone}
        case TimestampNanoType() | TimestamptzNanoType():
            with_zone = isinstance(iceberg_type, TimestamptzNanoType)
            return {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": with_zone}
        case StringType():
            return "string"
        case UUIDType():
            return {"type": "fixed", "size": 16, "name": _free("uuid_fixed", taken), "logicalType": "uuid"}
        case FixedType(length=length):
            return {"type": "fixed", "size": length, "name": _free(f"fixed_{length}", taken)}
        case DecimalType(precision=precision, scale=scale):
            return {
                "type": "fixed",
                "size": decimal_size(precision),
                "name": _free(f"decimal_{precision}_{scale}", taken),
                "logicalType": "decimal",
                "precision": precision,
                "scale": scale,
            }
        case BinaryType() | GeometryType() | GeographyType() | VariantType() | UnknownType():
            return "bytes"
        case _:
            assert_never(iceberg_type)


@lru_cache(maxsize=1024)
def sanitize(name: str) -> str:
    """A name that Avro allows, the same that Iceberg's Java library makes of it.

    Letters and digits of all scripts stay; other characters become `_x` and their hexadecimal UTF-16 code, and a digit
    at the start gets a `_`.
    """
    out = []
    for i, c in enumerate(name):
        in_plane = ord(c) < 0x10000
        if c == "_" or (in_plane and (c.isalpha() or (i > 0 and c.isdecimal()))):
            out.append(c)
        elif in_plane and c.isdecimal():
            out.append(f"_{c}")
        else:
            out += [f"_x{unit:X}" for unit in _utf16(c)]
    return "".join(out) or "_"


def _utf16(c: str) -> list[int]:
    data = c.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2)]


def _free(name: str, taken: set[str]) -> str:
    candidate, i = name, 1
    while candidate in taken:
        i += 1
        candidate = f"{name}_{i}"
    taken.add(candidate)
    return candidate


def resolve(schema: Any, where: str) -> Any:
    """A writer's schema as a plain type. Raises CorruptFileError for a recursive schema, and for what is none."""
    try:
        return _resolve(schema, {}, "", where)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as e:
        raise CorruptFileError(f"{where}: the Avro header has no valid schema: {e!r}") from e


def _resolve(schema: Any, named: dict[str, Any], namespace: str, where: str) -> Any:
    """A plain type; `named` has the named types so far, by their full names and by those without a namespace."""
    if isinstance(schema, str):
        if schema in PRIMITIVES:
            return {"type": schema}
        found = named.get(_full_name(schema, namespace), named.get(schema.rpartition(".")[2]))
        if found is None:
            raise CorruptFileError(f"{where}: the Avro schema refers to {schema!r}, which is not a finished type")
        return found
    if isinstance(schema, list):
        return [_resolve(s, named, namespace, where) for s in schema]
    kind = schema["type"]
    if not isinstance(kind, str) or (kind not in PRIMITIVES and kind not in _COMPLEX):
        return _resolve(kind, named, namespace, where)
    out = dict(schema)
    name = str(schema.get("name", ""))
    full = _full_name(name, str(schema.get("namespace") or namespace))
    match kind:
        case "record" | "error":
            inner = full.rpartition(".")[0]
            out["fields"] = [
                {**f, "name": str(f["name"]), "type": _resolve(f["type"], named, inner, where)}
                for f in schema["fields"]
            ]
        case "array":
            out["items"] = _resolve(schema["items"], named, namespace, where)
        case "map":
            out["values"] = _resolve(schema["values"], named, namespace, where)
        case "fixed":
            out["size"] = int(schema["size"])
            if not 0 <= out["size"] <= MOST_FIXED_BYTES:
                raise CorruptFileError(f"{where}: the Avro schema has a fixed type of {out['size']} bytes")
    if kind in _NAMED:
        named[full] = out
        named.setdefault(name.rpartition(".")[2], out)
    return out


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


_NAMED = frozenset({"record", "error", "enum", "fixed"})
_COMPLEX = _NAMED | {"array", "map"}


@frozen
class Optional:
    """A plain type without its union with null, and whether there was one."""

    inner: Any
    optional: bool


def unwrap(plain: Any) -> Optional | None:
    """A plain type without its union with null; None for a union of any other kind."""
    if not isinstance(plain, list):
        return Optional(plain, False)
    rest = [t for t in plain if t["type"] != "null"]
    return Optional(rest[0], True) if len(rest) == 1 and len(plain) == 2 else None


class Stripper:
    """Rewrites plain types so that they decode to raw values: the bytes read the same, names and meanings are gone.

    int becomes long (the range is checked later), a map an array of pairs with string keys, an enum an int; logical
    types, documentation and defaults are dropped; named types get new names. Field names stay. Raises CorruptFileError
    naming `where` for a schema with which a few bytes would be decoded for hours.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._names = itertools.count()
        self._types = itertools.count(1)

    def strip(self, plain: Any) -> Any:
        """A plain type as it is decoded; type names are not used twice. Raises CorruptFileError."""
        if next(self._types) > MOST_TYPES:
            raise CorruptFileError(f"{self._where}: the Avro schema has more than {MOST_TYPES:,} types")
        if isinstance(plain, list):
            return [self.strip(t) for t in plain]
        match plain["type"]:
            case "int" | "enum":
                return "long"
            case "fixed":
                return {"type": "fixed", "name": self._name(), "size": plain["size"]}
            case "array":
                return self.array(self.strip(plain["items"]))
            case "map":
                return self.array(self.pair("string", self.strip(plain["values"])))
            case "record" | "error":
                return self.record([(f["name"], self.strip(f["type"])) for f in plain["fields"]])
            case primitive:
                return primitive

    def array(self, items: Any) -> dict[str, Any]:
        """An array of a stripped type. Raises CorruptFileError where an item takes no byte, so that any number fits."""
        if not _takes_bytes(items):
            raise CorruptFileError(f"{self._where}: the Avro schema has an array whose items take no bytes")
        return {"type": "array", "items": items}

    def record(self, fields: list[tuple[str, Any]]) -> dict[str, Any]:
        """A record of stripped fields."""
        return {"type": "record", "name": self._name(), "fields": [{"name": n, "type": t} for n, t in fields]}

    def pair(self, key: Any, value: Any) -> dict[str, Any]:
        """The record of one entry of a map."""
        return self.record([("key", key), ("value", value)])

    def _name(self) -> str:
        return f"n{next(self._names)}"


def _takes_bytes(stripped: Any) -> bool:
    """Whether each value of a stripped type takes a byte at least."""
    if not isinstance(stripped, dict):
        return bool(stripped != "null")
    match stripped["type"]:
        case "record":
            return any(_takes_bytes(f["type"]) for f in stripped["fields"])
        case "fixed":
            return bool(stripped["size"] > 0)
        case _:
            return True
