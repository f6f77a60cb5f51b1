"""PyIceberg's schemas, types, specs, orders and view versions as icecore's: read by their JSON, without an import."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any, Protocol, TypeGuard

from icecore.engine.errors import ValidationError
from icecore.engine.spec.partition import PartitionSpec
from icecore.engine.spec.schema import Schema, type_from_json
from icecore.engine.spec.sort import SortOrder
from icecore.engine.spec.types import Type
from icecore.engine.spec.view import ViewVersion

# The keys of field ids, by the kind of object that they are in.
_IDS = ("id", "element-id", "key-id", "value-id")


class PyIcebergValue(Protocol):
    """A value of PyIceberg's, which writes itself as the JSON of the Iceberg spec."""

    def model_dump_json(self) -> str: ...


def is_pyiceberg_value(given: object) -> TypeGuard[PyIcebergValue]:
    """True for a value of PyIceberg's, found out without importing it."""
    return type(given).__module__.partition(".")[0] == "pyiceberg" and hasattr(given, "model_dump_json")


def schema_of_pyiceberg(given: PyIcebergValue) -> Schema:
    """The schema; where PyIceberg let an id be used twice, the later field gets a new one. Raises ValidationError."""
    tree = _json(given, "fields")
    used: set[int] = set()
    unused = itertools.count(1 + max((node[key] for node, key in _ids(tree)), default=0))
    for node, key in _ids(tree):
        if node[key] in used:
            node[key] = next(unused)
        used.add(node[key])
    return Schema.from_dict(tree)


def type_of_pyiceberg(given: PyIcebergValue) -> Type:
    """The type. Raises ValidationError where it is none."""
    return type_from_json(json.loads(given.model_dump_json()))


def spec_of_pyiceberg(given: PyIcebergValue) -> PartitionSpec:
    """The partition spec. Raises ValidationError where it is none."""
    return PartitionSpec.from_dict(_json(given, "spec-id"))


def order_of_pyiceberg(given: PyIcebergValue) -> SortOrder:
    """The sort order. Raises ValidationError where it is none."""
    return SortOrder.from_dict(_json(given, "order-id"))


def version_of_pyiceberg(given: PyIcebergValue) -> ViewVersion:
    """The version of a view. Raises ValidationError where it is none."""
    return ViewVersion.from_dict(_json(given, "version-id"))


def _json(given: PyIcebergValue, expected: str) -> dict[str, Any]:
    tree = json.loads(given.model_dump_json())
    if not isinstance(tree, dict) or expected not in tree:
        raise ValidationError(f"PyIceberg's {type(given).__name__} is none of what is expected here")
    return tree


def _ids(node: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """The field ids of a schema's JSON, level by level, so that a duplicate is kept where it is nearest to the top."""
    level = [node]
    while level:
        for one in level:
            yield from ((one, key) for key in _IDS if key in one)
        level = [child for one in level for child in _children(one)]


def _children(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from node.get("fields", ())
    yield from (node[key] for key in ("type", "element", "key", "value") if isinstance(node.get(key), dict))
