"""Workers of Spark take PySpark from where it is installed, where that is so."""

from __future__ import annotations

from pathlib import Path

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
