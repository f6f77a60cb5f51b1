"""Random batches of schema changes give what PyIceberg gives, ids and order included, and fail where it fails."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import Any

import pyiceberg.types as py
import pytest
from pyiceberg.schema import Schema as PySchema
from pyiceberg.table.update.schema import UpdateSchema as PyUpdateSchema

from icecore.engine.errors import ValidationError
from icecore.engine.evolution.schema_evolution import evolve_schema
from icecore.engine.evolution.schema_ops import SchemaOp
from icecore.engine.evolution.update_schema import UpdateSchema
from icecore.engine.spec.schema import Schema, type_from_json
from icecore.engine.spec.types import Type

BATCHES = 900
LAST_ID = 18


def field(field_id: int, name: str, field_type: Any, required: bool = False) -> dict[str, Any]:
    return {"id": field_id, "name": name, "type": field_type, "required": required}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields)}


def list_of(element_id: int, element: Any, required: bool = False) -> dict[str, Any]:
    return {"type": "list", "element-id": element_id, "element": element, "element-required": required}


def map_of(key_id: int, key: Any, value_id: int, value: Any) -> dict[str, Any]:
    return {"type": "map", "key-id": key_id, "key": key, "value-id": value_id, "value": value, "value-required": False}


BASE: dict[str, Any] = {
    **struct(
        field(1, "id", "int", True),
        field(2, "name", "string"),
        field(3, "amount", "decimal(9, 2)"),
        field(4, "place", struct(field(5, "lat", "float"), field(6, "lon", "float"))),
        field(7, "points", list_of(8, struct(field(9, "x", "int", True), field(10, "y", "int")), True)),
        field(11, "m", map_of(12, "string", 13, struct(field(14, "v", "int")))),
        field(15, "tags", list_of(16, "int")),
        field(17, "note", "string"),
        field(18, "size", "float"),
    ),
    "schema-id": 0,
    "identifier-field-ids": [1],
}
# The peer is given types with distinct throw-away ids, we the same; both must replace them.
NESTED = struct(
    field(1, "p", "int"),
    field(2, "q", list_of(3, struct(field(4, "r", "long"), field(5, "s", "string")))),
    field(6, "t", map_of(7, "string", 8, struct(field(9, "u", "date")))),
)
PATHS = (
    *("id", "name", "amount", "place", "place.lat", "place.lon", "points.x", "points.element.y", "m.v", "m.value.v"),
    *("note", "size", "tags", "nope"),
)
PROMOTABLE = (
    *(("id", "long"), ("amount", "decimal(12, 2)"), ("place.lat", "double"), ("points.x", "long")),
    *(("m.v", "long"), ("tags.element", "long"), ("size", "double"), ("name", "int")),
)


def random_call(r: random.Random) -> tuple[str, tuple[Any, ...]]:
    """One call of an update's method; types are JSON, for either side to read."""
    match r.randrange(9):
        case 0:
            return "add_column", ((r.choice(("new", "other", "name")),), r.choice(("int", "string", NESTED)))
        case 1:
            return "add_column", (
                (r.choice(("place", "points", "m", "tags")), r.choice(("new", "x"))),
                r.choice(("int", NESTED)),
            )
        case 2:
            return "delete_column", (r.choice(PATHS),)
        case 3:
            return "rename_column", (r.choice(PATHS), r.choice(("new", "renamed", "amount", "x")))
        case 4:
            return "update_column", r.choice(PROMOTABLE)
        case 5:
            return "make_column_optional", (r.choice(PATHS),)
        case 6:
            return "move_first", (r.choice((*PATHS, "new")),)
        case 7:
            return "move_before", (r.choice(PATHS), r.choice(PATHS))
        case _:
            return "move_after", (r.choice((*PATHS, "new")), r.choice(PATHS))


def ours(calls: list[tuple[str, tuple[Any, ...]]]) -> dict[str, Any] | str:
    committed: list[tuple[SchemaOp, ...]] = []
    update = UpdateSchema(committed.append)
    for method, (path, *rest) in calls:
        if method in ("add_column", "update_column"):
            rest = [our_type(t) for t in rest]
        getattr(update, method)(path, *rest)
    update.commit()
    try:
        evolved, _ = evolve_schema(Schema.from_dict(BASE), committed[0], last_column_id=LAST_ID, format_version=2)
    except ValidationError as e:
        return str(e)
    return evolved.to_dict()


def our_type(given: Any) -> Type:
    return type_from_json(given)


def theirs(calls: list[tuple[str, tuple[Any, ...]]]) -> dict[str, Any] | str:
    base = PySchema.model_validate(BASE)
    metadata = SimpleNamespace(schema=lambda: base, last_column_id=LAST_ID, partition_specs=[], schemas=[base])
    update = PyUpdateSchema(SimpleNamespace(table_metadata=metadata))
    try:
        for method, (path, *rest) in calls:
            if method in ("add_column", "update_column"):
                rest = [py.NestedField.model_validate(field(0, "f", t)).field_type for t in rest]
            getattr(update, method)(path, *rest)
        evolved = json.loads(update._apply().model_dump_json())
    except Exception as e:  # whatever the peer refuses with
        return f"{type(e).__name__}: {e}"
    return Schema.from_dict({**evolved, "schema-id": 0}).to_dict()


def is_known_difference(our: dict[str, Any] | str, their: dict[str, Any] | str) -> bool:
    """Where we are stricter: changes inside of what the batch deletes, which the peer drops without a word."""
    return (
        isinstance(our, str) and isinstance(their, dict) and ("deletes it" in our or "adds to, updates or moves" in our)
    )


def test_t7_batches_of_changes_give_what_pyiceberg_gives() -> None:
    r = random.Random(20260801)
    agreed = refused = 0
    for _ in range(BATCHES):
        calls = [random_call(r) for _ in range(r.randint(1, 4))]
        our, their = ours(calls), theirs(calls)
        if is_known_difference(our, their):
            continue
        if isinstance(our, str) and isinstance(their, str):
            refused += 1
            continue
        assert our == their, calls
        agreed += 1
    assert agreed > BATCHES / 5
    assert refused > BATCHES / 5


@pytest.mark.parametrize("name", ["new", "place"])
def test_t7_nested_types_get_the_ids_that_pyiceberg_gives(name: str) -> None:
    path = (name,) if name == "new" else (name, "inner")
    calls = [("add_column", (path, NESTED)), ("add_column", (("after",), "int"))]
    assert ours(calls) == theirs(calls)
