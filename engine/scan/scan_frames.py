"""The rows of a scan in other libraries, through Arrow. The names are PyIceberg's."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from icecore.engine.common.optional_packages import needs


class ArrowSource(Protocol):
    """Rows that Arrow can hold."""

    def to_arrow(self) -> pa.Table: ...


def to_ray(rows: ArrowSource) -> Any:
    """The rows as a Ray dataset. Raises MissingDependencyError where Ray is not installed."""
    with needs("ray", "'ray[data]'"):
        import ray.data
    return ray.data.from_arrow(rows.to_arrow())


def to_daft(rows: ArrowSource) -> Any:
    """The rows as a Daft DataFrame. Raises MissingDependencyError where Daft is not installed."""
    with needs("daft"):
        import daft
    return daft.from_arrow(rows.to_arrow())
