"""Plans of whole Parquet files without deletes that Spark reads by field ids, as groups made from columns.

Nearly all plans of many files are such plans. Those whose files have to be looked at one by one are left to `routing`,
which gives the same groups at several times the price.
Spec: Column Projection (P1, P2).
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.data.file.schema_mark import MARK
from icecore.engine.data.file_columns import FileColumns
from icecore.engine.formats import arrays
from icecore.engine.spark.read.native_scan import NativeGroup
from icecore.engine.spark.read.routing import NAMED_BY_ICEBERG, Router
from icecore.engine.spark.read.scan_context import ScanContext
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.types import walk

_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*(?=://)")


def plain_groups(context: ScanContext, files: FileColumns) -> list[NativeGroup] | None:
    """The groups that `routes` makes of the files, each of them whole; None where a file has to be looked at itself."""
    router, names = Router(context), context.identification.name_mapping
    if context.planned_frames is None or not router.is_native or files.delete_files:
        return None
    if context.storage.mapping.prefixes or not _are_plain(files.locations):
        return None
    marks = pc.struct_field(pc.extract_regex(files.locations, f"{MARK}$"), "mark").dictionary_encode()
    schemas = [context.written.of_mark(m) for m in marks.dictionary.to_pylist()]
    # The last place is that of the files without a mark.
    places = arrays.to_numbers(pc.fill_null(marks.indices, len(schemas)))
    schemas.append(None)
    is_marked = np.array([s is not None for s in schemas])[places]
    own = [arrays.to_mask(pc.starts_with(files.locations, prefix)) for prefix in router.own_folders]
    has_ids = is_marked & np.logical_or.reduce(own)
    if names is None:
        has_ids |= arrays.to_mask(pc.match_substring_regex(files.locations, NAMED_BY_ICEBERG.pattern))
    if not router.have_ids(files.locations.filter(pa.array(~has_ids)).to_pylist()):
        return None
    return _groups(context, router, files, schemas, places)


def _are_plain(locations: pa.Array) -> bool:
    """Whether each location is written as Spark takes it, in no other spelling, and none comes twice."""
    scheme = _SCHEME.match(locations[0].as_py())
    if scheme is None:
        return False
    # No step is empty or begins with a dot, and none of a local path has a colon, which Hadoop takes for a scheme's.
    step, host = (r"/[^/:.][^/:]*", "") if scheme[0] == "file" else (r"/[^/.][^/]*", "[^/]*")
    pattern = rf"^{re.escape(scheme[0])}://{host}({step})+$"
    are_alike = pc.all(pc.match_substring_regex(locations, pattern)).as_py()
    return bool(are_alike) and pc.count_distinct(locations).as_py() == len(locations)


def _groups(
    context: ScanContext, router: Router, files: FileColumns, schemas: list[Schema | None], places: np.ndarray
) -> list[NativeGroup] | None:
    """A group for each set of columns that files may lack, apart for files of known schemas and for others."""
    fields, _, are_native = router.columns(frozenset())
    if not are_native:
        return None
    specs = context.identity_fields
    roots = {f.field_id for f in fields}
    inner = {f.field_id for f in walk(fields)} - roots
    pairs = np.stack([arrays.to_numbers(files.spec_ids).astype(np.int64), places.astype(np.int64)])
    kinds, first, codes = np.unique(pairs, axis=1, return_index=True, return_inverse=True)
    keys: dict[tuple[bool, frozenset[int]], list[int]] = {}
    for kind in np.argsort(first).tolist():
        spec_id, schema = int(kinds[0, kind]), schemas[int(kinds[1, kind])]
        if spec_id not in specs:
            return None
        lacking = frozenset(i for _, i in specs[spec_id] if schema is None or schema.get_field(i) is None)
        if lacking & inner:
            return None
        keys.setdefault((schema is not None, lacking & roots), []).append(kind)
    groups = []
    for (_, lacking), kinds_of in keys.items():
        rows = files if len(keys) == 1 else files.take(np.flatnonzero(np.isin(codes.reshape(-1), kinds_of)).tolist())
        known = [s for k in kinds_of if (s := schemas[int(kinds[1, k])]) is not None]
        columns = context.read_columns(context.read_fields(frozenset()), known)
        groups.append(NativeGroup(rows, rows.locations, columns, lacking, by_id=True))
    return groups
