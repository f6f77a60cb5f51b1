"""The order of a plan's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from icecore.engine.formats import arrays
from icecore.engine.manifest_changes import ListedManifest


def in_list_order(files: pa.Table, listed: Sequence[ListedManifest], numbers: Mapping[str, int]) -> pa.Table:
    """The files in the order of their manifests in the list, and of their entries there.

    `files` has `m` and `ordinal`; `numbers` gives `m` by the path of a manifest, of all those that files are of. What
    order entries are loaded and merged in depends on what was asked before, and must not show: a limit takes the first
    rows of a plan.
    """
    if files.num_rows < 2:
        return files
    known = np.fromiter((numbers.get(i.manifest.manifest_path, -1) for i in listed), np.int64, len(listed))
    by_number = np.argsort(known, kind="stable")
    ordinals = arrays.to_numbers(files["ordinal"])
    positions = by_number[np.searchsorted(known[by_number], arrays.to_numbers(files["m"]))]
    keys = positions * (int(ordinals.max()) + 1) + ordinals
    if (keys[:-1] <= keys[1:]).all():
        return files
    return files.take(arrays.numbers(np.argsort(keys, kind="stable")))
