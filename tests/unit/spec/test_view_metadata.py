"""View metadata: JSON both ways, and what is refused (V1)."""

from __future__ import annotations

import copy
import gzip
import json
from typing import Any

import pytest

from icecore.engine.errors import UnsupportedFormatVersionError, ValidationError
from icecore.engine.spec.view import ViewMetadata

VIEW: dict[str, Any] = {
    "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385",
    "format-version": 1,
    "location": "s3://b/v",
    "properties": {"comment": "Daily counts"},
    "schemas": [
        {
            "type": "struct",
            "schema-id": 1,
            "fields": [{"id": 1, "name": "n", "required": False, "type": "long", "doc": "how many"}],
        }
    ],
    "current-version-id": 2,
    "versions": [
        {
            "version-id": n,
            "timestamp-ms": 1000 + n,
            "schema-id": 1,
            "summary": {"engine-name": "Spark"},
            "default-catalog": "prod",
            "default-namespace": ["a", "b"],
            "representations": [{"type": "sql", "sql": f"SELECT {n}", "dialect": "spark"}],
        }
        for n in (1, 2)
    ],
    "version-log": [{"timestamp-ms": 1001, "version-id": 1}, {"timestamp-ms": 1002, "version-id": 2}],
}


def test_v1_a_view_comes_back_as_it_was() -> None:
    """V1: JSON is read and written without a change, unknown fields and representations too, gzip too."""
    obj = copy.deepcopy(VIEW)
    obj["later"] = 1
    obj["versions"][0]["later"] = 2
    obj["version-log"][0]["later"] = 3
    obj["versions"][0]["representations"].append({"type": "substrait", "plan": "abc"})
    found = ViewMetadata.from_json(json.dumps(obj))
    assert json.loads(found.to_json()) == obj
    assert ViewMetadata.from_json(gzip.compress(found.to_json())) == found
    assert found.current_version().representations[0].sql == "SELECT 2"
    assert found.schema().find_field("n").doc == "how many"


@pytest.mark.parametrize(
    "name",
    ["view-uuid", "format-version", "location", "schemas", "current-version-id", "versions", "version-log"],
)
def test_v1_required_fields(name: str) -> None:
    """V1: a view that lacks a required field is refused with its name."""
    obj = {k: v for k, v in VIEW.items() if k != name}
    with pytest.raises(ValidationError, match=name):
        ViewMetadata.from_json(json.dumps(obj))


@pytest.mark.parametrize(
    "name", ["version-id", "timestamp-ms", "schema-id", "summary", "default-namespace", "representations"]
)
def test_v1_required_fields_of_a_version(name: str) -> None:
    """V1: so is a version."""
    obj = copy.deepcopy(VIEW)
    del obj["versions"][0][name]
    with pytest.raises(ValidationError, match=name):
        ViewMetadata.from_json(json.dumps(obj))


@pytest.mark.parametrize(
    "change",
    [
        {"current-version-id": 9},
        {"schemas": []},
        {"versions": []},
        {"versions": [{**VIEW["versions"][1], "schema-id": 9}]},
        {"versions": [{**VIEW["versions"][1], "representations": [{"type": "sql", "sql": "SELECT 1"}]}]},
        {"properties": {"a": [1]}},
        {"version-log": [1]},
    ],
)
def test_v1_ids_that_point_nowhere_are_refused(change: dict[str, Any]) -> None:
    """V1: what contradicts itself is refused."""
    with pytest.raises(ValidationError):
        ViewMetadata.from_json(json.dumps({**VIEW, **change}))


def test_v1_other_versions_are_refused() -> None:
    """V1: only format version 1 is known."""
    with pytest.raises(UnsupportedFormatVersionError):
        ViewMetadata.from_json(json.dumps({**VIEW, "format-version": 2}))
    for text in ("", "[]", "null", "{"):
        with pytest.raises(ValidationError):
            ViewMetadata.from_json(text)
