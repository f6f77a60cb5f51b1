"""A change of a table's rows as a command makes it: asked about where it takes away, and told of."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.cli.settings import Settings
from icecore.engine.cli.verbs import agree
from icecore.engine.commit.dry_run import DryRun
from icecore.engine.common.text import names_like
from icecore.engine.display.commit_text import dry_run_lines, dry_run_record, sums, sums_text
from icecore.engine.display.output import waiting
from icecore.engine.errors import NoSuchSnapshotError
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot
from icecore.engine.table.table import Table

Change = Callable[[Table, bool], DryRun | None]
"""A change of a table, or its dry run."""


@frozen
class RowChange:
    """A change with its names: the verb, as `delete from`, and what was done, as `deleted from`.

    Where there is a `branch`, it has to be there: a change that takes rows away makes no new one.
    """

    verb: str
    done: str
    change: Change
    branch: str | None = None

    def run(self, settings: Settings, catalog: Catalog, name: str, *, dry_run: bool = False, yes: bool = True) -> None:
        """Makes the change and prints what it did; only what it would do for a dry run, and before asking.

        Raises Refused, Abort where it is not agreed to, NoSuchSnapshotError.
        """
        table = catalog.load_table(name)
        self._check_branch(table, name)
        if dry_run or not yes:
            would = self.change(table, True)
            lines = [] if would is None else dry_run_lines(f"{self.verb} {name}", would)
            if dry_run or would is None or (would.is_empty and not would.conflicts):
                settings.print_record({"table": name, **(dry_run_record(would) if would else {})}, *lines)
                return
            agree(lines, yes=False)
        before = {s.snapshot_id for s in table.snapshots()}
        with waiting(f"{self.verb} {name}"):
            self.change(table, False)
        self._tell(settings, name, [s for s in table.refresh().snapshots() if s.snapshot_id not in before])

    def _check_branch(self, table: Table, name: str) -> None:
        refs = table.refs()
        if self.branch not in (None, MAIN_BRANCH) and self.branch not in refs:
            like = names_like((str(self.branch),), ((ref,) for ref in refs))
            raise NoSuchSnapshotError(f"{name} has no branch {self.branch!r}", like=like)

    def _tell(self, settings: Settings, name: str, made: list[Snapshot]) -> None:
        found = sums(s.summary or {} for s in made)
        ids = [s.snapshot_id for s in made]
        text = f"{self.done} {name}: {sums_text(found)}" if made else f"nothing to change in {name}"
        shown = f"; snapshot {ids[-1]}" if ids else ""
        record = {"table": name, "dry_run": False, "snapshot_id": ids[-1] if ids else None, "changes": found}
        settings.print_record(record, text + shown)
