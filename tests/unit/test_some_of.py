"""Lists in messages never stop without saying so."""

from __future__ import annotations

import pyarrow as pa
import pytest

import icecore
from icecore.engine.common.text import abbreviated
from icecore.engine.errors import ValidationError


def test_what_is_left_out_is_counted() -> None:
    assert [abbreviated("abc", most) for most in (4, 3, 2)] == ["a, b, c", "a, b, c", "a, b and 1 more"]
    assert abbreviated([]) == "none" and abbreviated(range(22)).endswith("18, 19 and 2 more")


def test_columns_of_a_wide_table_are_not_denied(catalog: icecore.Catalog) -> None:
    """The 21st is there, and the message does not say otherwise."""
    table = catalog.create_table("ns.w", pa.schema([(f"c{i}", pa.int64()) for i in range(21)]))
    with pytest.raises(ValidationError, match=r"no column 'nope' in the schema; there are: c0, .*, c19 and 1 more$"):
        table.schema().find_field("nope")
