"""The choice of a relation's files by what a query filters by, asked for from the JVM when the query is planned."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from attrs import frozen

from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.spark.relation.catalyst_filter import Columns, filter_of

Replanned = Callable[[Expression], Collection[str]]
_log = logging.getLogger(__name__)


@frozen
class FilePruning:
    """The files of a relation, in its order, and a planner that says which locations a further filter leaves.

    `columns` are those that the planner knows, under the names that Spark reads them by.
    """

    columns: Columns
    locations: Sequence[str]
    replanned: Replanned

    def apply(self, text: str) -> str:
        """A 1 for each file that may hold rows of a filter, else a 0; nothing where all files may."""
        try:
            found = filter_of(text, self.columns)
            if found == TRUE:
                return ""
            left = set(self.replanned(found))
        except Exception as e:  # whatever it is: all files are right as well
            _log.info("all files are read, since a filter could not be planned with: %s", e)
            return ""
        kept = "".join("1" if location in left else "0" for location in self.locations)
        _log.debug("a filter leaves %d of %d files: %s", kept.count("1"), len(kept), found)
        return kept
