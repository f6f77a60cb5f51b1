"""What a schema may not have: reserved ids, defaults of types that have none, times with a zone that is not UTC."""

from __future__ import annotations

import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import MAX_FIELD_ID, Schema, check_format_version
from icecore.engine.spec.types import LongType, NestedField, TimestamptzNanoType, TimestamptzType


def test_T4_reserved_field_ids_are_refused() -> None:
    """The highest free id passes, the one above it is reserved for metadata columns."""
    check_format_version(Schema((NestedField(MAX_FIELD_ID, "a", LongType()),)), 2)
    with pytest.raises(ValidationError, match="reserved"):
        check_format_version(Schema((NestedField(MAX_FIELD_ID + 1, "a", LongType()),)), 2)


@pytest.mark.parametrize("name", ["unknown", "variant", "geometry", "geography"])
@pytest.mark.parametrize("key", ["initial-default", "write-default"])
def test_T2_types_without_defaults(name: str, key: str) -> None:
    """A default of these types must be null."""
    field = {"id": 1, "name": "a", "required": False, "type": name}
    assert Schema.from_dict({"type": "struct", "fields": [{**field, key: None}]}).fields[0].name == "a"
    with pytest.raises(ValidationError, match="must be null"):
        Schema.from_dict({"type": "struct", "fields": [{**field, key: "00"}]})


@pytest.mark.parametrize("iceberg_type", [TimestamptzType(), TimestamptzNanoType()])
def test_MD9_zones_other_than_utc_are_refused(iceberg_type: TimestamptzType | TimestamptzNanoType) -> None:
    """In JSON a timestamp with zone is in UTC."""
    assert single_value.from_json(iceberg_type, "1970-01-01T00:00:01.000000+00:00") > 0
    with pytest.raises(ValidationError):
        single_value.from_json(iceberg_type, "1970-01-01T00:00:01.000000+01:00")
