"""Properties are declared in one table: no other file spells a name, and the page of docs is made from it."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

from icecore.engine.properties.table_properties import PROPERTIES, VIEW_PROPERTIES

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "engine" / "properties" / "table_properties.py"
NAMES = {p.name for p in (*PROPERTIES, *VIEW_PROPERTIES)}
SPACES = sorted({name.split(".")[0] for name in NAMES} - {"icecore"})
"""What names of properties begin with; names of modules and of snapshot properties begin with `icecore` too."""
SPELLED = re.compile(rf"(?<![\w./-])(?:{'|'.join(SPACES)})\.[a-z]|{'|'.join(map(re.escape, sorted(NAMES)))}")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The strings of a module that are no docstrings."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.lineno, node.value


def test_no_file_but_the_table_spells_a_property() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text}"
        for folder in ("engine", "projections")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != TABLE and SPELLED.search(source := path.read_text())
        for line, text in texts(ast.parse(source))
        if SPELLED.search(text)
    ]
    assert found == []


def test_no_query_spells_a_property() -> None:
    """But for what the head of a query tells people."""
    code = re.compile(r"^--.*$", re.MULTILINE)
    found = [str(p) for p in (ROOT / "sql").rglob("*.sql") if any(n in code.sub("", p.read_text()) for n in NAMES)]
    assert found == []


def test_each_is_declared_once() -> None:
    for declared in (PROPERTIES, VIEW_PROPERTIES):
        assert len({p.name for p in declared}) == len(declared)


def test_the_page_is_made_from_the_table() -> None:
    """`python docs/properties.py` writes it anew."""
    spec = importlib.util.spec_from_file_location("properties_page", ROOT / "docs" / "properties.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.PAGE.read_text() == script.page()
