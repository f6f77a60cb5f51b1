"""Faults of loaded entries: the errors that damaged ones lead to, and the one that names their manifests."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from icecore.engine.errors import IcecoreError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.projections.segments.manifest_selection import StrayEntriesError

UNTRUSTED = (duckdb.Error, pa.ArrowException, LookupError, StrayEntriesError)
"""The errors that damaged entries lead to: the manifests are read again then."""
FAULTS = (*UNTRUSTED, ValueError, TypeError, ArithmeticError, OSError)
MANIFESTS_NAMED = 3


def is_fault(e: Exception) -> bool:
    """Whether an error is a fault of the loaded entries, and none of ours that names its file."""
    return isinstance(e, StrayEntriesError) or not isinstance(e, IcecoreError)


def unplannable(table: str, listed: Sequence[ListedManifest], fault: Exception) -> str:
    """The text of the error that names a table and the manifests whose entries can't be read."""
    paths = [m.manifest.manifest_path for m in listed]
    named = ", ".join(paths[:MANIFESTS_NAMED]) or "no manifest"
    rest = f" and {len(paths) - MANIFESTS_NAMED} more" if len(paths) > MANIFESTS_NAMED else ""
    found = str(fault) if isinstance(fault, duckdb.Error) else f"{type(fault).__name__}: {fault}"
    return f"{table}: the entries of {named}{rest} can't be read: {found}"
