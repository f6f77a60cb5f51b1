"""The order of a plan's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from attrs import frozen

from icecore.engine.formats import arrays
from icecore.engine.manifest_changes import ListedManifest

Numbers = npt.NDArray[np.int64]


@frozen(eq=False)
class ListOrder:
    """The order of the manifests in a list: their numbers, ascending, and the place of each."""

    numbers: Numbers
    places: Numbers

    @classmethod
    def of(cls, listed: Sequence[ListedManifest], numbers: Mapping[str, int]) -> ListOrder:
        """`numbers` gives `m` by the path of a manifest, of all those that files are of."""
        known = np.fromiter((numbers.get(i.manifest.manifest_path, -1) for i in listed), np.int64, len(listed))
        places = np.argsort(known, kind="stable")
        return cls(known[places], places)

    def sorted(self, files: pa.Table) -> pa.Table:
        """Files, which have `m` and `ordinal`, in the order of their manifests, and of their entries there.

        What order entries are loaded and merged in depends on what was asked before, and must not show: a limit takes
        the first rows of a plan.
        """
        if files.num_rows < 2:
            return files
        ordinals = arrays.to_numbers(files["ordinal"])
        positions = self.places[np.searchsorted(self.numbers, arrays.to_numbers(files["m"]))]
        keys = positions * (int(ordinals.max()) + 1) + ordinals
        if (keys[:-1] <= keys[1:]).all():
            return files
        return files.take(arrays.numbers(np.argsort(keys, kind="stable")))
