"""Catalogs to try changes in, with all that can be asked of one, which are thrown away."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from icecore.engine.catalog.catalog import Catalog
from icecore.engine.relocate.clone_warehouse import clone_warehouse


@contextlib.contextmanager
def what_if(
    warehouse: str | os.PathLike[str] | Catalog,
    *,
    actor: str | None = None,
    folder: str | os.PathLike[str] | None = None,
) -> Iterator[Catalog]:
    """A context with a catalog like the warehouse's, in which nothing touches the warehouse; it is deleted at the end.

    It is a clone that shares the data files: the log is copied, new files go to a temporary folder, inside of `folder`
    where one is named, and what would delete files of the warehouse deletes none. So commits of all kinds can be made
    there and asked about: rows, metadata tables, SQL, `diff`, `verify`. Its log has one more event, `warehouse.cloned`.
    Raises what `clone_warehouse` raises.
    """
    path = warehouse.path if isinstance(warehouse, Catalog) else warehouse
    actor = actor if actor is not None or not isinstance(warehouse, Catalog) else warehouse.actor
    with tempfile.TemporaryDirectory(prefix="icecore-what-if-", dir=folder) as temporary:
        there = Path(temporary) / "warehouse"
        clone_warehouse(path, there, metadata_only=True, actor=actor)
        with Catalog(there, create=False, actor=actor) as catalog:
            yield catalog
