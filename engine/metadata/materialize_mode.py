"""When a table's files are written: with each commit, or by hand where the property `icecore.materialize` says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from icecore.engine.metadata.fold import MATERIALIZE
from icecore.engine.spec.metadata import TableMetadata

MANUAL = "manual"


def writes_again(updates: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the updates end the writing by hand of a table: their commit writes out all that was pending."""
    manual = True
    for update in updates:
        if update["action"] == "set-properties" and MATERIALIZE in update["updates"]:
            manual = update["updates"][MATERIALIZE].lower() == MANUAL
        elif update["action"] == "remove-properties" and MATERIALIZE in update["removals"]:
            manual = False
    return not manual


def is_manual(metadata: TableMetadata) -> bool:
    """Whether the table's files are written when asked for only."""
    return metadata.properties.get(MATERIALIZE, "commit").lower() == MANUAL
