"""What gathers changes for one commit: builders and transactions. Its `commit()` uses it up, whatever came of it.

So nothing is made twice, and nothing that is asked for after the commit is lost without a word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self

from icecore.engine.errors import ValidationError


class UsedOnce:
    """Knows whether it was used up. What gathers or commits asks first."""

    _is_used = False

    def _check_open(self) -> None:
        """Raises ValidationError where it was used up."""
        if self._is_used:
            # What a subclass is called that only the engine makes tells a caller nothing.
            name = next(c.__name__ for c in type(self).__mro__ if not c.__name__.startswith("_"))
            raise ValidationError(f"this {name} was committed already, or its block has ended; start another one")

    def _use_up(self) -> None:
        """To be called by `commit()` first. Raises ValidationError where that was done before."""
        self._check_open()
        self._is_used = True


class OnceInBlock(UsedOnce, ABC):
    """What a `with` block commits at its end: where it ends well, and was not committed inside."""

    @abstractmethod
    def commit(self) -> object:
        """Commits what was gathered, once."""

    def _abandon(self) -> None:
        """Ends it where the block raised: nothing is committed any more."""
        self._is_used = True

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_used:
            return
        if kind is None:
            self.commit()
        else:
            self._abandon()
