"""Docstrings: every public name has one, it begins with what the thing is, and a public call names what it raises.

Public are the modules, classes, functions and methods of engine/, projections/ and the face `icecore`, but for names
that begin with `_`. No docstring need have

- a method that a base class, or a Protocol of its folder, documents under the same name: it is said once;
- a line `def x(self) -> T: ...` of a Protocol, whose own docstring tells what it is for;
- `to_dict`, `from_dict`, `to_json` and `to_payload`: the JSON form of the value, and the value of one;
- overloads and `__methods__`.

A docstring is a noun phrase or a plain statement. `What it holds` or `How many there are` has to be read twice, so none
begins like that, of private names neither; `Whether` begins one only where the answer is a bool. Errors are those of
`engine/errors.py` that stand in a `raise` of the function itself; helpers that raise for it are not looked into, and
commands of the shell, whose docstrings are their help, end with any error as a line of text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from attrs import frozen

ROOT = Path(__file__).parents[1]
OPENINGS = re.compile(r"(What|How|Where|Which|Who|When|That|Those|If|None|Nothing)\b")
JSON_FORMS = {"to_dict", "from_dict", "to_json", "to_payload"}
Definition = ast.FunctionDef | ast.ClassDef


@frozen
class Named:
    """A class, function or method: its place, the class that it is in, and whether its whole path is public."""

    path: Path
    node: Definition
    owner: ast.ClassDef | None
    is_public: bool

    @property
    def place(self) -> str:
        owner = "" if self.owner is None else f"{self.owner.name}."
        return f"{self.path.relative_to(ROOT)}:{self.node.lineno} {owner}{self.node.name}"

    @property
    def doc(self) -> str | None:
        return ast.get_docstring(self.node)


def files() -> list[Path]:
    return [p for room in ("engine", "projections", "src/icecore") for p in sorted((ROOT / room).rglob("*.py"))]


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def definitions(path: Path) -> Iterator[Named]:
    """All but those inside of functions, and overloads."""

    def inside(body: list[ast.stmt], owner: ast.ClassDef | None, is_public: bool) -> Iterator[Named]:
        for node in body:
            if isinstance(node, ast.If | ast.Try):
                yield from inside(node.body, owner, is_public)
            elif isinstance(node, Definition) and not any(ast.unparse(d) == "overload" for d in node.decorator_list):
                public = is_public and not node.name.startswith("_")
                yield Named(path, node, owner, public)
                if isinstance(node, ast.ClassDef):
                    yield from inside(node.body, node, public)

    yield from inside(tree(path).body, None, True)


@cache
def everything() -> tuple[Named, ...]:
    return tuple(named for path in files() for named in definitions(path))


@cache
def base_names(node: ast.ClassDef) -> frozenset[str]:
    """The names of the bases, without their modules and parameters."""
    plain = (b.value if isinstance(b, ast.Subscript) else b for b in node.bases)
    return frozenset(ast.unparse(b).rsplit(".", 1)[-1] for b in plain)


def is_protocol(node: ast.ClassDef) -> bool:
    return "Protocol" in base_names(node)


def is_stub(node: Definition) -> bool:
    """Whether the body is `...`."""
    return len(node.body) == 1 and ast.unparse(node.body[0]) == "..."


class Documented:
    """The methods that classes document."""

    def __init__(self) -> None:
        names = everything()
        self.classes = [n for n in names if isinstance(n.node, ast.ClassDef)]
        self.methods = {(n.path, n.owner.name, n.node.name) for n in names if n.owner is not None and n.doc}

    def above(self, node: ast.ClassDef, path: Path) -> Iterator[tuple[Path, str]]:
        """The bases of a class with theirs, and the Protocols of its folder."""
        bases = base_names(node)
        for other in self.classes:
            assert isinstance(other.node, ast.ClassDef)
            if other.node.name in bases and other.node is not node:
                yield other.path, other.node.name
                yield from self.above(other.node, other.path)
            elif is_protocol(other.node) and other.path.parent == path.parent:
                yield other.path, other.node.name

    def says(self, named: Named) -> bool:
        """Whether a method is documented above, so that it need not be again."""
        if named.owner is None:
            return False
        key = named.node.name
        return any((path, name, key) in self.methods for path, name in self.above(named.owner, named.path))


def test_every_public_name_has_a_docstring() -> None:
    documented = Documented()
    modules = [str(p.relative_to(ROOT)) for p in files() if tree(p).body and not ast.get_docstring(tree(p))]
    missing = [
        n.place
        for n in everything()
        if n.is_public
        and not n.doc
        and n.node.name not in JSON_FORMS
        and not (n.owner is not None and is_protocol(n.owner) and is_stub(n.node))
        and not documented.says(n)
    ]
    assert [m for m in modules if not m.endswith("__init__.py")] + missing == []


def test_docstrings_begin_with_what_the_thing_is() -> None:
    def is_plain(doc: str | None, gives_bool: bool) -> bool:
        return not doc or not (OPENINGS.match(doc) or (doc.startswith("Whether") and not gives_bool))

    modules = [str(p.relative_to(ROOT)) for p in files() if not is_plain(ast.get_docstring(tree(p)), False)]
    names = [n.place for n in everything() if not is_plain(n.doc, gives_bool(n.node))]
    assert modules + names == []


def gives_bool(node: Definition) -> bool:
    return isinstance(node, ast.FunctionDef) and node.returns is not None and "bool" in ast.unparse(node.returns)


def is_command(node: ast.FunctionDef) -> bool:
    """Whether the function is a command of the shell."""
    return any(ast.unparse(d).startswith("click.command(") for d in node.decorator_list)


@cache
def error_names() -> frozenset[str]:
    return frozenset(n.node.name for n in definitions(ROOT / "engine/errors.py"))


def raised(node: ast.FunctionDef) -> set[str]:
    """The errors that the function raises itself, in its own body."""
    names: set[str] = set()
    waiting: list[ast.AST] = list(node.body)
    while waiting:
        at = waiting.pop()
        if isinstance(at, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(at, ast.Raise) and at.exc is not None:
            made = at.exc.func if isinstance(at.exc, ast.Call) else at.exc
            names.add(ast.unparse(made).rsplit(".", 1)[-1])
        waiting.extend(ast.iter_child_nodes(at))
    return names & error_names()


def test_public_calls_name_what_they_raise() -> None:
    documented = Documented()
    silent = [
        f"{n.place}: {', '.join(unsaid)}"
        for n in everything()
        if n.is_public
        and isinstance(n.node, ast.FunctionDef)
        and not is_command(n.node)
        and (unsaid := sorted(e for e in raised(n.node) if e not in (n.doc or "")))
        and not documented.says(n)
    ]
    assert silent == []
