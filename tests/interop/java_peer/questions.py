"""Random questions for Java: splits, filters over metrics, partitions and manifests, filters as JSON, single values.

What they say of files is true of the values beside it, so that a test can tell who is right where answers differ.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any

from expression_cases import VALUES, metrics, transforms_of

from icecore.engine.expression.bind import bind
from icecore.engine.expression.json.expression_json import from_json, to_json
from icecore.engine.spec import single_value
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.transform import Transform
from icecore.engine.spec.types import (
    FLOATING_TYPES,
    TIMESTAMP_TYPES,
    BinaryType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    TimeType,
)

Question = dict[str, Any]
COMPARISONS = ("lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq")
TRANSFORMS = ("identity", "bucket[16]", "truncate[1]", "truncate[3]", "year", "month", "day", "hour", "void")
# Java reads a typed literal of nanoseconds as microseconds (1.11.0), so it has no say in filters of these.
TYPES: list[PrimitiveType] = [t for t in VALUES if not isinstance(t, (TimestampNanoType, TimestamptzNanoType))]
TEXT = ("a", "b", "é", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "😀", "\x00")


def schema_of(column_type: PrimitiveType) -> Schema:
    return Schema((NestedField(1, "c", column_type, required=False),))


def questions(seed: int) -> Iterator[Question]:
    rng = random.Random(seed)
    for _ in range(40):
        yield split(rng)
    for column_type in TYPES:
        for _ in range(5):
            yield of_metrics(rng, column_type)
            yield of_summaries(rng, column_type)
            yield of_partitions(rng, column_type)
    for column_type in TYPES:
        for _ in range(4):
            yield as_json(rng, column_type)
        yield from written(rng, column_type)
    yield from whole_numbers(rng)
    for any_type in VALUES:
        for _ in range(8):
            yield single(rng, any_type)
    for _ in range(60):
        yield truncated(rng)


def split(rng: random.Random) -> Question:
    target = rng.choice([10, 50, 100, 1000])
    files: list[Any] = []
    for i in range(rng.randint(1, 12)):
        size = rng.randint(1, 3 * target)
        offsets = None
        if rng.random() < 0.5:
            offsets = sorted({min(4, size - 1), *rng.sample(range(size), min(size, rng.randint(0, 4)))})
        elif rng.random() < 0.2:
            offsets = [rng.randint(0, size + 5) for _ in range(rng.randint(0, 3))]
        deletes = [
            [rng.randint(1, target), rng.choice([None, rng.randint(1, 20)])] for _ in range(rng.choice([0, 0, 1, 2]))
        ]
        files.append([f"f{i}.parquet", size, offsets, deletes])
    cost, lookback = rng.choice([0, 1, 5, 20, 200]), rng.choice([1, 2, 3, 10])
    return {"op": "split", "target": target, "lookback": lookback, "cost": cost, "files": files}


def is_json(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def literals(column_type: PrimitiveType, pool: list[Any]) -> list[Any]:
    return [single_value.to_json(column_type, v) for v in pool if is_json(v)]


def leaf(rng: random.Random, column_type: PrimitiveType, pool: list[Any]) -> Any:
    values = literals(column_type, pool) or literals(column_type, VALUES[column_type])
    operators = [*COMPARISONS, *COMPARISONS, "in", "not-in", "is-null", "not-null"]
    if isinstance(column_type, FLOATING_TYPES):
        operators += ["is-nan", "not-nan"]
    if isinstance(column_type, StringType):
        operators += ["starts-with", "not-starts-with"] * 2
    kind = rng.choice(operators)
    match kind:
        case "is-null" | "not-null" | "is-nan" | "not-nan":
            return {"type": kind, "term": "c"}
        case "in" | "not-in":
            return {"type": kind, "term": "c", "values": rng.choices(values, k=rng.randint(1, 3))}
        case "starts-with" | "not-starts-with":
            text = rng.choice(values)
            return {"type": kind, "term": "c", "value": text[: rng.randint(1, max(1, len(text)))]}
        case _:
            return {"type": kind, "term": "c", "value": rng.choice(values)}


def a_filter(rng: random.Random, column_type: PrimitiveType, pool: list[Any]) -> Any:
    if rng.random() < 0.6:
        return leaf(rng, column_type, pool)
    kind = rng.choice(["and", "or"])
    return {"type": kind, "left": leaf(rng, column_type, pool), "right": leaf(rng, column_type, pool)}


def some_values(rng: random.Random, pool: list[Any]) -> list[Any]:
    kind = rng.random()
    if kind < 0.1:
        return [None] * rng.randint(1, 3)
    return [rng.choice(pool if kind < 0.6 else [*pool, None]) for _ in range(rng.randint(1, 4))]


def of_metrics(rng: random.Random, column_type: PrimitiveType) -> Question:
    pool = rng.choices(VALUES[column_type], k=4)
    files, values = [], []
    for _ in range(5):
        chosen = some_values(rng, pool)
        found = metrics(column_type, chosen, rng.choice([2, 16]))
        file: dict[str, Any] = {"records": len(chosen)}
        for name in ("values", "nulls", "nans"):
            file[name] = {} if found[name] is None else {"1": found[name]}
        for name in ("lower", "upper"):
            bound = found[name]
            file[name] = {} if bound is None else {"1": single_value.to_bytes(column_type, bound).hex()}
        files.append(file)
        values.append(shown(column_type, chosen))
    wanted = a_filter(rng, column_type, pool)
    return {"op": "metrics", "type": str(column_type), "expression": wanted, "files": files, "rows": values}


def shown(column_type: PrimitiveType, values: list[Any]) -> list[Any]:
    """Values as binary single values, which NaN has as well."""
    return [None if v is None else single_value.to_bytes(column_type, v).hex() for v in values]


def is_inside(column_type: PrimitiveType, value: Any) -> bool:
    """Whether truncating a value, and the one below it, stays in the range of the type; Java's wraps around."""
    match column_type:
        case IntegerType() | LongType():
            return bool(value > column_type.min + 20)
        case DecimalType(precision=precision, scale=scale):
            return single_value.decimal_to_unscaled(value, scale) > 20 - int(10**precision)
        case _:
            return True


def a_transform(rng: random.Random, column_type: PrimitiveType) -> Transform:
    return rng.choice([t for t in transforms_of(column_type) if str(t) != "void"])


def of_partitions(rng: random.Random, column_type: PrimitiveType) -> Question:
    transform = a_transform(rng, column_type)
    result = transform.result_type(column_type)
    pool = [v for v in VALUES[column_type] if is_json(v) and is_inside(column_type, v)]
    rows = rng.choices([*pool, None], k=6)
    partitions = [[single_value.to_json(result, transform.apply(column_type, v))] for v in rows]
    wanted = a_filter(rng, column_type, pool)
    out = {"op": "partitions", "type": str(column_type), "transform": str(transform), "expression": wanted}
    return {**out, "partitions": partitions, "rows": shown(column_type, rows)}


def of_summaries(rng: random.Random, column_type: PrimitiveType) -> Question:
    transform = a_transform(rng, column_type)
    result = transform.result_type(column_type)
    pool = [v for v in VALUES[column_type] if is_inside(column_type, v)]
    manifests, rows = [], []
    for _ in range(5):
        chosen = some_values(rng, pool)
        found = metrics(result, [transform.apply(column_type, v) for v in chosen], 10**6)
        bounds = {
            n: None if found[n] is None else single_value.to_bytes(result, found[n]).hex() for n in ("lower", "upper")
        }
        manifests.append([{"null": found["nulls"] > 0, "nan": bool(found["nans"]), **bounds}])
        rows.append(shown(column_type, chosen))
    wanted = a_filter(rng, column_type, [v for v in pool if is_json(v)])
    out = {"op": "summaries", "type": str(column_type), "transform": str(transform), "expression": wanted}
    return {**out, "manifests": manifests, "rows": rows}


def as_json(rng: random.Random, column_type: PrimitiveType) -> Question:
    """A filter as Java writes it, with literals that have the column's type."""
    wanted = a_filter(rng, column_type, VALUES[column_type])
    return {"op": "expression", "type": str(column_type), "expression": wanted, "typed": True}


def written(rng: random.Random, column_type: PrimitiveType) -> Iterator[Question]:
    """Filters as we write them."""
    for _ in range(3):
        wanted = bind(
            from_json(leaf(rng, column_type, VALUES[column_type]), schema_of(column_type)), schema_of(column_type)
        )
        yield {"op": "expression", "type": str(column_type), "expression": to_json(wanted), "typed": True}


def whole_numbers(rng: random.Random) -> Iterator[Question]:
    """Numbers where dates and times are meant: Java's clients have nothing else before a filter is bound."""
    for column_type in VALUES:
        if isinstance(column_type, (DateType, TimeType, *TIMESTAMP_TYPES)):
            for value in (0, 1, rng.randint(1000, 80_000_000)):
                wanted = {"type": rng.choice(COMPARISONS), "term": "c", "value": value}
                yield {"op": "expression", "type": str(column_type), "expression": wanted, "typed": False}


def single(rng: random.Random, column_type: PrimitiveType) -> Question:
    value = rng.choice([v for v in VALUES[column_type] if is_json(v)])
    match column_type:
        case IntegerType() | LongType() if rng.random() < 0.6:
            # Java's truncation leaves the range of the type, and comes in again at the other end.
            value = rng.randint(column_type.min + 3, column_type.max)
        case StringType() if rng.random() < 0.6:
            value = "".join(rng.choices(TEXT, k=rng.randint(0, 6)))
        case _ if isinstance(column_type, TIMESTAMP_TYPES) and rng.random() < 0.6:
            value = rng.randint(-(10**16), 10**16)
        case _:
            pass
    if isinstance(column_type, (IntegerType, LongType)):
        value = max(value, column_type.min + 3)
    written = single_value.to_json(column_type, value)
    return {"op": "value", "type": str(column_type), "json": written, "transforms": list(TRANSFORMS)}


def truncated(rng: random.Random) -> Question:
    length = rng.randint(1, 6)
    if rng.random() < 0.6:
        text = "".join(rng.choices(TEXT, k=rng.randint(0, 9)))
        return {"op": "truncate", "type": str(StringType()), "json": text, "length": length}
    data = bytes(rng.choices([0, 1, 127, 128, 254, 255, 255], k=rng.randint(0, 9)))
    return {"op": "truncate", "type": str(BinaryType()), "json": data.hex(), "length": length}


def for_java(question: Question) -> Question:
    """A question with the schema and the spec that it needs."""
    out = {k: v for k, v in question.items() if k != "rows"}
    if "expression" in out:
        out["schema"] = schema_of(parse(out["type"])).to_dict()
    if "transform" in out:
        field = {"name": "p", "transform": out["transform"], "source-id": 1, "field-id": 1000}
        out["spec"] = {"spec-id": 7, "fields": [field]}
    return out


def parse(text: str) -> PrimitiveType:
    return next(t for t in VALUES if str(t) == text)
