"""icecore: an event-sourced metadata engine for Apache Iceberg tables and views, embedded in one Python process."""

from importlib import import_module

TYPE_CHECKING = False

if TYPE_CHECKING:
    from icecore import spark
    from icecore.engine.catalog.catalog import Catalog
    from icecore.engine.catalog.catalog import open_catalog as open
    from icecore.engine.catalog.import_log import import_log
    from icecore.engine.errors import IcecoreError
    from icecore.engine.relocate.clone_warehouse import clone_warehouse
    from icecore.engine.relocate.move_warehouse import move_warehouse
    from icecore.engine.relocate.static_table import StaticTable
    from icecore.engine.relocate.what_if import what_if
    from icecore.engine.scan.data_scan import DataScan
    from icecore.engine.spec.metadata import TableMetadata
    from icecore.engine.spec.partition import PartitionField, PartitionSpec
    from icecore.engine.spec.schema import Schema
    from icecore.engine.spec.sort import SortField, SortOrder
    from icecore.engine.spec.view import ViewMetadata
    from icecore.engine.table.table import Table
    from icecore.engine.view.view import View

    __version__: str
else:
    _MODULES = {
        "Catalog": "icecore.engine.catalog.catalog",
        "DataScan": "icecore.engine.scan.data_scan",
        "IcecoreError": "icecore.engine.errors",
        "PartitionField": "icecore.engine.spec.partition",
        "PartitionSpec": "icecore.engine.spec.partition",
        "Schema": "icecore.engine.spec.schema",
        "SortField": "icecore.engine.spec.sort",
        "SortOrder": "icecore.engine.spec.sort",
        "StaticTable": "icecore.engine.relocate.static_table",
        "Table": "icecore.engine.table.table",
        "TableMetadata": "icecore.engine.spec.metadata",
        "View": "icecore.engine.view.view",
        "ViewMetadata": "icecore.engine.spec.view",
        "clone_warehouse": "icecore.engine.relocate.clone_warehouse",
        "import_log": "icecore.engine.catalog.import_log",
        "move_warehouse": "icecore.engine.relocate.move_warehouse",
        "open": "icecore.engine.catalog.catalog",
        "what_if": "icecore.engine.relocate.what_if",
    }

    def __getattr__(name):
        """A public name, of a module that is loaded when it is first asked for (PEP 562)."""
        if name == "spark":
            return import_module("icecore.spark")
        if name == "__version__":
            return import_module("icecore.engine.common.version").VERSION
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(_MODULES[name]), "open_catalog" if name == "open" else name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted({*globals(), *_MODULES, "spark"})


__all__ = [
    "Catalog",
    "DataScan",
    "IcecoreError",
    "PartitionField",
    "PartitionSpec",
    "Schema",
    "SortField",
    "SortOrder",
    "StaticTable",
    "Table",
    "TableMetadata",
    "View",
    "ViewMetadata",
    "clone_warehouse",
    "import_log",
    "move_warehouse",
    "open",
    "spark",
    "what_if",
]
