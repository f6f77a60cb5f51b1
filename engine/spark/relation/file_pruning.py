"""The choice of a relation's files by a query's filters, for which the JVM asks when it plans the query."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from icecore.engine.expression.nodes import TRUE, Expression
from icecore.engine.formats.arrays import to_mask
from icecore.engine.spark.relation.catalyst_filter import Columns, exact_filter_of, filter_of
from icecore.engine.spec.types import NestedField

_log = logging.getLogger(__name__)


class Replanned(Protocol):
    """A scan that is planned again with a further filter, bound to its schema."""

    @property
    def is_filtered(self) -> bool:
        """Whether a query's own filters chose its files already."""
        ...

    def locations(self, further: Expression) -> pa.ChunkedArray:
        """The locations of the files that may hold rows of the filter."""
        ...

    def known(
        self, further: Expression, asked: Sequence[tuple[str, NestedField | None]]
    ) -> Sequence[str | None] | None:
        """The answers to aggregates, functions of a column or of rows, as text; None where rows have to be read."""
        ...


@frozen
class FilePruning:
    """The files of a relation, in its order, and a planner that says which locations a further filter leaves.

    `columns` are those that the planner knows, by the names that Spark reads them by. `is_all` says whether the
    relation has all files of the plan, so that the planner's aggregates of the plan are the relation's, too.
    """

    columns: Columns
    locations: pa.Array
    replanned: Replanned
    is_all: bool = False

    @property
    def is_filtered(self) -> bool:
        """Whether a query's own filters chose the files already, so that only its joins may leave out more."""
        return self.replanned.is_filtered

    def apply(self, text: str) -> str:
        """The answer to a question, as `FilePruning.java` has them; empty where files have to be read."""
        filter_text, _, aggregates = text.partition("\n")
        try:
            return self._known(filter_text, aggregates) if aggregates else self._chosen(filter_text)
        except Exception as e:  # whatever it is: all files are right as well
            _log.info("all files are read, since a filter could not be planned with: %s", e)
            return ""

    def _chosen(self, text: str) -> str:
        """A 1 for each file that may hold rows of a filter, else a 0; empty where all files may."""
        found = filter_of(text, self.columns)
        if found == TRUE:
            return ""
        is_left = pc.is_in(self.locations, value_set=self.replanned.locations(found))
        kept = (to_mask(is_left) + np.uint8(ord("0"))).tobytes().decode()
        _log.debug("a filter leaves %d of %d files: %s", kept.count("1"), len(kept), found)
        return kept

    def _known(self, text: str, aggregates: str) -> str:
        found = exact_filter_of(text, self.columns) if self.is_all and not self.is_filtered else None
        if found is None:
            return ""
        told = self.replanned.known(found, [self._asked(a) for a in aggregates.split(" ")])
        if told is None:
            return ""
        _log.debug("metadata tells %s of the rows of: %s", told, found)
        return " ".join("-" if v is None else f"+{v.encode().hex()}" for v in told)

    def _asked(self, aggregate: str) -> tuple[str, NestedField | None]:
        """A function and its column. Raises KeyError for one that the planner doesn't know."""
        function, _, name = aggregate.partition(":")
        return function, self.columns[(bytes.fromhex(name).decode(),)].field if name else None
