"""Optional packages, and the error that says what to install where one is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from icecore.engine.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@contextmanager
def needs(package: str, install: str | None = None) -> Iterator[None]:
    """A context for imports of a package; `install` is pip's name of it, where that is another.

    Raises MissingDependencyError where it can't be imported.
    """
    try:
        yield
    except ImportError as e:
        raise MissingDependencyError(f"this needs {package}: pip install {install or package}") from e


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """Rows as a pandas DataFrame. Raises MissingDependencyError where pandas is not installed."""
    with needs("pandas"):
        import pandas  # noqa: F401  # Arrow would import it, and say less of it
    return rows.to_pandas()
