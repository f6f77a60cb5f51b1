"""icecore: an event-sourced metadata engine for Apache Iceberg tables and views, embedded in one Python process."""

from icecore.engine.catalog import Catalog, open_catalog
from icecore.engine.errors import IcecoreError
from icecore.engine.import_log import import_log
from icecore.engine.scan import DataScan
from icecore.engine.spec.metadata import TableMetadata
from icecore.engine.spec.partition import PartitionField, PartitionSpec
from icecore.engine.spec.schema import Schema
from icecore.engine.spec.sort import SortField, SortOrder
from icecore.engine.spec.view import ViewMetadata
from icecore.engine.table import Table
from icecore.engine.view import View

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
    "import_log",
    "open",
]
