"""Workers of Spark take PySpark from where it is installed, where that is so, and read no archive for each task."""

from __future__ import annotations

import sys
import zipfile
from importlib import import_module
from pathlib import Path

import pytest

from icecore.engine.spark.worker.archive_importers import forget_archives
from icecore.engine.spark.worker.worker_daemon import without_archives


def test_archives_of_an_installed_pyspark_are_left_out(tmp_path: Path) -> None:
    """Others stay: a user's, and those of a PySpark that is not in the path, or without what it needs."""
    packages, other = tmp_path / "packages", tmp_path / "other"
    archives = [str(packages / "pyspark" / name) for name in ("python/lib/pyspark.zip", "jars/core.jar")]
    kept = [str(tmp_path / "user.zip"), str(other / "pyspark" / "pyspark.zip"), str(packages)]
    for folder in (packages / "pyspark", other / "pyspark"):
        folder.mkdir(parents=True)
    assert without_archives([*archives, *kept]) == [*archives, *kept]
    (packages / "py4j").mkdir()
    assert without_archives([*archives, *kept]) == kept
    link = tmp_path / "link"
    link.symlink_to(packages)
    assert without_archives([str(link / "pyspark" / "python.zip"), str(packages)]) == [str(packages)]


def test_between_tasks_a_worker_forgets_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left reads nothing when importers forget what they know; imports find what an archive has then."""
    archive, package = tmp_path / "user.zip", "a_package_of_a_user"

    def archived(*modules: str) -> None:
        with zipfile.ZipFile(archive, "w") as out:
            for module in ("__init__", *modules):
                out.writestr(f"{package}/{module}.py", f"name = {module!r}")

    archived("one")
    monkeypatch.syspath_prepend(str(archive))
    for name in ("", ".one", ".two"):
        monkeypatch.delitem(sys.modules, package + name, raising=False)
    assert import_module(f"{package}.one").name == "one"
    assert f"{archive}/{package}" in sys.path_importer_cache
    archived("one", "two")
    forget_archives()
    assert not [p for p in sys.path_importer_cache if p.startswith(str(archive))]
    assert import_module(f"{package}.two").name == "two"
