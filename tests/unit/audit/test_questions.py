"""docs/questions.md: thirty questions, each one statement that the SQL prompt takes."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from icecore.projections.audit.audit_statement import parse_statement
from icecore.projections.audit.audit_tables import AUDIT_SCHEMAS
from icecore.projections.audit.needed_tables import needed_tables

ROOT = Path(__file__).parents[3]


def test_each_question_is_one_statement_about_our_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    spec = importlib.util.spec_from_file_location("bench_questions", ROOT / "bench" / "questions.py")
    assert spec is not None and spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    asked = bench.questions()
    assert [int(re.match(r"\d+", q)[0]) for q, _ in asked] == list(range(1, 31))  # type: ignore[index]  # it matches
    for _, statement in asked:
        assert needed_tables(parse_statement(statement), AUDIT_SCHEMAS, None)
