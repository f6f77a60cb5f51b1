"""When a table's files are written: with each commit, or by hand where the property `icecore.materialize` says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icecore.engine.properties.table_properties import MANUAL, MATERIALIZE
from icecore.engine.spec.metadata import TableMetadata


def writes_again(updates: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the updates end the writing by hand of a table: their commit writes out all that was pending."""
    manual = True
    for update in updates:
        if update["action"] == "set-properties" and MATERIALIZE.name in update["updates"]:
            manual = MATERIALIZE.or_default(update["updates"]) == MANUAL
        elif update["action"] == "remove-properties" and MATERIALIZE.name in update["removals"]:
            manual = False
    return not manual


def is_manual(metadata: TableMetadata) -> bool:
    """Whether the table's files are written when asked for only."""
    return MATERIALIZE.or_default(metadata.properties) == MANUAL
