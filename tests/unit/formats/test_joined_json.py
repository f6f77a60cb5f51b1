"""Arrays that are joined from what was kept are the arrays that joining all items makes."""

from __future__ import annotations

from collections import Counter

import orjson
from hypothesis import given
from hypothesis import strategies as st

from icecore.engine.common.growing_json import KEPT, SHORT, JoinedJson


class Item:
    def __init__(self, number: int) -> None:
        self.number = number


ITEMS = [Item(n) for n in range(SHORT + 40)]
CUTS = st.tuples(st.integers(0, 3), st.integers(0, len(ITEMS)), st.booleans())


def number(item: Item) -> bytes:
    return orjson.dumps(item.number)


@given(st.lists(st.tuples(st.integers(0, KEPT + 1), CUTS), max_size=12))
def test_every_list_is_joined_whole(steps: list[tuple[int, tuple[int, int, bool]]]) -> None:
    """Lists that grow, shrink, lose their first items, have other objects, or share a key with a stranger."""
    joined: JoinedJson[Item] = JoinedJson(number)
    for key, (first, last, others) in steps:
        items = tuple(Item(-i.number) if others else i for i in ITEMS[first:last])
        assert orjson.loads(joined.of(key, items)) == [i.number for i in items]


def test_a_list_that_grew_asks_only_its_new_items() -> None:
    asked: Counter[int] = Counter()

    def counted(item: Item) -> bytes:
        asked[item.number] += 1
        return number(item)

    joined: JoinedJson[Item] = JoinedJson(counted)
    for length in range(SHORT + 1, len(ITEMS) + 1):
        joined.of("t", tuple(ITEMS[:length]))
    assert set(asked.values()) == {1}
    for other in range(KEPT):
        joined.of(other, tuple(ITEMS))
    joined.of("t", tuple(ITEMS))
    assert asked[0] == 1 + KEPT + 1, "only the last few lists are kept"
