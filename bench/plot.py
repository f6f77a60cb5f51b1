"""Plots the figures of bench/results/plans.json: CPU of a plan by the number of files, peers beside us, log-log.

Writes bench/results/plans.svg and plans.png; the same figures give the same SVG.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt

RESULTS = Path(__file__).parent / "results"
FILTERS = {
    "all": "no filter",
    "partition": "a partition",
    "bounds": "bounds of a column",
    "point": "one key, bucketed",
}
SUBJECTS = {
    "pyiceberg": ("PyIceberg", "#c0392b", "s"),
    "icecore": ("icecore, warm, to Arrow", "#1f618d", "o"),
    "duckdb": ("bare DuckDB filter", "#7f8c8d", "^"),
}


def series(results: dict[str, Any], subject: str, name: str) -> list[tuple[int, float]]:
    """(files in the table, CPU in ms), by the number of files."""
    tables = [of for of in results.values() if name in of.get(subject, {})]
    return sorted((of["icecore"]["all"]["files"], of[subject][name]["cpu_ms"]) for of in tables)


def plot(results: dict[str, Any], folder: Path = RESULTS) -> list[Path]:
    """Writes both pictures and returns their paths."""
    mpl.rcParams["svg.hashsalt"] = "icecore"
    figure, axes = plt.subplots(1, len(FILTERS), figsize=(14, 3.8), sharey=True)
    for axis, (name, title) in zip(axes, FILTERS.items(), strict=True):
        for subject, (label, color, marker) in SUBJECTS.items():
            points = series(results, subject, name)
            axis.plot(*zip(*points, strict=True), label=label, color=color, marker=marker, linewidth=1.5)
        axis.set(xscale="log", yscale="log", title=title, xlabel="files in the table")
        axis.grid(visible=True, which="major", alpha=0.3)
    axes[0].set_ylabel("CPU of a plan, ms")
    axes[0].legend(fontsize=8, loc="upper left")
    figure.tight_layout()
    paths = [folder / "plans.svg", folder / "plans.png"]
    figure.savefig(paths[0], metadata={"Date": None})
    figure.savefig(paths[1], dpi=110)
    plt.close(figure)
    return paths


def main() -> None:
    for path in plot(json.loads((RESULTS / "plans.json").read_text())["results"]):
        print(f"{path.name} written")


if __name__ == "__main__":
    main()
