"""The base of builders and transactions, which gather changes for one commit and are used up by it.

So nothing is made twice, and nothing that is asked for after the commit is lost without a word.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from icecore.engine.common.identifiers import Identifier
from icecore.engine.common.text import changes_repr
from icecore.engine.errors import ValidationError, name_text


class UsedOnce:
    """An object that can be used up: its methods check that first."""

    _is_used = False

    def _check_open(self) -> None:
        """Raises ValidationError where it was used up."""
        if self._is_used:
            raise ValidationError(
                f"this {self._public_name()} was committed already, or its block has ended; start another one"
            )

    def __reduce__(self) -> str:
        raise TypeError(
            f"{self._public_name()} can't be pickled or copied, or its changes would be made twice: send the table "
            f"or the catalog, and begin one there"
        )

    def _use_up(self) -> None:
        """Marks it used up; called first by `commit()`. Raises ValidationError where that was done before."""
        self._check_open()
        self._is_used = True

    def _shown(self, of: Identifier | None, pending: Iterable[object]) -> str:
        """The repr, with the table or view that it is about, if any, and its pending changes."""
        name = None if of is None else name_text(of)
        return changes_repr(self._public_name(), name, None if self._is_used else pending)

    def _public_name(self) -> str:
        # The name of a private subclass tells a caller nothing.
        return next(c.__name__ for c in type(self).__mro__ if not c.__name__.startswith("_"))


class OnceInBlock(UsedOnce, ABC):
    """A `with` block that commits at its end, unless it raised or was committed inside."""

    @abstractmethod
    def commit(self) -> object:
        """Commits the changes, once. Raises ValidationError the second time, and what the commit raises."""

    def _abandon(self) -> None:
        """Drops the changes, where the block raised."""
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
