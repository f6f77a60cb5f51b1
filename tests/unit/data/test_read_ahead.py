"""Reading ahead: in order, and not further than a few."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from icecore.engine.data.read.read_ahead import READ_AHEAD, read_ahead


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(read_ahead(lambda i: i * i, range(50))) == [i * i for i in range(50)]
    assert list(read_ahead(lambda i: i, range(READ_AHEAD - 1))) == list(range(READ_AHEAD - 1))
    assert list(read_ahead(lambda i: i, ())) == []


def test_no_more_than_a_few_are_begun_before_they_are_taken() -> None:
    asked: list[int] = []

    def items() -> Iterator[int]:
        for i in range(50):
            asked.append(i)
            yield i

    results = read_ahead(lambda i: i, items())
    for taken in range(10):
        assert next(results) == taken
        assert len(asked) <= taken + READ_AHEAD


def test_an_error_comes_in_the_place_of_its_item() -> None:
    results = read_ahead(lambda i: 6 // i, (3, 2, 0, 1))
    assert [next(results), next(results)] == [2, 3]
    with pytest.raises(ZeroDivisionError):
        next(results)
