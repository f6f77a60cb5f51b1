"""Completion of commands and of the names of tables and views, quick enough for a key press.

Names come from the log's SQLite file alone, and no command is loaded for them.
"""

from __future__ import annotations

import os
import re
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from icecore.engine.cli.settings import Command, Settings, common_options
from icecore.engine.errors import name_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from icecore.engine.common.identifiers import Identifier

VARIABLE = "_ICECORE_COMPLETE"
"""The variable in which a shell asks for completions."""
GROUPS = {"alter", "branch", "namespace", "properties", "tag", "token"}
_LOG = "icecore.db"


def completes_names(command: str) -> bool:
    """Whether a shell asks for a name that a command takes, not for a command of a group, nor for an option."""
    word = [*os.environ.get("COMP_WORDS", "").split(), os.environ.get("COMP_CWORD", "")][-2:]
    return VARIABLE in os.environ and command not in GROUPS and not any(w.startswith("-") for w in word)


def named(command: str) -> click.Command:
    """A stand-in for a command, which takes nothing but names."""
    argument = click.Argument(["names"], nargs=-1, shell_complete=_names)
    loose = {"ignore_unknown_options": True}
    return common_options(click.Command(command, params=[argument], context_settings=loose))


def name_argument(name: str) -> Callable[[Command], Command]:
    """An argument of commands in a group, which is loaded to be completed: the name of a table or view."""
    return click.argument(name, shell_complete=_names)


def _names(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that begin as what was typed."""
    names = map(name_text, known_names(context.find_object(Settings)))
    # A shell is told one name a line.
    return [CompletionItem(_typed(n)) for n in names if n.startswith(incomplete) and "\n" not in n]


def known_names(settings: Settings | None) -> list[Identifier]:
    """The names of the tables and views of a warehouse; none where it can't be read."""
    import sqlite3
    from pathlib import Path

    from icecore.engine.queries.named_queries import query

    if settings is None or not settings.warehouse:
        return []
    file = (Path(settings.warehouse) / _LOG).absolute().as_uri()
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"{file}?mode=ro", uri=True, timeout=0.1)) as log,
    ):
        named = log.execute(query("log/read_models.sql", "names_to_complete"))
        return [(*space.split("."), name) for space, name in named]
    return []


def _typed(name: str) -> str:
    """A name as one word of the shell, whatever is in it: bash puts in what it is told, other shells quote it.

    Its script takes away one backslash of two.
    """
    if not os.environ[VARIABLE].startswith("bash"):
        return name
    return re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", name).replace("\\", "\\\\")
