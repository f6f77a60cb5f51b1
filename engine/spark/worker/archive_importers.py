"""The importers of archives that a Python worker of Spark keeps between its tasks."""

from __future__ import annotations

import sys
import zipimport


def forget_archives() -> None:
    """Drops what is known of archives in the path; what is imported from one later reads it anew.

    Before each task PySpark makes importers forget what they know. Up to Python 3.12 those of archives don't forget but
    read their archive again, each package of PySpark's by one of its own: that takes a quarter of a second.
    """
    directories = getattr(zipimport, "_zip_directory_cache", {})
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimport.zipimporter):
            del sys.path_importer_cache[path]
            directories.pop(importer.archive, None)
