"""SQL over rows answers as DuckDB does over the same rows in a table of its own, whatever happened to the table before.

Files are read by DuckDB itself wherever it may, so this is where a column that bears another's name, a deleted row, a
promoted type or a row of a file that was left out would be seen.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from expression_cases import filter_texts
from hypothesis import given
from hypothesis import strategies as st

import icecore
from icecore.engine.errors import ValidationError
from icecore.engine.query import query_sources
from icecore.engine.scan.relation import scan_relation

AROUND = [
    "SELECT {columns} FROM ns.t WHERE {filter}",
    "WITH c AS (SELECT * FROM ns.t) SELECT {columns} FROM c WHERE {filter}",
    "SELECT {columns} FROM ns.t WHERE {filter} AND id IN (SELECT id FROM ns.t WHERE id > 3)",
    "SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY id) AS rn FROM ns.t) WHERE rn = 1 AND ({filter})",
    "SELECT {columns} FROM ns.t SEMI JOIN (SELECT id AS other FROM ns.t WHERE {filter}) o ON id = other",
    "SELECT {columns} FROM ns.v WHERE {filter}",
    "SELECT count(*) AS n FROM ns.t, (SELECT id FROM ns.w WHERE {filter}) AS o",
    "SELECT {columns} FROM ns.w WHERE {filter} AND id IN (SELECT id FROM ns.v WHERE id > 3)",
]
VIEWS = {"v": "SELECT * FROM t", "w": "SELECT w.*, id AS again FROM ns.v AS w"}


def canonical(rows: pa.Table) -> list[str]:
    """Rows as sorted text; NaN and both zeros by their bits."""
    return sorted(
        repr([float(v).hex() if isinstance(v, float) else str(v) for v in row.values()]) for row in rows.to_pylist()
    )


@pytest.mark.parametrize("version", [1, 2, 3])
@examples(2, new=40)
@given(data=st.data())
def test_a_query_equals_duckdb(version: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        evolving = Evolving.create(Path(folder), version, data)
        evolving.apply(("append", [0, 1, 2, 3]))
        for step in data.draw(steps(deletes=True, keys=version > 1), label="steps"):
            evolving.apply(step)
        names = [f.name for f in evolving.table.schema().fields]
        columns = ", ".join(data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True), label="columns"))
        with icecore.open(folder) as catalog:
            for name, sql in VIEWS.items():
                catalog.create_view(("ns", name), sql)
        with icecore.open(folder, read_only=True) as catalog:
            for text in ["TRUE", *(data.draw(filter_texts(evolving.columns()), label="filter") for _ in range(3))]:
                around = data.draw(st.sampled_from(AROUND), label="around")
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(query_sources, "FEW_FILES", data.draw(st.sampled_from([-1, -1, 8]), label="few"))
                    check(evolving, catalog, around, columns, text)


def check(evolving: Evolving, catalog: icecore.Catalog, around: str, columns: str, text: str) -> None:
    query = around.format(columns=columns, filter=text)
    try:
        wanted = evolving.model.sql(re.sub(r"\bns\.[tvw]\b", "rows", query)).to_arrow_table()
    except duckdb.Error:
        with pytest.raises(ValidationError):
            catalog.query(query).to_arrow()
        return
    assert canonical(catalog.query(query).to_arrow()) == canonical(wanted), query
    if around is AROUND[0]:
        connection = evolving.table.scan(text, selected_fields=columns.split(", ")).to_duckdb("found")
        connection.execute("SET TimeZone = 'UTC'")
        assert canonical(connection.sql("FROM found").to_arrow_table()) == canonical(wanted), query


def test_a_name_that_was_used_twice_is_not_mistaken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of columns that swapped their names, one was dropped and another took its name, in files read by DuckDB."""
    monkeypatch.setattr(query_sources, "FEW_FILES", -1)
    monkeypatch.setattr(scan_relation._Relation, "batches", lambda *_: pytest.fail("a file was not read by DuckDB"))
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        schema = pa.schema([("id", pa.int64()), ("a", pa.int64()), ("b", pa.int64()), ("c", pa.string())])
        table = catalog.create_table("ns.t", schema)
        table.append([{"id": 1, "a": 10, "b": 20, "c": "x"}])
        for old, new in [("a", "spare"), ("b", "a"), ("spare", "b")]:
            table.update_schema().rename_column(old, new).commit()
        table.update_schema().delete_column("c").commit()
        table.update_schema().add_column("c", "long").commit()
        table.append([{"id": 2, "a": 200, "b": 100, "c": 5}])
        assert catalog.query("SELECT id, a, b, c FROM ns.t ORDER BY id").fetchall() == [
            (1, 20, 10, None),
            (2, 200, 100, 5),
        ]
        assert catalog.query("SELECT id FROM ns.t WHERE a = 10").fetchall() == []
        assert catalog.query("SELECT id FROM ns.t WHERE c IS NULL").fetchall() == [(1,)]
