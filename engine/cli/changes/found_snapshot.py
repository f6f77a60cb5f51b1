"""Snapshots as a person names them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from icecore.engine.common.text import abbreviated
from icecore.engine.errors import NoSuchSnapshotError, ValidationError

if TYPE_CHECKING:
    from icecore.engine.spec.metadata import TableMetadata

LEAST_DIGITS = 4


def find_snapshot(metadata: TableMetadata, text: str) -> int:
    """The id of a snapshot, by its id, at least LEAST_DIGITS of its first digits, or the name of a branch or tag.

    Raises NoSuchSnapshotError, ValidationError where several snapshots begin so.
    """
    if text in metadata.refs:
        return metadata.refs[text].snapshot_id
    digits = text.rstrip("….")
    found = [s.snapshot_id for s in metadata.snapshots if str(s.snapshot_id).startswith(digits)]
    if digits.isdecimal() and any(str(s) == digits for s in found):
        return int(digits)
    if not digits.isdecimal() or len(digits) < LEAST_DIGITS or not found:
        names = abbreviated(metadata.refs, 5)
        is_short = digits.isdecimal() and len(digits) < LEAST_DIGITS
        least = f"; of an id give {LEAST_DIGITS} digits at least" if is_short else ""
        raise NoSuchSnapshotError(f"there is no snapshot, branch or tag {text!r}{least}; branches and tags: {names}")
    if len(found) > 1:
        raise ValidationError(f"{len(found)} snapshots begin with {digits}: {abbreviated(found, 5)}")
    return found[0]
