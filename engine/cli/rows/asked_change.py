"""A change of a table's rows as a command makes it: asked about where it takes away, and told of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen

from icecore.engine.cli.verbs import agree
from icecore.engine.common.text import names_like
from icecore.engine.display.commit_text import dry_run_lines, dry_run_record, sums, sums_text
from icecore.engine.display.output import waiting
from icecore.engine.errors import NoSuchSnapshotError
from icecore.engine.events.commit_watch import CommitWatch, watching_commits
from icecore.engine.events.event_updates import snapshots_of
from icecore.engine.spec.snapshot import MAIN_BRANCH, Snapshot

if TYPE_CHECKING:
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.cli.settings import Settings
    from icecore.engine.commit.dry_run import DryRun
    from icecore.engine.events.event import Event
    from icecore.engine.table.table import Table

    Change = Callable[[Table, bool], DryRun | None]
    """A change of a table, or its dry run."""


@frozen
class AskedChange:
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
            if not would.is_done:
                agree(lines, yes=False)
        with waiting(f"{self.verb} {name}"), watching_commits() as watch:
            self.change(table, False)
        self._tell(settings, name, MadeCommits.of(watch, table))

    def _check_branch(self, table: Table, name: str) -> None:
        refs = table.refs()
        if self.branch not in (None, MAIN_BRANCH) and self.branch not in refs:
            like = names_like((str(self.branch),), ((ref,) for ref in refs))
            raise NoSuchSnapshotError(f"{name} has no branch {self.branch!r}", like=like)

    def _tell(self, settings: Settings, name: str, made: MadeCommits) -> None:
        if made.ids:
            text = f"{self.done} {name}: {sums_text(made.sums)}; snapshot {made.ids[-1]}"
        else:
            text = f"nothing to change in {name}"
        record = {"table": name, "dry_run": False, **made.record, "changes": made.sums}
        settings.print_record(record, made.before or text)


@frozen
class MadeCommits:
    """The commits of a command to a table, whatever others did meanwhile; none where its key was used `earlier`."""

    snapshots: tuple[Snapshot, ...]
    earlier: Event | None

    @classmethod
    def of(cls, watch: CommitWatch, table: Table) -> MadeCommits:
        """The commits that a watch saw, as far as they are the table's."""
        events = [e for e in watch.made if e.stream == table.state.stream]
        return cls(tuple(s for e in events for s in snapshots_of(e)[0]), watch.earlier)

    @property
    def ids(self) -> list[int]:
        """The ids of the snapshots."""
        return [s.snapshot_id for s in self.snapshots]

    @property
    def sums(self) -> dict[str, int]:
        """The rows and files that they added and removed."""
        return sums(s.summary or {} for s in self.snapshots)

    @property
    def before(self) -> str:
        """The words for what was done before under the command's key; empty where it did something itself."""
        if self.earlier is None:
            return ""
        done, snapshots = "done before, under this key", snapshots_of(self.earlier)[0]
        if not snapshots:
            return done
        return f"{done}, at position {self.earlier.position}: {sums_text(sums(s.summary or {} for s in snapshots))}"

    @property
    def record(self) -> dict[str, Any]:
        """The last snapshot for programs, and the position of what was done before."""
        made = {"snapshot_id": self.ids[-1] if self.snapshots else None}
        return made | ({"done_before_at": self.earlier.position} if self.earlier else {})
