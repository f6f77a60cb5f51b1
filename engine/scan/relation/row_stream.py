"""Rows that are read anew each time that Arrow asks for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from attrs import define, field


@define(eq=False)
class RowStream:
    """Rows of a schema as the Arrow PyCapsule interface has them; `read` gives the batches, each time from the first.

    An error of reading is kept in `failed`, because Arrow hands its text alone to the reader.
    """

    schema: pa.Schema
    read: Callable[[], Iterable[pa.RecordBatch]] = field(repr=False)
    failed: Exception | None = None

    def __arrow_c_schema__(self) -> Any:
        """The schema."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """A stream of the rows."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self.read()
        except Exception as e:
            self.failed = e
            raise
