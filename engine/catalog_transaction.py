"""Changes to several tables as one commit: all or nothing, one transaction id."""

from __future__ import annotations

from collections.abc import Callable

from icecore.engine.errors import CommitConflictError, NotFoundError, ValidationError
from icecore.engine.events import Provenance
from icecore.engine.identifiers import IdentifierLike
from icecore.engine.log.read_models import dotted
from icecore.engine.repository import Repository
from icecore.engine.state import TableState
from icecore.engine.table import Table
from icecore.engine.transaction import Transaction
from icecore.projections.planner import Planner


class CatalogTransaction:
    """Gathers changes of tables; `commit()`, or the end of a `with` block, makes them in one SQLite transaction.

    Each table's changes are one event; the events share a `transaction_id`. Where one of them lost a race all are
    prepared again, and where one is refused none is made.
    """

    def __init__(
        self,
        repository: Repository,
        planner: Planner,
        provenance: Provenance,
        load: Callable[[IdentifierLike], Table],
    ) -> None:
        self._repository = repository
        self._planner = planner
        self._provenance = provenance
        self._load = load
        self._parts: dict[str, Transaction] = {}

    def table(self, identifier: IdentifierLike) -> Transaction:
        """The changes of one table, the same object for each name of it. Raises NoSuchTableError.

        They are made with those of the other tables: its own `commit()` and `with` block only end with them.
        """
        state = self._load(identifier).state
        if state.stream not in self._parts:
            self._parts[state.stream] = _Part(
                self._repository, self._planner, state, self._provenance, _same_stream(state)
            )
        return self._parts[state.stream]

    def commit(self) -> None:
        """Raises CommitConflictError, ValidationError, NoSuchTableError; no table is changed then."""
        changed = [p for p in self._parts.values() if p.has_changes]
        if not changed:
            return
        try:
            results = self._repository.commit_all([p.part() for p in changed], self._provenance)
        except (CommitConflictError, ValidationError, NotFoundError):
            for part in changed:
                part.discard()
            raise
        except BaseException:
            for part in changed:
                part.keep_planned()
            raise
        for part, result in zip(changed, results, strict=True):
            part.end(result)
        self._parts = {}

    def __enter__(self) -> CatalogTransaction:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.commit()


class _Part(Transaction):
    """The part of one table, which the whole commits."""

    def commit(self) -> None:
        """Nothing yet: the changes are made with those of the other tables."""


def _same_stream(before: TableState) -> Callable[[TableState], None]:
    def check(after: TableState) -> None:
        if after.stream != before.stream:
            raise CommitConflictError(f"{dotted(before.identifier)} was replaced by another table meanwhile")

    return check
