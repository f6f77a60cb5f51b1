"""The check of a warehouse against its log: the log itself, the read models, and every file on disk."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from icecore.engine.log.store import EventStore
from icecore.engine.metadata.fold import TableState
from icecore.engine.repository.repository import Repository
from icecore.projections.verify.findings import UNCHECKED, Verification, of_log
from icecore.projections.verify.verify_files import ahead_problems
from icecore.projections.verify.verify_log import check_log
from icecore.projections.verify.verify_tables import Progress, check_files

ATTEMPTS = 3


def verify(
    store: EventStore,
    repository: Repository,
    streams: Iterable[str] | None = None,
    *,
    deep: bool = False,
    rows: bool = False,
    progress: Progress | None = None,
) -> Verification:
    """Checks the whole log, and every file of the streams, or of all; changes nothing. Raises StorageError.

    All that is in the database is read as of one moment. Where something is wrong and others commit meanwhile, it is
    looked at again, because their files move on. With `deep` content files, manifests and statistics are opened
    too, and with `rows` data files read.
    """
    chosen = None if streams is None else frozenset(streams)
    for _ in range(ATTEMPTS):
        with store.reading():
            log = check_log(store, repository, chosen)
        # Versions are seen before they are in the log, so these are asked for as of now.
        tables = [state for state in log.states if isinstance(state, TableState)]
        problems = [*log.problems, *chain.from_iterable(ahead_problems(repository, state) for state in tables)]
        if not problems or store.head()[1] == log.head:
            break
    findings = of_log(problems)
    notes = []
    files, stores = 0, dict[str, str | None]()
    for state in log.states:
        checked = check_files(repository, state, stores, deep=deep or rows, rows=rows, progress=progress)
        files += checked.files
        findings += (f for f in checked.findings if f.cause not in UNCHECKED)
        notes += [f for f in checked.findings if f.cause in UNCHECKED]
    views = len(log.states) - len(tables)
    return Verification(log.position, len(tables), files, log.head, tuple(findings), tuple(notes), views)
