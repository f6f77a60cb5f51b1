"""Requests under keys, in any order, cut off anywhere, over and over: the log is as if each had come once."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

import icecore
from icecore.engine.common.ids import now_ms
from icecore.engine.errors import AlreadyExistsError, NamespaceNotEmptyError, NotFoundError, ReusedKeyError
from icecore.engine.events.keyed_request import KeyedRequest
from icecore.engine.log.request_keys import CARRIED_OUT, DEFAULT_LIFETIME_MS, RequestKeys, StoredAnswer
from icecore.engine.repository.answer_once import answer_once

NAMES = ("a", "b")
_PUT = RequestKeys.put
REFUSED = (AlreadyExistsError, NotFoundError, NamespaceNotEmptyError)


class Cut(BaseException):
    """Stands for the end of a request: of its process, or of the connection."""


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["k1", "k2", "k3", "k4"]),
        st.sampled_from(["create", "drop"]),
        st.sampled_from(NAMES),
        st.sampled_from(["", "", "before COMMIT", "after COMMIT"]),
    ),
    max_size=14,
)


@settings(max_examples=40)
@given(STEPS)
def test_each_request_is_carried_out_at_most_once(steps: list[tuple[str, str, str, str]]) -> None:
    """What came of the first that was not cut off before it did anything is what comes of each with its key."""
    with tempfile.TemporaryDirectory() as folder, icecore.open(Path(folder)) as catalog:
        there: set[str] = set()
        done: dict[str, tuple[str, str, str]] = {}
        for key, operation, name, cut in steps:
            outcome = _ask(catalog, key, operation, name, cut)
            if key in done:
                assert outcome == ("reused" if done[key][:2] != (operation, name) else done[key][2])
            elif (operation == "create") == (name in there):
                assert outcome == "refused"
                done[key] = (operation, name, "refused")
            else:
                assert outcome == (cut or "made")
                if cut != "before COMMIT":
                    done[key] = (operation, name, "again")
                    there ^= {name}
            assert {n for (n,) in catalog.list_namespaces()} == there
        keys = [e.provenance.idempotency_key for e in catalog._warehouse.store.events()]
        assert len(keys) == len(set(keys))


def _ask(catalog: icecore.Catalog, key: str, operation: str, name: str, cut: str) -> str:
    def make() -> str:
        call = catalog.create_namespace if operation == "create" else catalog.drop_namespace
        call(name)
        if cut == "after COMMIT":
            raise Cut
        return "made"

    store, request = catalog._warehouse.store, KeyedRequest(key, operation, name, now_ms() + DEFAULT_LIFETIME_MS)
    try:
        if cut != "before COMMIT":
            return answer_once(store, request, make, _again)
        with patch.object(RequestKeys, "put", _die):
            return answer_once(store, request, make, _again)
    except Cut:
        return cut
    except ReusedKeyError:
        return "reused"
    except REFUSED:
        return "refused"


def _again(stored: StoredAnswer) -> str:
    assert stored.first_position is not None
    return "again"


def _die(_: RequestKeys, request: KeyedRequest, status: int, *told: Any) -> None:
    """Dies just before the COMMIT of a request that is carried out."""
    if status == CARRIED_OUT:
        raise Cut
    _PUT(_, request, status, *told)
