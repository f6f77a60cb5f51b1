"""The manifests and lists that a table gets anew with its warehouse's folder, as a `table.relocated` event has them.

Most of a table's files follow from its events, which are read with the new folder in their locations. What only files
had, of other engines or with paths in delete files, is written once more: the event's content holds the entries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from icecore.engine.common.json_reader import get, get_list
from icecore.engine.events.manifest_changes import ListedManifest, Listing

WHERE = "relocated manifests"


@frozen
class RelocatedManifests:
    """`lists` has the new location of each manifest list that is written anew, by snapshot id.

    `manifests` are new, and each replaces the one that was listed as in `replaced`. Of a snapshot whose list was not in
    the log, `whole` has the list, as indexes of `manifests`.
    """

    lists: Mapping[int, str] = field(factory=dict)
    manifests: tuple[ListedManifest, ...] = ()
    replaced: tuple[Listing, ...] = ()
    whole: Mapping[int, tuple[int, ...]] = field(factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "manifest-lists": {str(i): location for i, location in self.lists.items()},
            "manifests": [m.to_dict() for m in self.manifests],
            "replaced": [list(r) for r in self.replaced],
            "whole-lists": {str(i): list(indexes) for i, indexes in self.whole.items()},
        }

    @classmethod
    def from_dict(cls, obj: Any, position: int) -> RelocatedManifests:
        """The manifests of a JSON object in the event at `position`. Raises ValidationError where it is none."""
        lists = get(obj, "manifest-lists", dict, WHERE)
        whole = get(obj, "whole-lists", dict, WHERE)
        return cls(
            {int(i): location for i, location in lists.items()},
            tuple(ListedManifest.from_dict(m, position) for m in get_list(obj, "manifests", WHERE)),
            tuple((path, first_row_id) for path, first_row_id in get_list(obj, "replaced", WHERE)),
            {int(i): tuple(indexes) for i, indexes in whole.items()},
        )

    @property
    def places(self) -> dict[Listing, int]:
        """The index in `manifests` of each replacement, by the listing that it replaces."""
        return {r: i for i, r in enumerate(self.replaced)}
