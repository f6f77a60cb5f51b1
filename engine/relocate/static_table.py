"""A table by its metadata file alone, in no catalog, for reading."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from typing import Self

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.table.table import Table

NAMESPACE = "static-table"


class StaticTable(Table):
    """A table as a metadata file has it. It can be read; what would change it raises ReadOnlyError."""

    @classmethod
    def from_metadata(
        cls, metadata_location: str | os.PathLike[str], *, location_mapping: Mapping[str, str] | None = None
    ) -> Self:
        """The table of a metadata file, written by any engine, or of a table's folder: see `Catalog.register_table`.

        Nothing is written beside it. Raises MissingFileError, CorruptFileError, UnsupportedFormatVersionError.
        """
        # A warehouse of this one table, which is gone with the last thing that reads by it.
        folder = tempfile.mkdtemp(prefix="icecore-static-")
        catalog = Catalog(folder)
        store = catalog._warehouse.store
        weakref.finalize(store, _remove, folder, os.getpid())
        catalog.create_namespace(NAMESPACE)
        location = os.fspath(metadata_location)
        name = os.path.basename(location.rstrip("/"))
        table = catalog.register_table((NAMESPACE, name), location, location_mapping=location_mapping)
        store.read_only = True
        store.why_read_only = (
            f"{table.metadata_location} was loaded as a static table, which is only read: "
            f"`Catalog.register_table` makes it one that can be changed"
        )
        return cls(table._repository, table._planning, table.state, None)

    def refresh(self) -> Self:
        """The table itself, which stays as its metadata file has it."""
        return self


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
