"""The command `icecore`: a thin face of the library."""

from __future__ import annotations

import errno
import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from icecore.engine.cli.completion import completes_names, known_names, named
from icecore.engine.cli.settings import Settings, program_options
from icecore.engine.common.text import printable
from icecore.engine.common.version import VERSION
from icecore.engine.errors import IcecoreError, MissingNamespaceError, did_you_mean

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
COMMANDS: Mapping[str, tuple[str, str, str]] = {
    "init": ("warehouse.warehouse_commands", "init", "Make a warehouse folder, or say that it is one."),
    "create": ("creating", "create", "Make an empty table."),
    "create-view": ("creating", "create_view", "Make a view of a query."),
    "ls": ("table_commands", "ls", "List the tables and views of a namespace, or of all."),
    "describe": ("table_commands", "describe", "Print what a table or view is."),
    "load": ("rows.loading", "load", "Load FILES into a table, which is made where it is missing."),
    "append": ("rows.loading", "append", "Append the rows of FILES, as one commit."),
    "upsert": ("rows.row_commands", "upsert", "Update the rows whose keys FILES have, and insert the others."),
    "overwrite": ("rows.row_commands", "overwrite", "Replace rows by those of FILES, in one commit."),
    "delete": ("rows.row_commands", "delete", "Delete rows of a table."),
    "add-files": ("rows.loading", "add_files", "Add Parquet files to a table, as they are."),
    "register": ("adopting", "register", "Adopt a table of another engine."),
    "register-folder": ("adopting", "register_folder", "Register all tables and views below FOLDER, in one commit."),
    "unregister": ("dropping", "unregister", "Drop a table for another catalog to register."),
    "migrate": ("adopting", "migrate", "Make a table of a folder of Parquet files."),
    "resolve": ("adopting", "resolve", "End a conflict with another engine's commit."),
    "rename": ("changes.name_commands", "rename", "Rename a table or view."),
    "alter": ("changes.alter_commands", "alter", "Change the columns, partitions, order or format of a table."),
    "properties": (
        "changes.name_commands",
        "properties",
        "Read and change properties.",
    ),
    "namespace": ("changes.name_commands", "namespace", "Make, list and drop namespaces."),
    "refs": ("changes.ref_commands", "refs", "List the branches and tags of a table."),
    "branch": ("changes.ref_commands", "branch", "Make, move, keep and remove branches."),
    "tag": ("changes.ref_commands", "tag", "Make, move and remove tags."),
    "rollback": ("changes.ref_commands", "rollback", "Point main at one of its ancestors."),
    "set-snapshot": ("changes.ref_commands", "set_snapshot", "Point main at any snapshot, an ancestor or not."),
    "cherry-pick": ("changes.ref_commands", "cherry_pick", "Apply the changes of a snapshot to main."),
    "publish": ("changes.ref_commands", "publish", "Apply to main what was staged under a wap.id, once."),
    "maintain": ("changes.upkeep_commands", "maintain", "Do all the upkeep that a table's properties ask for."),
    "compact": ("changes.upkeep_commands", "compact", "Write small data files again as few large ones."),
    "rewrite-deletes": ("changes.upkeep_commands", "rewrite_deletes", "Merge position deletes."),
    "rewrite-manifests": (
        "changes.upkeep_commands",
        "rewrite_manifests",
        "Write manifests again, by partition.",
    ),
    "compute-statistics": ("changes.upkeep_commands", "compute_statistics", "Compute the statistics of a snapshot."),
    "expire": ("changes.upkeep_commands", "expire", "Let old snapshots go, with the files that only they need."),
    "orphans": ("changes.upkeep_commands", "orphans", "Delete files in a table's folders that nothing needs."),
    "rewrite-table-path": (
        "changes.path_commands",
        "rewrite_table_path",
        "Write the metadata of a table that is to be copied elsewhere.",
    ),
    "materialize": (
        "changes.upkeep_commands",
        "materialize",
        "Write the metadata files of tables by hand.",
    ),
    "checkpoint": ("changes.upkeep_commands", "checkpoint", "Note the state of all tables in the log's file."),
    "drop": ("dropping", "drop", "Drop a table or view."),
    "undrop": ("dropping", "undrop", "Give a dropped table or view its name back."),
    "purge": ("dropping", "purge", "Delete the files of a dropped table, for good."),
    "undo": ("past.recovery_commands", "undo", "Undo the last commit of yours."),
    "revert": ("past.recovery_commands", "revert", "Undo the commit at POSITION, or a range of them."),
    "restore": ("past.recovery_commands", "restore", "Make the table or view NAME, a namespace or everything again."),
    "blame": (
        "past.blame_commands",
        "blame",
        "Print which commit brought each row, or changed a file, column and so on.",
    ),
    "diff": ("past.compare_commands", "diff", "Print what differs between two positions or times."),
    "show-commit": ("past.compare_commands", "show_commit", "Print all that one commit was."),
    "what-if": ("past.what_if_commands", "what_if", "Run commands in a copy that is thrown away."),
    "where-is": ("past.search_commands", "where_is", "Say whether VALUE is anywhere."),
    "log": ("reading", "log", "Print who did what, when and why, newest first."),
    "show": ("reading", "show", "Print the first rows of a table or view."),
    "plan": ("plan_commands", "plan", "Print which files a scan would read."),
    "plans": ("plan_commands", "plans", "Print the names of the plans that are kept of a table."),
    "query": ("querying", "query", "Run SQL over the rows of tables and views."),
    "sql": ("reading", "sql", "Run SQL over the log and all metadata."),
    "verify": ("warehouse.warehouse_commands", "verify", "Check the log and every file that a table needs."),
    "audit": ("auditing", "audit", "Check the tables and the log by rules."),
    "report": ("warehouse.reporting", "report", "Write a report of all tables, or of one, as an HTML file."),
    "serve": ("warehouse.serving_commands", "serve", "Serve the warehouse as an Iceberg REST catalog."),
    "token": ("warehouse.token_commands", "token", "Make, list and revoke tokens for clients of icecore serve."),
    "rebuild": ("warehouse.warehouse_commands", "rebuild", "Make metadata again from the log."),
    "export": ("warehouse.log_commands", "export", "Write the whole log to FILE."),
    "archive": ("warehouse.log_commands", "archive", "Move the oldest events into an archive file."),
    "forget": ("warehouse.log_commands", "forget", "Take values that are no longer in force out of the log."),
    "import": ("warehouse.log_commands", "import_", "Make a warehouse of an exported log."),
    "move": ("warehouse.folder_commands", "move", "Give a moved warehouse the paths of its folder."),
    "clone": ("warehouse.folder_commands", "clone", "Make a copy that is a warehouse of its own."),
    "demo": ("warehouse.warehouse_commands", "demo", "Load a year of flights and show it all."),
}
"""The module and function of each command, and what it does."""
_OF_PYICEBERG = {
    **dict.fromkeys(("schema", "spec", "uuid", "location"), "describe"),
    "files": "plan",
    "version": "--version",
}
"""What has the answer of a command that PyIceberg has."""


class Failure(click.ClickException):
    """An IcecoreError as one line on standard error; the exit code is 1."""

    def show(self, file: Any = None) -> None:
        """Prints the error as one line."""
        click.echo(f"error: {printable(self.message)}", file=file, err=file is None)


class Program(click.Group):
    """The program: runs a command and turns errors of icecore into a line of text."""

    def invoke(self, context: click.Context) -> Any:
        """Runs the command. Raises Failure for an IcecoreError and what the system refuses, Exit for Ctrl-C."""
        settings = context.ensure_object(Settings)
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            # As shells have it: 1 would say that an audit had found something.
            click.echo(f"\nAborted!{_stored(settings.stored_since())}", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None
        except IcecoreError as e:
            raise Failure(" ".join(str(e).split()) + _meant(e, settings)) from e
        except OSError as e:
            if e.errno == errno.EPIPE:
                raise
            # What is written to is full or not there: the output, or a file that an option names.
            raise Failure(str(e) or type(e).__name__) from e
        except UnicodeEncodeError as e:
            way = "" if e.encoding.startswith("utf") else "; PYTHONIOENCODING=utf-8 has all written in UTF-8"
            raise Failure(f"{e.object[e.start]!a} can't be written in {e.encoding}{way}") from e

    def list_commands(self, _: click.Context | None) -> list[str]:
        """The commands in the order of a warehouse's life, not of the alphabet."""
        return list(COMMANDS)

    def get_command(self, _: click.Context | None, name: str) -> click.Command | None:
        """The command, of a module that is loaded only now."""
        if name not in COMMANDS:
            return None
        if completes_names(name):
            return named(name)
        module, function, _help = COMMANDS[name]
        command: click.Command = getattr(import_module(f"icecore.engine.cli.{module}"), function)
        return command

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that words begin with. Raises UsageError, with those that are like it, where it is none."""
        if words[0] not in COMMANDS and not context.resilient_parsing:
            from difflib import get_close_matches

            known = _OF_PYICEBERG.get(words[0])
            if alike := [known] if known else get_close_matches(words[0], COMMANDS):
                context.fail(f"No such command {words[0]!r}. Did you mean {' or '.join(map(repr, alike))}?")
        return super().resolve_command(context, words)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands and options that begin so, without loading any command."""
        found = [CompletionItem(n, help=text) for n, (_, _, text) in COMMANDS.items() if n.startswith(incomplete)]
        return found + click.Command.shell_complete(self, context, incomplete)

    def format_commands(self, _: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the help of each command, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_module, _function, text) in COMMANDS.items()])


def _stored(positions: range) -> str:
    """The words for commits that stand all the same."""
    if not positions:
        return ""
    first, last = positions[0], positions[-1]
    are = f"Commit {first} was" if first == last else f"Commits {first} to {last} were"
    return f" {are} stored since it began; icecore log tells what they did."


def _meant(error: IcecoreError, settings: Settings) -> str:
    """The names that may be meant by one without its namespace."""
    if not isinstance(error, MissingNamespaceError):
        return ""
    from icecore.engine.common.text import names_like

    return did_you_mean(names_like((error.name,), known_names(settings)))


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(VERSION, prog_name="icecore")
@program_options
def cli() -> None:
    """Iceberg tables in a folder: an event log on SQLite, plans and audits in DuckDB SQL.

    A TABLE or VIEW is named by its namespace and name, as in demo.flights.
    """


def main() -> None:
    """The entry point of the command `icecore`. Where a pipe is closed early it ends without a word."""
    warnings.showwarning = _show_warning
    if "demo" not in sys.argv:
        sys.meta_path.insert(0, _NoPandas())
    cli(prog_name="icecore")


class _NoPandas:
    """Lets Arrow find no pandas, which it imports, for a third of a second, to ask if a list is one of pandas.

    Only the demo, by Spark, has any.
    """

    def find_spec(self, fullname: str, *_: object) -> None:
        """Raises ModuleNotFoundError for pandas, as where it is not installed."""
        if fullname == "pandas":
            raise ModuleNotFoundError("the command line does without pandas", name=fullname)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Prints a warning of the library as one line on standard error."""
    click.echo(f"warning: {printable(' '.join(str(message).split()))}", err=True)
