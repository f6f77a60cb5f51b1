"""A scan planned again with a further filter, for a DataFrame that outlives the scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import ref

from icecore.engine.errors import StorageError
from icecore.engine.events.manifest_changes import ListedManifest
from icecore.engine.expression.nodes import Expression
from icecore.engine.expression.simplify import and_
from icecore.engine.metadata.fold import TableState
from icecore.engine.spec.schema import Schema
from icecore.projections.plan.planner import Planner


def replanning(
    planner: Planner,
    state: TableState,
    listed: Sequence[ListedManifest],
    row_filter: Expression,
    schema: Schema,
    entries: str,
) -> Callable[[Expression], list[str]]:
    """A function that gives the locations of the files which a further filter leaves, bound to the schema.

    It keeps no planner alive and opens none that was closed: then it raises StorageError.
    """
    known = ref(planner)

    def locations(further: Expression) -> list[str]:
        planner = known()
        if planner is None or not planner.is_open():
            raise StorageError("the catalog that planned the scan is closed")
        planned = planner.plan_manifests(state, listed, and_(row_filter, further), schema, entries)
        return [str(location) for location in planned.files["file_path"].to_pylist()]

    return locations
