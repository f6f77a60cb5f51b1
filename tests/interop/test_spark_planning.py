"""Plans that Spark makes of manifests: the same files, deletes and residuals as DuckDB's, after any history."""

from __future__ import annotations

import tempfile
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from budgets import examples
from evolving_tables import Evolving, steps
from expression_cases import filter_texts
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

import icecore  # noqa: E402
from icecore.engine.errors import ValidationError  # noqa: E402
from icecore.engine.expression.sql.fragment import BoundParameters  # noqa: E402
from icecore.projections.distributed_plan.entry_frames import EntryFrames, column_types  # noqa: E402
from icecore.projections.distributed_plan.spark_dialect import Values, to_spark_sql  # noqa: E402
from icecore.projections.plan.deletes.lost_values import telling_specs  # noqa: E402
from icecore.projections.plan.file_queries import DATA_COLUMNS, data_files_statement  # noqa: E402
from icecore.projections.plan.planner import Planner  # noqa: E402
from icecore.projections.plan.predicate import plan_predicate  # noqa: E402
from icecore.projections.segments.entry_typing import EntryTyping  # noqa: E402

FILTERS = 10
LEAVES = 25


def evolved(folder: str, version: int, data: st.DataObject) -> Evolving:
    evolving = Evolving.create(Path(folder), version, data)
    evolving.apply(("append", [0, 1, 2, 3, 4]))
    for step in data.draw(steps(deletes=True, keys=True), label="steps"):
        evolving.apply(step)
    return evolving


def check(scan: icecore.DataScan, spark: Any, *, frame: bool = False) -> None:
    """A plan by Spark is DuckDB's, in its order; as a DataFrame it is in none."""
    wanted = scan.plan().to_arrow().to_pylist()
    try:
        assert scan.planned_by(spark).plan().to_arrow().to_pylist() == wanted
        if frame:
            found = scan.plan_frame(spark).toArrow()
            assert found.schema.names == scan.plan().to_arrow().schema.names
            assert by_path(found.to_pylist()) == by_path(wanted)
    except ValidationError as e:
        # Refused, not planned wrongly.
        assert "values another engine may have lost" in str(e)


def by_path(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda r: r["file_path"])


@pytest.mark.parametrize("version", [2, 3])
@examples(1)
@given(data=st.data())
def test_SP1_SP8_spark_plans_what_duckdb_plans(spark: Any, version: int, data: st.DataObject) -> None:
    """After any deletes and evolution of schema and spec."""
    with tempfile.TemporaryDirectory() as folder:
        evolving = evolved(folder, version, data)
        text = data.draw(filter_texts(evolving.columns()), label="filter")
        if evolving.select(text) is not None:
            check(evolving.table.scan(text), spark)
        check(evolving.table.scan(), spark, frame=True)


@examples(1)
@given(data=st.data())
def test_SP1_SP8_conditions_say_the_same_in_spark(spark: Any, data: st.DataObject) -> None:
    """Each file may have a row of a filter, and each leaf holds of some or all of its rows, as in DuckDB."""
    with tempfile.TemporaryDirectory() as folder:
        evolving = evolved(folder, 3, data)
        columns = evolving.columns()
        texts = data.draw(st.lists(filter_texts(columns), min_size=FILTERS, max_size=FILTERS), label="filters")
        values = " OR ".join(f"(id = {i} AND i > {i})" for i in range(LEAVES))
        listed = ", ".join(map(str, range(LEAVES)))
        texts += [values, f"i IN ({listed})", f"x IN ({listed})", f"f NOT IN ({listed})"]
        texts += ["s LIKE 'a\\%'", "s LIKE 'a!%_' ESCAPE '!'", "s NOT LIKE '%'"]
        # A column may have another name by now.
        texts = [t for t in texts if evolving.select(t) is not None]
        scans = [evolving.table.scan(t) for t in texts]
        found = [[] for _ in scans]  # type: ignore[var-annotated]
        for number, path, bits in selected(evolving.table, scans, spark):
            found[number].append((path, bits))
        for scan, rows, text in zip(scans, found, texts, strict=True):
            files = scan.planned.files
            names = bit_names(files.column_names)
            wanted = [(r["file_path"], ",".join(str(r[n]) for n in names)) for r in files.to_pylist()]
            assert sorted(rows) == sorted(wanted), text


def bit_names(columns: list[str]) -> list[str]:
    return [n for n in columns if n.startswith(("might_", "all_"))]


def selected(table: icecore.Table, scans: list[icecore.DataScan], spark: Any) -> list[tuple[int, str, str]]:
    """What the conditions of scans say of each file, in one job of Spark's: the scan's number, the path, bits."""
    from pyspark.sql import functions as F

    state, planner = table._state, table._planner
    typing, storage = EntryTyping.of(state.metadata, state.metadata), planner.repository.storage_of(state)
    columns = column_types(typing)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = planner.list_manifests(state, snapshot)
    entries = EntryFrames(spark, typing, storage).of(manifests, dict.fromkeys((*DATA_COLUMNS, *columns))).persist()
    specs, frames = telling_specs(state.metadata), []
    for number, scan in enumerate(scans):
        parameters = BoundParameters(typed=False)
        predicate = plan_predicate(scan.row_filter, specs, scan.schema, columns, frozenset(specs))
        statement, _ = data_files_statement(columns, lambda _: "(SELECT * FROM entries)", predicate, parameters)
        values = Values(parameters.values, parameters.types)
        rows = spark.sql(to_spark_sql(statement, values, {"entries"}), entries=entries)
        bits = F.concat_ws(",", *bit_names(rows.columns)).alias("bits")
        frames.append(rows.select(F.lit(number), "file_path", bits))
    found = [tuple(row) for row in reduce(lambda a, b: a.unionAll(b), frames).collect()]
    entries.unpersist()
    return found


def test_spark_reads_what_it_planned(spark: Any, catalog: icecore.Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With deletes of each kind, and over the appends of some snapshots alone; metrics of files come with a plan."""
    schema = pa.schema([("id", pa.int64()), ("s", pa.string())])
    merging = {"write.delete.mode": "merge-on-read"}
    table = catalog.create_table("ns.t", schema, partition_spec=["bucket(2, id)"], properties=merging, format_version=2)
    table.append(pa.table({"id": pa.array(range(10)), "s": [f"v{i}" for i in range(10)]}, schema=schema))
    first = table.current_snapshot()
    table.delete("id = 3")
    table.delete_keys(pa.table({"id": pa.array([4], pa.int64())}), ["id"])
    table.append(pa.table({"id": [20], "s": ["v3"]}, schema=schema))
    scan = table.scan("s LIKE 'v%' AND id > 2").planned_by(spark)
    assert sorted(r["id"] for r in scan.to_spark(spark).collect()) == [5, 6, 7, 8, 9, 20]
    assert scan.plan().counts.files_planned == 3
    assert first is not None
    asked = "count(*)", "min(id)", "max(s)", "null_count(s)"
    known = table.scan("id > 4").aggregate(*asked)
    monkeypatch.setattr(Planner, "plan_with_columns", None)
    assert table.scan("id > 4").planned_by(spark).aggregate(*asked) == known
    since = table.incremental_append_scan(from_snapshot_id_exclusive=first.snapshot_id)
    assert since.planned_by(spark).to_arrow()["id"].to_pylist() == [20]


def test_spark_plans_by_files_that_are_written_out(spark: Any, catalog: icecore.Catalog) -> None:
    by_hand = {"icecore.materialize": "manual"}
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]), properties=by_hand)
    table.append(pa.table({"id": [1]}))
    with pytest.raises(ValidationError, match="not written out: materialize it"):
        table.scan().planned_by(spark).plan()
    catalog.materialize("ns.t")
    check(table.refresh().scan(), spark)
