"""The base of the updates that people build step by step: they record operations and commit them once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar

from icecore.engine.commit.dry_run import DryRun
from icecore.engine.commit.single_use import OnceInBlock
from icecore.engine.common.identifiers import Identifier

Op = TypeVar("Op")


class RecordedUpdate(OnceInBlock, Generic[Op]):
    """An update that records operations in the order of the calls; nothing is checked or changed before the commit.

    `commit` is called with all of them, once. As a context manager the update commits on a clean exit, and drops what
    it recorded where the block raises.
    """

    def __init__(self, commit: Callable[[tuple[Op, ...]], DryRun | None], of: Identifier | None = None) -> None:
        """`of` is the name of the table."""
        self._commit = commit
        self._of = of
        self._ops: list[Op] = []
        self._touched = False
        self._outcome: DryRun | None = None

    def __repr__(self) -> str:
        pending = (getattr(op, "updates_for", op) for op in self._ops)
        return self._shown(self._of, pending)

    @property
    def outcome(self) -> DryRun | None:
        """The outcome of a dry run, once it ended; None for a commit."""
        return self._outcome

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operations recorded so far."""
        return tuple(self._ops)

    def commit(self) -> DryRun | None:
        """Commits the operations. Raises ValidationError where that was done already, and what the commit raises.

        Returns the outcome of a dry run, else None.
        """
        self._use_up()
        self._outcome = self._commit(self.ops)
        return self._outcome

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if kind is None and not self._touched:
            # No method was called, so nothing is committed; some updates would make a change of no operations too.
            self._is_used = True
        super().__exit__(kind, *rest)

    def _record(self, op: Op) -> Self:
        self._touch()
        self._ops.append(op)
        return self

    def _touch(self) -> None:
        self._check_open()
        self._touched = True
