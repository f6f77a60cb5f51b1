"""Options that calls share are declared once, and are refused as those that a function writes out are."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pytest
from core_tables import files_below, make_table, rows

import icecore
from icecore.engine.catalog.catalog import Catalog
from icecore.engine.common.keyword_options import options_of, takes_options
from icecore.engine.errors import NoSuchSnapshotError, ValidationError
from icecore.engine.table import commit_options
from icecore.engine.table.commit_options import CommitOptions
from icecore.engine.table.table import Table
from icecore.engine.table.transaction import Transaction
from icecore.engine.view.view import View
from icecore.engine.view.view_changes import ViewTransaction

CLASSES = (Table, Transaction, View, ViewTransaction)
ROWS = {
    "append": (rows(1),),
    "overwrite": (rows(1),),
    "upsert": (rows(1), ["id"]),
    "delete_keys": ([{"id": 1}], ["id"]),
    "delete": ("id = 1",),
    "rewrite_data_files": (),
    "rewrite_position_delete_files": (),
    "rewrite_files": (["a"],),
    "rewrite_manifests": (),
    "remove_dangling_deletes": (),
}
# Each with something to do, in a table of two files one of which has deletes.
REWRITES: dict[str, Callable[..., Any]] = {
    "data files": lambda t, **how: t.rewrite_data_files(options={"rewrite-all": True}, **how),
    "position deletes": lambda t, **how: t.rewrite_position_delete_files(**how),
    "manifests": lambda t, **how: t.rewrite_manifests(**how),
    "dangling deletes": lambda t, **how: t.remove_dangling_deletes(**how),
    "data files and dangling deletes": lambda t, **how: t.rewrite_data_files(
        options={"rewrite-all": True, "remove-dangling-deletes": True}, **how
    ),
    "position and dangling deletes": lambda t, **how: t.rewrite_position_delete_files(
        options={"remove-dangling-deletes": True}, **how
    ),
}


def sharing(cls: type) -> dict[str, Callable[..., Any]]:
    """The calls of a class that take declared options, whether they refuse others or not."""
    found: dict[str, Callable[..., Any]] = {}
    for name, call in inspect.getmembers(cls, inspect.isfunction):
        parameters = inspect.signature(inspect.unwrap(call)).parameters.values()
        declared = any(p.kind is p.VAR_KEYWORD and p.annotation.startswith("Unpack[") for p in parameters)
        if not name.startswith("_") and declared:
            found[name] = call
    return found


CALLS = [pytest.param(cls, name, id=f"{cls.__name__}.{name}") for cls in CLASSES for name in sharing(cls)]


@pytest.mark.parametrize(("cls", "name"), CALLS)
def test_an_unknown_keyword_is_refused_by_name(cls: type, name: str) -> None:
    """Before the call looks at anything else, even at itself."""
    with pytest.raises(TypeError, match=rf"\w+\.{name}\(\) got an unexpected keyword argument 'brunch'"):
        getattr(cls, name)(None, brunch="b")


@pytest.mark.parametrize(("cls", "name"), CALLS)
def test_the_keywords_are_those_of_the_declared_type(cls: type, name: str) -> None:
    """What is refused at run time is what type checkers refuse, and `help` shows every option."""
    call = sharing(cls)[name]
    written = inspect.unwrap(call)
    [annotation] = [
        p.annotation for p in inspect.signature(written).parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD
    ]
    declared = getattr(commit_options, annotation[len("Unpack[") : -1])
    shown = inspect.signature(call).parameters
    assert all(p.kind is not inspect.Parameter.VAR_KEYWORD for p in shown.values())
    own = inspect.signature(written).parameters.keys()
    assert [n for n in shown if n not in own] == list(declared.__annotations__)


@pytest.mark.parametrize("name", ROWS)
def test_a_change_of_rows_takes_the_same_options_alone_and_in_a_transaction(name: str) -> None:
    alone = inspect.signature(getattr(Table, name)).parameters.keys() - {"table"}
    inside = inspect.signature(getattr(Transaction, name)).parameters.keys() - {"self", "transaction", "groups"}
    assert inside <= alone
    # In a transaction the schema is changed by a call of its own, and no part is a commit of its own.
    assert alone - inside - {"merge_schema", "options"} <= CommitOptions.__annotations__.keys()


@pytest.mark.parametrize("name", ROWS)
def test_nothing_is_written_for_an_unknown_keyword(tmp_path: Path, name: str) -> None:
    """Neither files nor an event; in a transaction the rest of it can still be committed."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        table = make_table(catalog)
        table.append(rows(1, 2))
        files, position = files_below(catalog.path), catalog.position
        with pytest.raises(TypeError, match="'brunch'"):
            getattr(table, name)(*ROWS[name], brunch="b")
        with table.transaction() as transaction:
            with pytest.raises(TypeError, match="'brunch'"):
                getattr(transaction, name)(*ROWS[name], brunch="b")
            with pytest.raises(TypeError, match="'message'"):
                getattr(transaction, name)(*ROWS[name], message="of the commit, not of the change")
            assert not transaction.has_changes
            assert files_below(catalog.path) == files
            transaction.append(rows(3))
        assert catalog.position == position + 1
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


@pytest.fixture
def with_deletes(tmp_path: Path) -> Iterator[Table]:
    """A table where each rewrite has something to do, on `main` as on `dev`."""
    with icecore.open(tmp_path) as catalog:
        catalog.create_namespace("ns")
        merge_on_read = {"write.delete.mode": "merge-on-read", "commit.manifest-merge.enabled": "false"}
        table = make_table(catalog, properties=merge_on_read)
        table.delete_keys(rows(1).select(["id"]), ["id"])
        table.append(rows(1, 2, 3))
        table.append(rows(4, 5))
        for n in (1, 2):
            table.delete(f"id = {n}")
        table.manage_snapshots().create_branch(table.snapshots()[-1].snapshot_id, "dev").commit()
        yield table


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("name", REWRITES)
def test_snapshots_of_rewrites_have_the_properties_that_are_given(with_deletes: Table, name: str, branch: str) -> None:
    """Each one where a call makes several."""
    table, before = with_deletes, len(with_deletes.snapshots())
    with pytest.raises(ValidationError, match="snapshot properties"):
        REWRITES[name](table, branch=branch, snapshot_properties={"why": 1})
    REWRITES[name](table, branch=branch, snapshot_properties={"why": "test"})
    made = table.snapshots()[before:]
    assert [(s.summary or {}).get("why") for s in made] == ["test"] * (2 if " and " in name else 1)
    assert table.metadata.refs[branch].snapshot_id == made[-1].snapshot_id


@pytest.mark.parametrize("name", REWRITES)
def test_a_rewrite_of_a_branch_that_is_not_there_is_refused(with_deletes: Table, name: str) -> None:
    """None is made for it, which would be one of a misspelt name that shows all of main's rows."""
    with pytest.raises(NoSuchSnapshotError, match="'mian'"):
        REWRITES[name](with_deletes, branch="mian")
    assert sorted(with_deletes.refresh().metadata.refs) == ["dev", "main"]


@pytest.mark.parametrize("cls", [Table, Catalog])
def test_methods_that_are_functions_of_modules_are_named_as_methods(cls: type) -> None:
    """So errors of their calls name them, and pickle finds them."""
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        assert (method.__qualname__, method.__module__) == (f"{cls.__name__}.{name}", cls.__module__)
        assert pickle.loads(pickle.dumps(method)) is method


def test_errors_of_calls_name_the_method() -> None:
    """Of checked keywords, and Python's own."""
    with pytest.raises(TypeError, match=r"^Table\.append\(\) got an unexpected keyword argument 'brunch'"):
        Table.append(None, rows(1), brunch="b")  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError, match=r"^Table\.append\(\) missing 1 required positional argument: 'df'"):
        Table.append(None)  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError, match=r"^Table\.named_plan\(\) missing"):
        Table.named_plan(None)  # type: ignore[call-arg, arg-type]
    with pytest.raises(TypeError, match=r"^Catalog\.create_namespace\(\) got an unexpected keyword argument 'brunch'"):
        Catalog.create_namespace(None, "ns", brunch="b")  # type: ignore[call-arg, arg-type]
    assert "def append(table: TableHandle" in inspect.getsource(Table.append)


class Colours(TypedDict, total=False):
    ink: str
    paper: str | None


@takes_options(Colours)
def printed(text: str, *pages: int, copies: int = 1, **options: Unpack[Colours]) -> tuple[Any, ...]:
    return text, pages, copies, options


def test_options_are_taken_as_keywords_that_are_written_out() -> None:
    assert printed("a", 1, 2, copies=3, ink="red") == ("a", (1, 2), 3, {"ink": "red"})
    assert printed(text="a") == ("a", (), 1, {})
    assert str(inspect.signature(printed)).startswith("(text: 'str', *pages: 'int', copies: 'int' = 1, ink: 'str' = ")
    for unknown in ("pages", "options", "Ink"):
        with pytest.raises(TypeError, match=rf"printed\(\) got an unexpected keyword argument '{unknown}'"):
            printed("a", **{unknown: 1})  # type: ignore[arg-type]


def test_options_are_divided_by_who_declares_them() -> None:
    options = {"ink": "red", "message": "m", "dry_run": True}
    assert options_of(Colours, options) == {"ink": "red"}
    assert options_of(CommitOptions, options) == {"message": "m", "dry_run": True}
