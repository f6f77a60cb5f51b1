"""The statements of docs/questions.md over the demo's warehouse, the first time and warm, by the clock and in CPU time.

usage: python bench/questions.py

The warehouse is as the demo leaves it, without Spark: 336,776 flights of a year in 365 partitions and four small
tables. No other engine answers them; results go to results/questions.json.
"""

from __future__ import annotations

import re
import tempfile
import time
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from measure import save

import icecore
from icecore.engine.demo import story

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


def main() -> None:
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        with redirect_stdout(StringIO()):
            story.tell(Path(folder), with_spark=False)
        with icecore.open(folder, read_only=True) as catalog:
            tables = sum(1 for _ in catalog.tables())
            for question, statement in questions():
                times = [timed(catalog, statement) for _ in range(1 + WARM)]
                warm, warm_cpu = map(min, zip(*times[1:], strict=True))
                results[question] = {"first_ms": times[0][0], "warm_ms": warm, "warm_cpu_ms": warm_cpu}
                print(f"{times[0][0]:8.1f} {warm:8.1f} {warm_cpu:8.1f}  {question}")
    save("questions", {"tables": tables, "questions": results})


def timed(catalog: icecore.Catalog, statement: str) -> tuple[float, float]:
    """Milliseconds by the clock and of CPU."""
    clock, cpu = time.perf_counter(), time.process_time()
    catalog.sql(statement)
    return 1000 * (time.perf_counter() - clock), 1000 * (time.process_time() - cpu)


if __name__ == "__main__":
    main()
