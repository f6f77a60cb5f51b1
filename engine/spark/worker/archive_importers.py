"""The importers of archives that a Python worker of Spark keeps between its tasks."""

from __future__ import annotations

import sys
import zipimport


def forget_archives() -> None:
    """Drops the importers of archives in the path; a later import from an archive reads it anew.

    Before each task PySpark makes importers forget what they know. Up to Python 3.12 those of archives read their
    archive again instead, and each package of PySpark has one of its own: that takes a quarter of a second.
    """
    directories = getattr(zipimport, "_zip_directory_cache", {})
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]
            directories.pop(importer.archive, None)
