"""icecore: an event-sourced metadata engine for Apache Iceberg tables and views, embedded in one Python process."""

from importlib import import_module
from typing import TYPE_CHECKING

from icecore.engine.catalog import Catalog, open_catalog
from icecore.engine.errors import IcecoreError
from icecore.engine.scan import DataScan
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.table import Table

if TYPE_CHECKING:
    from icecore.engine.clone_warehouse import clone_warehouse
    from icecore.engine.import_log import import_log
    from icecore.engine.move_warehouse import move_warehouse
    from icecore.engine.spec.view import ViewMetadata
    from icecore.engine.view import View
else:
    _LATER = {
        "View": "icecore.engine.view",
        "ViewMetadata": "icecore.engine.spec.view",
        "clone_warehouse": "icecore.engine.clone_warehouse",
        "import_log": "icecore.engine.import_log",
        "move_warehouse": "icecore.engine.move_warehouse",
    }

    def __getattr__(name):
        # What takes a while to import, and not every process needs.
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_LATER[name]), name)


open = open_catalog

__all__ = [
    "Catalog",
    "DataScan",
    "IcecoreError",
    "PartitionField",
    "PartitionSpec",
    "Schema",
    "SortField",
    "SortOrder",
    "Table",
    "TableMetadata",
    "View",
    "ViewMetadata",
    "clone_warehouse",
    "import_log",
    "move_warehouse",
    "open",
]
