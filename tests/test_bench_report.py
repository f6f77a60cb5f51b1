"""The figures in README.md and docs/figures.md are those of bench/results."""

from __future__ import annotations

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_figures_come_from_the_results() -> None:
    """Nobody typed them in, and nobody forgot to take the new ones."""
    spec = importlib.util.spec_from_file_location("bench_report", ROOT / "bench" / "report.py")
    assert spec is not None and spec.loader is not None
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    pages = (
        (ROOT / "docs" / "figures.md", report.FIGURES, report.figures),
        (ROOT / "README.md", "summary", report.summary),
    )
    for page, section, text in pages:
        start, end = report.marks(section)
        assert page.read_text().split(start)[1].split(end)[0] == text()
