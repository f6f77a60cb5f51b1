"""Tables of every type after any history of appends, deletes, evolved schemas and specs, beside a model in DuckDB."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from attrs import define, field
from expression_cases import VALUES, Column, transforms_of
from hypothesis import strategies as st

import icecore
from icecore.engine.data.arrow.arrow_values import to_array
from icecore.engine.errors import ValidationError
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

FIELDS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "i", IntegerType()),
    NestedField(3, "f", FloatType()),
    NestedField(4, "x", DoubleType()),
    NestedField(5, "n", DecimalType(9, 2)),
    NestedField(6, "d", DateType()),
    NestedField(7, "ts", TimestampType()),
    NestedField(8, "tz", TimestamptzType()),
    NestedField(9, "t", TimeType()),
    NestedField(10, "s", StringType()),
    NestedField(11, "u", UUIDType()),
    NestedField(12, "y", BinaryType()),
    NestedField(13, "fx", FixedType(4)),
    NestedField(14, "b", BooleanType()),
    NestedField(15, "e", DateType()),
    NestedField(16, "st", StructType((NestedField(17, "a", IntegerType()), NestedField(18, "s", StringType())))),
)
NANO = NestedField(19, "ns", TimestampNanoType())
# What a column may be promoted to (T7), and the model's type of it.
PROMOTIONS: dict[str, tuple[PrimitiveType, str]] = {
    "i": (LongType(), "BIGINT"),
    "f": (DoubleType(), "DOUBLE"),
    "n": (DecimalType(20, 2), "DECIMAL(20, 2)"),
    "e": (TimestampType(), "TIMESTAMP"),
}
DELETE_MODES = ("merge-on-read", "copy-on-write")
Pools = dict[str, list[Any]]


@st.composite
def pools_of(draw: st.DrawFn, fields: tuple[NestedField, ...]) -> Pools:
    """Few values for each column, so that files share them and literals meet them; with null more often than not."""
    out: Pools = {}
    for f in fields:
        for name, kind in leaves(f):
            values = draw(st.lists(st.sampled_from(VALUES[kind]), min_size=1, max_size=4))
            out[name] = values if draw(st.integers(0, 3)) == 0 else [*values, None]
    return out


def leaves(f: NestedField) -> list[tuple[str, PrimitiveType]]:
    if isinstance(f.field_type, StructType):
        return [(f"{f.name}.{p.name}", p.field_type) for p in f.field_type.fields]  # type: ignore[misc]
    return [(f.name, f.field_type)]  # type: ignore[list-item]


@st.composite
def terms(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Partition fields as (transform, column) for up to three columns."""
    names = draw(st.lists(st.sampled_from([f.name for f in FIELDS if f.name != "e"]), max_size=3, unique=True))
    out = []
    for name in names:
        f = next(f for f in FIELDS if f.name == name)
        path, kind = leaves(f)[0]
        transforms = [t for t in transforms_of(kind) if str(t) != "void"]
        out.append((str(draw(st.sampled_from(transforms))), path))
    return out


def steps(*, deletes: bool = False, keys: bool = False) -> st.SearchStrategy[list[tuple[str, Any]]]:
    """What may happen to a table, with more appends than anything else; deletes by filter and by equality if asked."""
    # Each row follows from a number; equal ones give equal rows, and so files with a single value.
    ids = st.lists(st.integers(0, 20), min_size=1, max_size=4)
    appends = st.tuples(st.just("append"), st.lists(st.integers(0, 7), min_size=1, max_size=9))
    return st.lists(
        st.one_of(
            appends,
            appends,
            st.tuples(st.just("spec"), terms()),
            st.tuples(st.just("more"), terms()),
            st.tuples(st.just("promote"), st.sampled_from(sorted(PROMOTIONS))),
            st.tuples(st.just("rename"), st.sampled_from(["i", "s", "x", "ts"])),
            st.tuples(st.just("drop"), st.sampled_from(["t", "fx", "y"])),
            st.tuples(st.just("add"), st.sampled_from(["new1", "new2"])),
            *([st.tuples(st.just("delete"), ids)] if deletes else []),
            *([st.tuples(st.just("delete_keys"), ids)] if keys else []),
        ),
        min_size=1,
        max_size=7,
    )


@define
class Evolving:
    """A table, the same rows in DuckDB, and the columns that a filter may name."""

    table: icecore.Table
    pools: Pools
    model: duckdb.DuckDBPyConnection = field(factory=lambda: duckdb.connect(":memory:"))
    types: dict[str, PrimitiveType] = field(factory=dict)
    rows: int = 0
    renamed: int = 0

    @classmethod
    def create(cls, folder: Path, version: int, data: st.DataObject) -> Evolving:
        fields = (*FIELDS, NANO) if version == 3 else FIELDS
        catalog = icecore.open(folder)
        catalog.create_namespace("ns")
        first = [bracketed(t, c) for t, c in data.draw(terms(), label="spec")]
        properties = {"write.delete.mode": data.draw(st.sampled_from(DELETE_MODES), label="deletes")}
        table = catalog.create_table(
            "ns.t", Schema(fields), partition_spec=first, format_version=version, properties=properties
        )
        made = cls(table, data.draw(pools_of(fields), label="pools"))
        made.model.execute("SET TimeZone = 'UTC'")
        made.types = {name: kind for f in fields for name, kind in leaves(f)}
        made.model.register("incoming", made._table(fields, []))
        made.model.execute("CREATE TABLE rows AS SELECT * FROM incoming").fetchall()
        return made

    def columns(self) -> dict[str, Column]:
        """The columns as `filter_texts` takes them."""
        return {n: (t, [v for v in self._pool(n) if v is not None]) for n, t in self.types.items()}

    def select(self, text: str) -> list[int] | None:
        """The ids of the rows that DuckDB selects; None where it refuses the filter."""
        try:
            found = self.model.execute(f"SELECT id FROM rows WHERE {text}").fetchall()
        except duckdb.Error:
            return None
        return sorted(i for (i,) in found)

    def apply(self, step: tuple[str, Any]) -> None:
        """One step on both; what the table refuses is left out of both."""
        action, argument = step
        try:
            getattr(self, f"_{action}")(argument)
        except ValidationError:
            assert action != "append"

    def _append(self, seeds: list[int]) -> None:
        fields = self.table.schema().fields
        rows = []
        for seed in seeds:
            choice = random.Random(seed)
            row = {name: choice.choice(self._pool(name)) for f in fields for name, _ in leaves(f)}
            rows.append({**row, "id": self.rows})
            self.rows += 1
        incoming = self._table(fields, rows)
        self.table.append(incoming)
        self.model.register("incoming", incoming)
        self.model.execute("INSERT INTO rows BY NAME SELECT * FROM incoming").fetchall()

    def _delete(self, ids: list[int]) -> None:
        self.table.delete(f"id IN ({', '.join(map(str, ids))})")
        self._deleted(ids)

    def _delete_keys(self, ids: list[int]) -> None:
        self.table.delete_keys(pa.table({"id": pa.array(ids, pa.int64())}), ["id"])
        self._deleted(ids)

    def _deleted(self, ids: list[int]) -> None:
        self.model.execute("DELETE FROM rows WHERE list_contains($ids, id)", {"ids": ids}).fetchall()

    def _table(self, fields: tuple[NestedField, ...], rows: list[dict[str, Any]]) -> pa.Table:
        arrays = {}
        for f in fields:
            if isinstance(f.field_type, StructType):
                parts = [to_array(t, [r[n] for r in rows], with_ids=False) for n, t in leaves(f)]
                arrays[f.name] = pa.StructArray.from_arrays(parts, [p.name for p in f.field_type.fields])
            else:
                arrays[f.name] = to_array(f.field_type, [r[f.name] for r in rows], with_ids=False)
        return pa.table(arrays)

    def _pool(self, name: str) -> list[Any]:
        """The values of a column, as its present type has them."""
        pool = self.pools.get(name, [None])
        if isinstance(self.types[name], TimestampType) and name == "e":
            return [None if v is None else v * 86_400_000_000 for v in pool]
        return pool

    def _spec(self, fields: list[tuple[str, str]]) -> None:
        with self.table.update_spec() as update:
            for f in self.table.spec().fields:
                if str(f.transform) != "void":
                    update.remove_field(f.name)
            self._add_fields(update, fields)

    def _more(self, fields: list[tuple[str, str]]) -> None:
        with self.table.update_spec() as update:
            self._add_fields(update, fields)

    def _add_fields(self, update: Any, fields: list[tuple[str, str]]) -> None:
        for number, (transform, name) in enumerate(fields):
            if name in self.types:
                name_of_field = f"p{len(self.table.specs())}_{number}"
                update.add_field(bracketed(transform, name), partition_field_name=name_of_field)

    def _promote(self, name: str) -> None:
        if name in self.types:
            wanted, model_type = PROMOTIONS[name]
            self.table.update_schema().update_column(name, wanted).commit()
            self.types[name] = wanted
            self.model.execute(f"ALTER TABLE rows ALTER {name} TYPE {model_type}").fetchall()

    def _rename(self, name: str) -> None:
        if name in self.types:
            self.renamed += 1
            new = f"{name}_{self.renamed}"
            self.table.update_schema().rename_column(name, new).commit()
            self.model.execute(f"ALTER TABLE rows RENAME {name} TO {new}").fetchall()
            self.types[new], self.pools[new] = self.types.pop(name), self.pools.pop(name)

    def _drop(self, name: str) -> None:
        if name in self.types:
            self.table.update_schema().delete_column(name).commit()
            self.model.execute(f"ALTER TABLE rows DROP {name}").fetchall()
            del self.types[name]

    def _add(self, name: str) -> None:
        if name not in self.types:
            self.table.update_schema().add_column(name, LongType()).commit()
            self.model.execute(f"ALTER TABLE rows ADD COLUMN {name} BIGINT").fetchall()
            self.types[name], self.pools[name] = LongType(), [-1, 7, None]


def bracketed(transform: str, column: str) -> str:
    """`bucket[4]` of a column as a term: `bucket(4, id)`."""
    name, _, number = transform.partition("[")
    return (
        f"{name}({number.rstrip(']')}, {column})" if number else f"{name}({column})" if name != "identity" else column
    )
