"""The entries of content files that lie in another folder now. Pure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.common.location import LocationMapping
from icecore.engine.formats.entry_arrow import ENTRY_SCHEMA
from icecore.engine.spec.content_file import DataFileContent
from icecore.engine.spec.reserved import DELETE_PATH_ID


def moved_entries(entries: pa.Table, mapping: LocationMapping) -> pa.Table:
    """Canonical entries with the paths of content files mapped, also in position deletes' bounds and references."""
    for name in ("file_path", "referenced_data_file"):
        entries = _with(entries, name, _moved_column(entries[name], mapping))
    if pc.any(pc.equal(entries["content"], int(DataFileContent.POSITION_DELETES))).as_py():
        names = ("lower_bounds", "upper_bounds")
        pairs = zip(*(entries[name].to_pylist() for name in names), strict=True)
        moved = [_moved_bounds(lower, upper, mapping) for lower, upper in pairs]
        for name, bounds in zip(names, zip(*moved, strict=True), strict=True):
            entries = _with(entries, name, pa.array(bounds, ENTRY_SCHEMA.field(name).type))
    return entries


def _moved_column(column: pa.ChunkedArray, mapping: LocationMapping) -> pa.ChunkedArray:
    out = column
    for old, new in mapping.prefixes:
        # Engines write the same folder in several ways, and one column may have files of all of them.
        inside = pc.fill_null(pc.starts_with(column, pattern=f"{old}/"), False)
        if pc.any(inside).as_py():
            moved = pc.binary_join_element_wise(new, pc.utf8_slice_codeunits(column, start=len(old)), "")
            out = pc.if_else(inside, moved, out)
    return out


Bounds = list[tuple[int, bytes]] | None


def _moved_bounds(lower: Bounds, upper: Bounds, mapping: LocationMapping) -> tuple[Bounds, Bounds]:
    """The mapped bounds of a position delete file; those of the path are left out unless both are in one old folder."""
    found = [dict(bounds or ()).get(DELETE_PATH_ID) for bounds in (lower, upper)]
    moved: list[bytes | None] = [None, None]
    for old, new in mapping.prefixes:
        if all(bound is not None and bound.startswith(f"{old}/".encode()) for bound in found):
            # All paths between two paths of a folder lie in it too, and keep their order in the new folder.
            moved = [f"{new}/".encode() + bound[len(old.encode()) + 1 :] for bound in found if bound is not None]
            break
    return _replaced(lower, moved[0]), _replaced(upper, moved[1])


def _replaced(bounds: Bounds, path: bytes | None) -> Bounds:
    if bounds is None:
        return None
    out = [(i, path if i == DELETE_PATH_ID else bound) for i, bound in bounds]
    return [(i, bound) for i, bound in out if bound is not None]


def _with(entries: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    return entries.set_column(entries.schema.get_field_index(name), entries.schema.field(name), column)
