"""The log as `events` has it: with what each event's table or view was called then and is called now."""

from __future__ import annotations

import pyarrow as pa

from icecore.projections.history.logged_tables import NAMED, LoggedTables
from icecore.projections.inspect.log_table import LOG_SCHEMA

_OF_LOG = [f for f in LOG_SCHEMA if f.name != "name"]
EVENTS = pa.schema([*NAMED, *_OF_LOG])


def with_names(log: LoggedTables, rows: pa.Table) -> pa.Table:
    """Rows of the log as rows of `events`."""
    unnamed: dict[str, str | None] = dict.fromkeys(f.name for f in NAMED)
    named, known = list[dict[str, str | None]](), log.named
    for stream, position in zip(rows["stream"].to_pylist(), rows["position"].to_pylist(), strict=True):
        named.append(known[stream].named(position) if stream in known else unnamed)
    columns = [*(pa.array([n[f.name] for n in named], f.type) for f in NAMED), *(rows[f.name] for f in _OF_LOG)]
    return pa.table(columns, schema=EVENTS)
