from __future__ import annotations

import pytest

from icecore.engine.query import query_sources


@pytest.fixture(params=[query_sources.FEW_FILES, -1], ids=["read by this engine", "by DuckDB"])
def few_files(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways in which the files of a query are read."""
    monkeypatch.setattr(query_sources, "FEW_FILES", request.param)
