"""Writes the figures of bench/results into docs/figures.md, and a table of them into README.md: none is typed in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parent
FIGURES, SUMMARY = "figures", "summary"


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
    yield "| table | filter | files planned | icecore | PyIceberg | times as much | bare DuckDB filter |"
    yield "|---|---|---|---|---|---|---|"
    for table, of in results.items():
        for name in ("all", "partition", "bounds", "point"):
            ours, theirs, bare = (of[who][name] for who in ("icecore", "pyiceberg", "duckdb"))
            yield (
                f"| {table} | {name} | {ours['files']:,} | {ours['cpu_ms']:.1f} ms | {theirs['cpu_ms']:,.0f} ms | "
                f"{theirs['cpu_ms'] / ours['cpu_ms']:,.0f} | {bare['cpu_ms']:.1f} ms |"
            )


def planning(results: dict[str, Any]) -> Iterator[str]:
    large, deletes, many = results["large"], results["deletes"], results["many manifests"]
    expand, start, more = large["expand"], large["start"], many["one more commit"]
    yield "| case | files | CPU | |"
    yield "|---|---|---|---|"
    yield (
        f"| first plan, from manifests to Arrow | {expand['files']:,} | {expand['cpu_s']:.1f} s | "
        f"{expand['files_per_cpu_s']:,.0f} files/s, {expand['peak_memory_mb']:,.0f} MB at most |"
    )
    yield (
        f"| a fresh process, from segments to a point plan | {expand['files']:,} | {start['cpu_s']:.2f} s | "
        f"with its modules; {start['wall_s']:.2f} s by the clock |"
    )
    for name in ("all", "partition", "point"):
        found = deletes[name]
        yield (
            f"| 10,000 position and 100 equality delete files, {name} | {found['files']:,} planned | "
            f"{found['cpu_ms']:.0f} ms | {found['pairs']:,} pairs of a file and a delete |"
        )
    first = many["expand"]
    yield (
        f"| 10,000 manifests, first plan | {first['files']:,} | {first['cpu_s']:.1f} s | then "
        f"{first['warm_all_cpu_ms']:.0f} ms for all and {first['warm_point_cpu_ms']:.0f} ms for a point |"
    )
    yield f"| 10,000 manifests, the plan after one more commit | {first['files']:,} | {more['cpu_ms']:.0f} ms | |"
    wide, peer = (results["a thousand columns"][name] for name in ("icecore", "pyiceberg"))
    yield (
        f"| 1,000 columns with all metrics, first plan | {wide['files']:,} | {wide['cpu_s']:.1f} s | then "
        f"{wide['warm_point_cpu_ms']:.0f} ms by a column not asked for before; PyIceberg {peer['cpu_s']:.1f} s each |"
    )


def metadata_tables(results: dict[str, Any]) -> Iterator[str]:
    yield "| table | metadata table | rows | cold | first | again | PyIceberg | times as much, cold | first | again |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for table, of in results.items():
        ours, theirs = of["icecore"], of["pyiceberg"]
        for name, found in ours.items():
            if name == "peak_memory_mb":
                continue
            peer = theirs[name]["first_cpu_s"]
            calls = [found[f"{call}_cpu_s"] for call in ("cold", "first", "again")]
            yield (
                f"| {table} | {name} | {found['rows']:,} | {' | '.join(map(_short, calls))} | "
                f"{_short(peer)} | {' | '.join(_times(peer / call) for call in calls)} |"
            )
    yield ""
    for table, of in results.items():
        ours, theirs = (f"{of[who]['peak_memory_mb']:,.0f} MB" for who in ("icecore", "pyiceberg"))
        yield f"Memory at most, {table}: {ours}, PyIceberg {theirs}."


def query(results: dict[str, Any]) -> Iterator[str]:
    """A row for each query: over the whole table, then over the one with deletes, which the peer joins by hand."""
    yield "| query | read_parquet | the first | times as much | another text | times | the text again | times |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, of in results["queries"].items():
        bare = of["read_parquet"]
        peer = of.get("deletes joined", bare)
        said = f"{peer:.1f} ms" + (f" ({bare:.1f} ms)" if peer is not bare else "")
        ours = (of[way] for way in ("nothing kept", "new text", "query"))
        yield f"| {name} | {said} | " + " | ".join(f"{ms:.1f} ms | {ms / peer:.1f}" for ms in ours) + " |"


def questions(results: dict[str, Any]) -> Iterator[str]:
    """The most that half of the questions take, and nine tenths of them, and the question that takes most."""
    found = sorted(results["questions"].items(), key=lambda item: item[1]["warm_cpu_ms"])
    yield "| questions | CPU again | by the clock, first | again |"
    yield "|---|---|---|---|"
    for said, place in (("half", len(found) // 2 - 1), ("nine tenths", len(found) * 9 // 10 - 1)):
        cells = (sorted(of[way] for _, of in found)[place] for way in ("warm_cpu_ms", "first_ms", "warm_ms"))
        yield f"| {said} of {len(found)}, at most | " + " | ".join(f"{ms:.0f} ms" for ms in cells) + " |"
    name, most = found[-1]
    yield f"| {name} | {most['warm_cpu_ms']:.0f} ms | {most['first_ms']:.0f} ms | {most['warm_ms']:.0f} ms |"


def audit(results: dict[str, Any]) -> Iterator[str]:
    yield "| tables | full audit | for each table | one of them alone |"
    yield "|---|---|---|---|"
    for tables, of in results["warehouses"].items():
        each = of["all_cpu_s"] / int(tables) * 1000
        yield f"| {int(tables):,} | {of['all_cpu_s']:.1f} s | {each:.1f} ms | {_short(of['one_table_cpu_s'])} |"


def _short(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1_000_000:.0f} µs"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.2f} s"


def _times(more: float) -> str:
    return f"{more:.1f}" if more < 10 else f"{more:,.0f}"


def faults(found: dict[str, Any]) -> Iterator[str]:
    yield "| fault | rounds | what came of them |"
    yield "|---|---|---|"
    for kind, of in found["kinds"].items():
        outcomes = ", ".join(f"{text} {count:,}" for text, count in of["outcomes"].items())
        yield f"| {kind} | {of['rounds']:,} | {outcomes} |"
    yield f"| all | {found['rounds']:,} | {len(found['violations'])} violations |"
    yield ""
    race = found["race"]
    p50, p99 = (max(w[p] for w in race["writers"]) for p in ("p50", "p99"))
    yield (
        f"{len(race['writers'])} processes that append to {len({w['table'] for w in race['writers']})} tables for "
        f"{race['seconds']:.0f} s: {race['commits']:,} commits, {race['commits'] / race['seconds']:.0f}/s; the "
        f"slowest writer has {race['share_of_slowest']:.2f} of the median's commits. Half of a writer's "
        f"commits take at most {p50:.0f} ms, all but a hundredth {p99:,.0f} ms."
    )


def server(results: dict[str, Any]) -> Iterator[str]:
    yield "| over 16 connections | " + " | ".join(f"{name} | CPU | 50 %, 99 % within" for name in results) + " |"
    yield "|---" * (1 + 3 * len(results)) + "|"
    for case in results["icecore"]:
        rows = [of[case] for of in results.values()]
        cells = [
            f"{r['per_s']:,.0f}/s | {r['server_cpu_ms']:.2f} ms | {r['p50_ms']:,.1f} ms, {r['p99_ms']:,.0f} ms"
            for r in rows
        ]
        yield f"| {case} | " + " | ".join(cells) + " |"


def planning_server(found: dict[str, Any]) -> Iterator[str]:
    one = found["selective"]
    yield "| plan over HTTP | time | CPU of the server | |"
    yield "|---|---|---|---|"
    yield (
        f"| one file of {found['files']:,} | {one['median_ms']:.0f} ms, the best {one['best_ms']:.0f} ms | "
        f"{one['server_cpu_ms']:.0f} ms | |"
    )
    for clients in (1, 4):
        of = found[f"all_by_{clients}_clients"]
        yield (
            f"| all of them, in {of['parts']} parts, by {clients} at once | {of['wall_s']:.1f} s | "
            f"{of['server_cpu_s']:.1f} s | {of['megabytes']:,.0f} MB; {of['server_peak_mb']:,.0f} MB of memory |"
        )


def page(found: dict[str, Any]) -> Iterator[str]:
    made, drawn = found["made"], found["drawn"]
    yield (
        f"The page of the log with its {found['events']:,} newest events, {made['megabytes']:.1f} MB, takes "
        f"{made['server_cpu_s']:.2f} s of the server's CPU"
        + ("." if drawn is None else f", and in Chromium {drawn['version'].split('.')[0]}")
    )
    if drawn is not None:
        yield f"{drawn['thread_s']:.2f} s of the thread that draws it."


SPARK = {
    "many": "10,000 files of 100 rows",
    "large": "20 million rows in 8 files, one aggregate",
    "append": "10 million rows by 30 days",
    "merge": "100,000 rows into 10 million",
    "planning": "plans by Spark over a million files",
}


def spark(found: dict[str, Any]) -> Iterator[str]:
    """The table, then the cases in which icecore takes more CPU than Iceberg's runtime."""
    engines = {"icecore": "icecore", "iceberg": f"Iceberg {found['iceberg']}", "parquet": "plain Parquet"}
    yield "| wall / CPU seconds | | " + " | ".join(f"{name}, first | again" for name in engines.values()) + " |"
    yield "|---" * 8 + "|"
    more = []
    for case, of in found["cases"].items():
        title = SPARK[case] + ("" if of["scale"] == 1 else f", {of['scale']:g} times that")
        for name in dict.fromkeys(name for engine in engines for name in of.get(engine, {})):
            rows = [of.get(engine, {}).get(name, {}) for engine in engines]
            cells = [_seconds(row.get(when)) for row in rows for when in ("first", "warm")]
            yield f"| {title} | {name} | " + " | ".join(cells) + " |"
            for when, said in (("first", "first"), ("warm", "again")):
                ours, theirs = (row.get(when, {}).get("cpu_s") for row in rows[:2])
                if ours and theirs and ours > theirs:
                    more.append(f"{case}: {name}, {said} ({ours / theirs:.1f} times)")
    yield ""
    yield "More CPU than Iceberg's runtime: " + ("; ".join(more) or "nothing") + "."
    if absent := [title for case, title in SPARK.items() if case not in found["cases"]]:
        yield f"Not measured: {'; '.join(absent)}."


def _seconds(found: dict[str, float] | None) -> str:
    return "" if found is None else f"{found['wall_s']:.2f} / {found['cpu_s']:.2f}"


def figures() -> str:
    """The section of docs/figures.md as text."""
    made, planned, cases = load("commits"), load("plans"), load("planning")
    tables, rows, asked = (load(name)["results"] for name in ("spark", "query", "questions"))
    with_versions = ", ".join(f"{k} {v}" for k, v in planned["environment"]["packages"].items())
    lines = [
        f"Measured in one run each, on {planned['environment']['cores']} cores, {with_versions}.",
        "",
        "Commits by the length of the history, wall rate and CPU of each (one row in a Parquet file of its own).",
        "Reopened is from nothing to the loaded table in a fresh process, with the modules that are loaded only then:",
        "",
        *commits(made["results"]),
        "",
        f"A replay of {made['results']['replay']['events']:,} events without a checkpoint takes "
        f"{made['results']['replay']['cpu_s']:.2f} s CPU.",
        "",
        "CPU of one warm plan to Arrow (PyIceberg: to its tasks; it keeps no entries between plans). `bounds` filters",
        "on a column that is not partitioned by, `point` on a bucketed one.",
        "",
        *plans(planned["results"]),
        "",
        "![CPU of a plan by the number of files](../bench/results/plans.svg)",
        "",
        *planning(cases["results"]),
        "",
        "CPU of a metadata table, beside PyIceberg's `inspect` of the same folder: the first call of all in a new",
        "warehouse (cold: `refs` loads modules, `partitions` and then `files` expand and decode what lies on disk for",
        "every later process),",
        "the first of another process that has opened the table, and the best of three after it.",
        "",
        *metadata_tables(load("metadata_tables")["results"]),
        "",
        f"CPU of SQL over {rows['rows']:,} rows in 40 files beside DuckDB's read_parquet on the same list of files,",
        "and over the same with a fiftieth of them deleted: there read_parquet is joined by hand with the deleted",
        "positions, which stand in a table by then (in brackets: without that, with the deleted rows). A call of",
        "`catalog.query` goes from text to rows: names, the plan and deletes first, then what DuckDB does. Another",
        "text that needs the same rows and columns shares the plan and what was read of deletes; one with another",
        "condition is planned anew. Of the same text, over tables that no commit has changed since, names alone are",
        "looked up again. The first of a snapshot takes some 15 ms more, as it makes the DuckDB that reads its files.",
        "",
        *query(rows),
        "",
        f"The statements of [Thirty questions](questions.md) over the demo's warehouse of {asked['tables']} tables:",
        "",
        *questions(asked),
        "",
        "CPU of an audit by all rules, of warehouses of tables with five commits each. No peer has one:",
        "",
        *audit(load("audit")["results"]),
        "",
        "The server beside Java's own REST server, Iceberg's test fixture, on the same disk: good answers a second,",
        "CPU of the server for each, and how long half and 99 % took at most. A commit sets a property.",
        "",
        *server(load("server")["results"]),
        "",
        *planning_server(load("planning_server")["results"]),
        "",
        *page(load("page")["results"]),
        "",
        f"Spark {tables['pyspark']} in local mode with two threads, over icecore, over Iceberg's own runtime and over",
        "plain Parquet, each in a process of its own: the first time in a session, and the best of those after it. CPU",
        "is of the JVM and all of Python. Plain Parquet has no plan, no deletes and no field ids. A plan by Spark",
        "comes here whole, Iceberg's as its tasks. The 10,000 files have names as writers of Iceberg give them, so",
        "they have field ids; with a mapping of names they may lack them, and each is looked into, once.",
        "",
        *spark(tables),
        "",
        "A run of `make fault`, which kills, starves and damages warehouses:",
        "",
        *faults(load("faults")),
    ]
    return "\n".join(lines) + "\n"


def summary() -> str:
    """The table of README.md as text: the figures asked for most, icecore's beside PyIceberg's."""
    appends, planned = load("commits")["results"]["appends"], load("plans")["results"]
    large, found = load("planning")["results"]["large"], load("faults")
    lines = ["| CPU of | icecore | PyIceberg |", "|---|---|---|"]
    peers = {row["history"]: row for row in appends["pyiceberg"]}
    for row in appends["icecore"]:
        if row["history"] in (10, 1_000, 10_000):
            peer = peers.get(row["history"])
            theirs = f"{peer['cpu_ms_per_commit']:.0f} ms" if peer else "not run"
            ours = f"{row['cpu_ms_per_commit']:.0f} ms"
            lines.append(
                f"| an append of one file, in a history of up to {row['history']:,} commits | {ours} | {theirs} |"
            )
    for of in planned.values():
        ours, theirs = (f"{of[who]['bounds']['cpu_ms']:,.1f} ms" for who in ("icecore", "pyiceberg"))
        files = of["icecore"]["all"]["files"]
        lines.append(f"| a warm plan by the bounds of a column, {files:,} files | {ours} | {theirs} |")
    files = large["expand"]["files"]
    lines += [
        f"| the first plan, from manifests, {files:,} files | {large['expand']['cpu_s']:.1f} s | |",
        f"| a fresh process and its plan from segments, {files:,} files | {large['start']['cpu_s']:.2f} s | |",
        "",
        f"`make fault` killed, starved and damaged warehouses {found['rounds']:,} times. Commits that were lost,",
        f"doubled or changed, and damage that was not told: {len(found['violations'])}.",
    ]
    return "\n".join(lines) + "\n"


def marks(section: str) -> tuple[str, str]:
    """The lines before and after a section."""
    return f"<!-- {section} -->\n", f"<!-- end of {section} -->\n"


def replace(page: Path, section: str, text: str) -> None:
    """Puts the text between the marks of a page."""
    start, end = marks(section)
    before, rest = page.read_text().split(start)
    _, after = rest.split(end)
    page.write_text(before + start + text + end + after)


def main() -> None:
    replace(ROOT / "docs" / "figures.md", FIGURES, figures())
    replace(ROOT / "README.md", SUMMARY, summary())


if __name__ == "__main__":
    main()
