"""References to named Avro types, by their full names or by those in their namespace. Spec: Avro 1.12, Names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from icecore.engine.data.avro.avro_reader import AvroRows
from icecore.engine.formats.avro_blocks import AvroBlock, write_container
from icecore.engine.formats.avro_schema import resolve


def fixed(size: int, **names: str) -> dict[str, Any]:
    return {"type": "fixed", "size": size, **names}


def record(*types: Any, **names: str) -> dict[str, Any]:
    fields = [{"name": f"c{i}", "type": t, "field-id": i} for i, t in enumerate(types)]
    return {"type": "record", "fields": fields, **names}


@pytest.mark.parametrize(
    "schema",
    [
        record(fixed(2, name="f"), "f", name="t"),
        record(fixed(2, name="f"), "f", name="t", namespace="x"),
        record(fixed(2, name="f"), "x.f", name="t", namespace="x"),
        record(fixed(2, name="f"), "x.y.f", name="x.y.t"),
        record(fixed(2, name="f", namespace="y"), "y.f", name="t", namespace="x"),
        record(fixed(2, name="y.f"), ["null", "y.f"], name="t"),
    ],
    ids=json.dumps,
)
def test_a_type_is_known_by_its_full_name_and_by_its_own_in_its_namespace(schema: dict[str, Any]) -> None:
    union = isinstance(schema["fields"][1]["type"], list)
    data = b"ab" + (b"\x02" if union else b"") + b"cd"
    file = write_container(
        {"avro.schema": json.dumps(schema)}, [AvroBlock(1, data)], codec="null", sync_marker=bytes(16)
    )
    assert [b.to_pylist() for b in AvroRows(file, "f").batches(10)] == [[{"c0": b"ab", "c1": b"cd"}]]


def test_types_of_one_name_in_two_namespaces_are_two() -> None:
    schema = record(
        record(fixed(2, name="f"), name="a", namespace="x"),
        record(fixed(3, name="f"), "f", name="b", namespace="y"),
        "x.f",
        fixed(4, name="f"),
        "f",
        name="t",
    )
    found = resolve(schema, "the file")["fields"]
    assert [f["type"]["size"] for f in found[1]["type"]["fields"]] == [3, 3]
    assert [f["type"]["size"] for f in found[2:]] == [2, 4, 4]


def test_a_type_is_read_once_however_often_it_is_referred_to() -> None:
    """Each of 60 types has two fields of the one before it: written out these are some 10**18 columns."""
    inner = record("int", name="r0")
    for i in range(1, 60):
        inner = record(inner, f"r{i - 1}", name=f"r{i}")
    file = write_container(
        {"avro.schema": json.dumps(record(["null", inner], name="t"))},
        [AvroBlock(1, b"\x00")],
        codec="null",
        sync_marker=bytes(16),
    )
    assert AvroRows(file, "f").schema.names == ["c0"]
