"""The times at which a table's files are written: with each commit, or by hand (`icecore.materialize`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icecore.engine.properties.table_properties import MANUAL, MATERIALIZE
from icecore.engine.spec.metadata import TableMetadata


def writes_again(updates: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the updates end a table's writing by hand: their commit writes out all that was pending."""
    manual = True
    for update in updates:
        if update["action"] == "set-properties" and MATERIALIZE.name in update["updates"]:
            manual = MATERIALIZE.or_default(update["updates"]) == MANUAL
        elif update["action"] == "remove-properties" and MATERIALIZE.name in update["removals"]:
            manual = False
    return not manual


def is_manual(metadata: TableMetadata) -> bool:
    """Whether the table's files are written by hand only."""
    return MATERIALIZE.or_default(metadata.properties) == MANUAL
