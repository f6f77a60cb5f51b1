"""The times at which a table's files are written: with each commit, or by hand (`icecore.materialize`)."""

from __future__ import annotations

from collections.abc import Iterable

from icecore.engine.properties.table_properties import MANUAL, MATERIALIZE
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.updates.metadata_update import RemoveProperties, SetProperties
from icecore.engine.spec.updates.table_update import TableUpdate


def writes_again(updates: Iterable[TableUpdate]) -> bool:
    """Whether the updates end a table's writing by hand: their commit writes out all that was pending."""
    manual = True
    for update in updates:
        if isinstance(update, SetProperties) and MATERIALIZE.name in update.updates:
            manual = MATERIALIZE.or_default(update.updates) == MANUAL
        elif isinstance(update, RemoveProperties) and MATERIALIZE.name in update.removals:
            manual = False
    return not manual


def is_manual(metadata: TableMetadata) -> bool:
    """Whether the table's files are written by hand only."""
    return MATERIALIZE.or_default(metadata.properties) == MANUAL
