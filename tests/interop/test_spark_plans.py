"""No plan loses a row that Spark would return: Spark's own answers over all rows, beside what is planned."""

from __future__ import annotations

import re
import tempfile
from collections import defaultdict
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

from attrs import define, field  # noqa: E402
from evolving_tables import Evolving, steps  # noqa: E402
from hypothesis import HealthCheck, Phase, assume, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from two_dialects import paired_filters  # noqa: E402

import icecore  # noqa: E402
from icecore.engine.data.scan_task import FileScanTask  # noqa: E402
from icecore.engine.expression.nodes import TRUE, Expression  # noqa: E402
from icecore.engine.spark.read.scan_to_spark import read_tasks  # noqa: E402

TABLES = 5
FILTERS = 6
SHOWN = {
    "uuid": pa.string(),
    "time": pa.int64(),
    "timestamp_ns": pa.int64(),
    "fixed[4]": pa.binary(),
}


@define
class Case:
    """A table and filters, each for icecore, for Spark, and with the ids that DuckDB selects (None: it can't say)."""

    evolving: Evolving
    filters: list[tuple[str, str, list[int] | None]]
    planned: dict[int, list[FileScanTask]] = field(factory=dict)
    is_pruned: set[int] = field(factory=set)

    @property
    def table(self) -> icecore.Table:
        return self.evolving.table


# A failure is shown as it was drawn: each attempt to shrink it would be a job for Spark.
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck), phases=(Phase.reuse, Phase.generate))
@given(data=st.data())
def test_SP1_SP8_plans_have_the_rows_that_spark_selects(spark: Any, data: st.DataObject) -> None:
    """Of many tables and filters in one job: Spark over the raw rows, over the plan, over the plan of all rows from
    which the filter is left to choose files, and by the residuals alone.

    Tables have any history of appends, deletes of all kinds, evolved specs and schemas. Raw rows come from the model
    in DuckDB, not from the table, and the filter on them is Spark SQL that is written beside the one that icecore
    reads: `two_dialects` names each difference of the engines and what stands for it. They are read from memory: on
    Parquet, Spark would push a filter down and lose NaN and -0.0 by the files' own statistics. Where DuckDB can judge
    the filter too, it must agree.
    """
    # The first example is of the least tables and filters that can be drawn, which are no worth of a job.
    assume(data.draw(st.booleans(), label="is more than the least"))
    with tempfile.TemporaryDirectory() as folder:
        cases = [drawn_case(data, Path(folder) / str(i)) for i in range(TABLES)]
        frames = [f for i, case in enumerate(cases) for f in frames_of(spark, i, case)]
        answers: dict[tuple[int, int, str], list[int]] = defaultdict(list)
        places: dict[tuple[int, int], str] = {}
        for row in reduce(lambda a, b: a.union(b), frames).collect():
            if row.kind == "file":
                assert (row.table, row.id) not in places, "a row is read twice"
                places[row.table, row.id] = row.file
            else:
                answers[row.table, row.filter, row.kind].append(row.id)
        for i, case in enumerate(cases):
            rows = {n: file for (t, n), file in places.items() if t == i}
            assert sorted(rows) == case.evolving.select("TRUE")
            for n, (text, spark_text, in_duckdb) in enumerate(case.filters):
                about = (text, spark_text, case.table.schema())
                wanted = sorted(answers[i, n, "raw"])
                assert in_duckdb is None or in_duckdb == wanted, about
                assert sorted(answers[i, n, "scan"]) == wanted, about
                assert n not in case.is_pruned or sorted(answers[i, n, "pruned"]) == wanted, about
                assert sorted(answers[i, n, "residual"]) == wanted, about
                check_files(case.planned[n], rows, wanted, about)


def check_files(tasks: list[FileScanTask], rows: dict[int, str], wanted: list[int], about: Any) -> None:
    """Every wanted row lies in a planned file, and a file without a residual has no other."""
    by_path = {t.file.file_path: t for t in tasks}
    for row in wanted:
        assert rows[row] in by_path, about
    for row, path in rows.items():
        if path in by_path and by_path[path].residual == TRUE:
            assert row in wanted, about


def drawn_case(data: st.DataObject, folder: Path) -> Case:
    version = data.draw(st.sampled_from([1, 2, 2, 3, 3]), label="version")
    folder.mkdir()
    evolving = Evolving.create(folder, version, data)
    evolving.apply(("append", [0, 1, 2, 3, 4]))
    for step in data.draw(steps(deletes=True, keys=version > 1), label="steps"):
        evolving.apply(step)
    case = Case(evolving, [])
    for _ in range(FILTERS):
        text, spark_text = data.draw(paired_filters(evolving.columns()), label="filter")
        case.filters.append((text, spark_text, evolving.select(text)))
    return case


def frames_of(spark: Any, number: int, case: Case) -> list[Any]:
    """(table, filter, kind, id, file) for each row that Spark finds, by kind of answer."""

    def tagged(frame: Any, n: int, kind: str, file: str = "''") -> Any:
        return frame.selectExpr(f"{number} AS table", f"{n} AS filter", f"'{kind}' AS kind", "id", f"{file} AS file")

    table = case.table
    frames = [tagged(table.scan(selected_fields=("id", "_file")).to_spark(spark), -1, "file", "_file")]
    raw = spark.createDataFrame(raw_rows(case.evolving))
    whole = table.scan().to_spark(spark)
    # Shown as timestamps, which no number is compared with.
    nanos = {name for name, t in case.evolving.types.items() if str(t) == "timestamp_ns"}
    for n, (text, spark_text, _) in enumerate(case.filters):
        frames.append(tagged(raw.where(spark_text), n, "raw"))
        if not nanos & set(re.findall(r"\w+", text)):
            frames.append(tagged(whole.where(spark_text), n, "pruned"))
            case.is_pruned.add(n)
        scan = table.scan(text, selected_fields=("id",))
        frames.append(tagged(scan.to_spark(spark), n, "scan"))
        case.planned[n] = scan.plan_files()
        by_residual: dict[Expression, list[FileScanTask]] = defaultdict(list)
        for task in case.planned[n]:
            by_residual[task.residual].append(task)
        for residual, tasks in by_residual.items():
            frame = read_tasks(
                spark,
                tasks,
                projection=scan.projection,
                metadata=table.metadata,
                storage=table._repository.storage_of(table.state),
                filter=residual,
            )
            frames.append(tagged(frame, n, "residual"))
    return frames


def raw_rows(evolving: Evolving) -> pa.Table:
    """All rows as the model has them, in types that Spark has."""
    names = [
        f'"{n}"::VARCHAR AS "{n}"' if str(t) == "uuid" else f'"{n}"' for n, t in evolving.types.items() if "." not in n
    ]
    rows = evolving.model.sql(f"SELECT {', '.join(names)}, st FROM rows").to_arrow_table()
    columns = {}
    for name in rows.column_names:
        wanted = SHOWN.get(str(evolving.types.get(name)))
        columns[name] = rows[name] if wanted is None else rows[name].cast(wanted)
    return pa.table(columns)
