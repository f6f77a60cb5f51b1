"""All that a process of the tests may come to load, for the process that it is forked off."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

import polars
import pyarrow.acero
import pyiceberg.io.pyarrow
import pyiceberg.table.puffin
import sqlalchemy.dialects.sqlite

import icecore.engine
import icecore.projections


def _modules() -> tuple[ModuleType, ...]:
    """All modules of the engine but those that need Spark: they are imported late, each where it is first needed."""
    roots = (icecore.engine, icecore.projections)
    found = (m.name for r in roots for m in pkgutil.walk_packages(r.__path__, f"{r.__name__}."))
    return tuple(import_module(n) for n in found if not n.startswith(("icecore.engine.spark", "icecore.engine.demo")))


PRELOADED = (
    polars,
    pyarrow.acero,
    pyiceberg.io.pyarrow,
    pyiceberg.table.puffin,
    sqlalchemy.dialects.sqlite,
    *_modules(),
)
