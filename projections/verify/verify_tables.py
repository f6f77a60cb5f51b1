"""The check of the files of one table or view: those that it needs are found out, looked for, and judged.

Others may commit meanwhile: an expiry deletes files after its event is in the log. So what looks wrong is asked for
again as of a later moment, and counts only where it is still needed then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import define, field, frozen

from icecore.engine.errors import IcecoreError, MissingFileError, name_text
from icecore.engine.log.store import MODELS
from icecore.engine.metadata.fold import TableState, fold
from icecore.engine.metadata.view_fold import ViewState, fold_view
from icecore.engine.repository.repository import Repository
from icecore.projections.verify.findings import Cause, Finding
from icecore.projections.verify.verify_needed import (
    KINDS,
    PREVIOUS,
    Needed,
    NeededFile,
    needed_of_table,
    needed_of_view,
)
from icecore.projections.verify.verify_presence import GONE, Looker, judge
from icecore.projections.verify.verify_tally import Fault, Tally
from icecore.projections.verify.verify_unlogged import unlogged_commits

State: TypeAlias = "TableState | ViewState"
Progress: TypeAlias = "Callable[[str, int, int], object]"
"""A callback that is told the name of a table or view, the number of its files looked at, and that of all."""

LOOKS = 5
BATCH = 16_384


@frozen
class Checked:
    """The result for the files of a table or view, and the number of files looked at."""

    findings: tuple[Finding, ...]
    files: int


def check_files(
    repository: Repository,
    state: State,
    stores: dict[str, str | None],
    *,
    deep: bool,
    rows: bool = False,
    progress: Progress | None,
) -> Checked:
    """Checks all files that a table or view needs; with `deep` inside too, with `rows` all rows of data files.

    For `stores` see `Looker`.
    """
    name = name_text(state.identifier)
    tell = progress or (lambda *_: None)
    storage = repository.storage_of(state) if isinstance(state, TableState) else repository.storage
    looker = Looker(storage, stores)
    files = 0
    suspects: pa.Array | None = None
    for _ in range(LOOKS):
        moment, state, needed = _needed(repository, state, looker, deep, suspects)
        checking = _Checking(looker, needed, lambda done, of: tell(name, done, of))
        tally = checking.run(deep)
        if rows and isinstance(state, TableState):
            checking.read_rows(repository, state)
        files = files or needed.count
        if not tally.has_problems or _moment(repository, state.stream) == moment:
            break
        suspects = tally.locations()
    findings = tally.findings(name, state.dropped, looker.missing_folder)
    return Checked((*findings, *unlogged_commits(repository, state, storage)), files)


def _moment(repository: Repository, stream: str) -> tuple[object, ...]:
    """A value that changes with each commit, and with each publication of one."""
    head = repository.store.row(MODELS, "get_head", stream=stream)
    return (repository.store.head()[0], *(() if head is None else tuple(head)))


def _needed(
    repository: Repository, state: State, looker: Looker, deep: bool, suspects: pa.Array | None
) -> tuple[tuple[object, ...], State, Needed]:
    """The files needed now, only `suspects` where there are any, with the state and the moment they are of."""
    now: TableState | ViewState | None
    with repository.store.reading():
        moment = _moment(repository, state.stream)
        newer = repository.store.stream_events(state.stream, state.stream_version)
        if isinstance(state, TableState):
            now = table = fold(state, newer)
            assert table is not None, "a fold from a state has a state"
            needed = needed_of_table(repository, table, looker.unreachable, deep=deep)
        else:
            now = view = fold_view(state, newer)
            assert view is not None, "a fold from a state has a state"
            needed = needed_of_view(repository, view)
    assert now is not None, "one of both was folded"
    return moment, now, needed if suspects is None else needed.only(suspects)


@define
class _Checking:
    """One check of the files that a table or view needs."""

    _looker: Looker
    _needed: Needed
    _tell: Callable[[int, int], object]
    _tally: Tally = field(factory=Tally)
    _done: int = 0

    def run(self, deep: bool) -> Tally:
        """The tally of all faults."""
        self._say(0)
        files = self._needed.files
        for at in range(0, len(files), BATCH):
            self._look_at(files[at : at + BATCH])
        self._look_at_contents()
        if faults := self._needed.faults:
            known = self._of_tally([f.location for f in faults])
            self._tally.extend(f for f in faults if f.location not in known)
        if deep:
            self._look_inside()
        self._tell_of_not_kept()
        return self._tally

    def _tell_of_not_kept(self) -> None:
        """Notes the files of other engines that are there and that no event keeps."""
        only = [f for f in self._needed.files if not f.is_kept and not f.if_there]
        known = self._of_tally([f.location for f in only]) if only else ()
        for f in only:
            if f.location not in known:
                self._tally.add(
                    Fault(Cause.NOT_KEPT, f.kind, f.location, f"{f.location} is of another engine, and in no event")
                )

    def _of_tally(self, locations: Sequence[str]) -> set[str]:
        """The locations among these with a note in the tally, which may have a million more."""
        asked = pa.array(locations, pa.string())
        return set(asked.filter(pc.is_in(asked, self._tally.locations())).to_pylist())

    def _say(self, more: int, looks: int = 1) -> None:
        self._done += more
        self._tell(self._done, self._needed.count * looks)

    def _look_at(self, files: Sequence[NeededFile]) -> None:
        """Checks that files of metadata are there and have their size and, where it was noted, their checksum."""
        looked = self._looker.look([f.location for f in files])
        by_kind: dict[str, list[int]] = {}
        for i, f in enumerate(files):
            if looked.sizes[i] != GONE or not f.if_there:
                by_kind.setdefault(f.kind, []).append(i)
            elif f.kind == PREVIOUS:
                detail = f"{f.location} is gone, but no snapshot needs it"
                self._tally.add(Fault(Cause.NOT_NEEDED, f.kind, f.location, detail))
        for kind, places in by_kind.items():
            chosen = [files[i] for i in places]
            expected = np.array([f.length or 0 for f in chosen], np.int64)
            encrypted = np.array([f.is_encrypted for f in chosen])
            locations = pa.array([f.location for f in chosen], pa.string())
            judge(self._tally, kind, locations, expected, looked.at(places), encrypted)
        for i, f in enumerate(files):
            if f.sha256 is not None and looked.sizes[i] == f.length:
                self._compare(f)
        self._say(len(files))

    def _compare(self, f: NeededFile) -> None:
        storage = self._looker.storage
        try:
            digest = hashlib.sha256(storage.read_bytes(f.location)).hexdigest()
        except MissingFileError:
            self._tally.add(Fault(Cause.GONE, f.kind, f.location, f"{f.location} is gone"))
        except IcecoreError as e:
            remote = storage.local_path(f.location) is None
            cause = Cause.UNREACHABLE if remote else Cause.UNREADABLE
            self._tally.add(Fault(cause, f.kind, f.location, str(e)))
        else:
            if digest != f.sha256:
                detail = f"{f.location}: its bytes were changed after it was written"
                self._tally.add(Fault(Cause.CHANGED, f.kind, f.location, detail))

    def _look_at_contents(self) -> None:
        """Checks that content files are there and have their size."""
        for batch in self._needed.places.to_batches(max_chunksize=BATCH):
            looked = self._looker.look(batch["file_path"].to_pylist())
            kinds = batch["kind"].to_numpy()
            # A size of 0 was noted by writers that did not know it.
            noted = batch["file_size_in_bytes"].to_numpy()
            expected = np.where(noted > 0, noted, -1)
            encrypted = batch["is_encrypted"].to_numpy(zero_copy_only=False)
            for number in np.unique(kinds).tolist():
                places = np.flatnonzero(kinds == number)
                locations = batch["file_path"].take(pa.array(places))
                judge(self._tally, KINDS[number], locations, expected[places], looked.at(places), encrypted[places])
            self._say(batch.num_rows)

    def _look_inside(self) -> None:
        """Reads footers, manifests and deletion vectors of the files that are there as they should be."""
        from icecore.projections.verify.verify_contents import content_faults, metadata_faults

        storage, contents = self._looker.storage, self._needed.contents
        contents = contents.filter(pc.invert(pc.is_in(contents["file_path"], self._tally.locations())))
        known = self._of_tally([f.location for f in self._needed.files])
        files = [f for f in self._needed.files if f.location not in known and not f.if_there]
        for looked_at, faults in chain(metadata_faults(storage, files), content_faults(storage, contents)):
            self._tally.extend(faults)
            self._say(looked_at, 2)

    def read_rows(self, repository: Repository, state: TableState) -> None:
        """Reads the data files that are there as they should be, and compares what is noted of their rows."""
        from icecore.projections.verify.verify_rows import DATA_KIND, RowCheck

        contents, known = self._needed.contents, self._tally.locations()
        wanted = contents["file_path"].filter(
            pc.and_(pc.equal(contents["kind"], DATA_KIND), pc.invert(pc.is_in(contents["file_path"], known)))
        )
        unread = {f.location for f in self._needed.faults}
        manifests = [m for m in self._needed.manifests if m.manifest.manifest_path not in unread]
        for looked_at, faults in RowCheck(repository, state).faults(manifests, wanted):
            self._tally.extend(faults)
            self._say(looked_at, 3)
