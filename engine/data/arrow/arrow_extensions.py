"""Arrow's extension types of shapes and variants as Iceberg types.

They are known by name, whether or not a package that defines them is loaded: without one, Arrow keeps the name in the
field's metadata.
"""

from __future__ import annotations

import orjson
import pyarrow as pa

from icecore.engine.errors import ValidationError
from icecore.engine.spec.types import DEFAULT_CRS, EDGE_ALGORITHMS, GeographyType, GeometryType, Type, VariantType

_NAME_KEY, _METADATA_KEY = b"ARROW:extension:name", b"ARROW:extension:metadata"
_VARIANT_NAMES = ("arrow.parquet.variant", "parquet.variant")
_WKB_NAMES = ("geoarrow.wkb", "ogc.wkb")


def extension_type(f: pa.Field) -> Type | None:
    """The Iceberg type of a field that is of an extension type for shapes or variants, None for any other field.

    Raises ValidationError where the coordinate system or the edges of shapes can't be told.
    """
    serialized = (f.metadata or {}).get(_METADATA_KEY, b"")
    if isinstance(f.type, pa.BaseExtensionType):
        serialized = f.type.__arrow_ext_serialize__() if isinstance(f.type, pa.ExtensionType) else b""
    if is_variant(f):
        return VariantType()
    return _shape_type(f.name, serialized) if _name(f) in _WKB_NAMES else None


def is_variant(f: pa.Field) -> bool:
    """Whether a field is of an extension type for variants."""
    return _name(f) in _VARIANT_NAMES


def _name(f: pa.Field) -> str:
    is_type = isinstance(f.type, pa.BaseExtensionType)
    name: str = f.type.extension_name if is_type else (f.metadata or {}).get(_NAME_KEY, b"").decode()
    return name


def _shape_type(name: str, serialized: bytes) -> Type:
    try:
        options = orjson.loads(serialized or b"{}")
    except orjson.JSONDecodeError as e:
        raise ValidationError(f"column {name!r}: the metadata of its shapes is not JSON: {e}") from e
    crs, edges = options.get("crs"), options.get("edges", "planar")
    if isinstance(crs, dict):
        crs_id = crs.get("id", {})
        crs = f"{crs_id['authority']}:{crs_id['code']}" if {"authority", "code"} <= set(crs_id) else ""
    if not isinstance(crs, (str, type(None))) or crs == "":
        raise ValidationError(f"column {name!r}: the coordinate system of its shapes has no id: {str(crs)[:60]!r}")
    if edges == "planar":
        return GeometryType(crs or DEFAULT_CRS)
    if edges not in EDGE_ALGORITHMS:
        raise ValidationError(f"column {name!r}: shapes with {edges!r} edges have no Iceberg type")
    return GeographyType(crs or DEFAULT_CRS, edges)
