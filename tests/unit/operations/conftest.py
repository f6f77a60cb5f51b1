from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from icecore.engine.repository import retry_policy
from icecore.engine.repository.repository import Repository


@pytest.fixture
def losing(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Callable[[], Any]]]:
    """Actions of others; each is done before one attempt to commit, after what it commits was planned.

    No plan takes too long to be made again in the write lock.
    """
    monkeypatch.setattr(retry_policy, "LOCKED_S", 600)
    actions: list[Callable[[], Any]] = []
    original, others = Repository._try_commit, [False]

    def delayed(self: Repository, *args: Any) -> Any:
        # What others commit meanwhile loses no race itself.
        if actions and not others[0]:
            others[0] = True
            try:
                actions.pop(0)()
            finally:
                others[0] = False
        return original(self, *args)

    monkeypatch.setattr(Repository, "_try_commit", delayed)
    yield actions
