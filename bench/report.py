"""Writes the figures of bench/results into README.md, between the two markers; nothing is typed in by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
START, END = "<!-- figures -->\n", "<!-- end of figures -->\n"


def load(name: str) -> Any:
    return json.loads((HERE / "results" / f"{name}.json").read_text())


def commits(results: dict[str, Any]) -> Iterator[str]:
    appends = results["appends"]
    marks = [row["history"] for row in appends["icecore"]]
    yield "| one-file appends | " + " | ".join(f"up to {m:,}" for m in marks) + " | reopened |"
    yield "|---" * (len(marks) + 2) + "|"
    for name, rows in appends.items():
        cells = [f"{r['commits_per_s']:.0f}/s, {r['cpu_ms_per_commit']:.0f} ms" for r in rows]
        cells += ["not run"] * (len(marks) - len(rows))
        opened = results["reopen_ms"][name]
        yield f"| {name} | " + " | ".join(cells) + f" | {opened['ms']:.0f} ms at {opened['history']:,} |"


def plans(results: dict[str, Any]) -> Iterator[str]:
    yield "| table | filter | files planned | icecore | PyIceberg | bare DuckDB filter |"
    yield "|---|---|---|---|---|---|"
    for table, of in results.items():
        for name in ("all", "partition", "bounds", "point"):
            ours, theirs, bare = (of[who][name] for who in ("icecore", "pyiceberg", "duckdb"))
            yield (
                f"| {table} | {name} | {ours['files']:,} | {ours['cpu_ms']:.0f} ms | {theirs['cpu_ms']:,.0f} ms | "
                f"{bare['cpu_ms']:.1f} ms |"
            )


def figures() -> str:
    """The section of the README as text."""
    made, planned = load("commits"), load("plans")
    with_versions = ", ".join(f"{k} {v}" for k, v in planned["environment"]["packages"].items())
    expand = "; ".join(
        f"{table}: {of['icecore']['expand']['cpu_s']:.1f} s CPU" for table, of in planned["results"].items()
    )
    lines = [
        f"Measured in one run each, on {planned['environment']['cores']} cores, {with_versions}.",
        "",
        "Commits by the length of the history, wall rate and CPU of each (one row in a Parquet file of its own):",
        "",
        *commits(made["results"]),
        "",
        f"A replay of {made['results']['replay']['events']:,} events without a checkpoint takes "
        f"{made['results']['replay']['cpu_s']:.2f} s CPU.",
        "",
        "CPU of one warm plan to Arrow (PyIceberg: to its tasks; it keeps no entries between plans). `bounds` filters",
        f"on a column that is not partitioned by, `point` on a bucketed one. The first plan, of all files: {expand}.",
        "",
        *plans(planned["results"]),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    text = README.read_text()
    before, rest = text.split(START)
    _, after = rest.split(END)
    README.write_text(before + START + figures() + END + after)


if __name__ == "__main__":
    main()
