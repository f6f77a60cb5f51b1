from __future__ import annotations

import pytest
from core_tables import make_table, rows

import icecore


@pytest.fixture
def events(catalog: icecore.Catalog) -> icecore.Table:
    """The table `ns.events`, which holds three rows."""
    table = make_table(catalog, "events")
    table.append(rows(1, 2, 3))
    return table
