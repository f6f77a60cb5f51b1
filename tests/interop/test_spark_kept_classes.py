"""Classes that a session compiled, in the next one, whose first DataFrame waits for them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark


from icecore.engine.spark.relation import java_classes  # noqa: E402
from icecore.engine.spark.relation.kept_classes import keep_classes, kept_classes, place_of  # noqa: E402


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which classes are kept, an empty one of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "icecore" / "classes"


def test_classes_are_compiled_once_for_all_sessions(
    spark: Any, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = _sources(tmp_path / "one", "1")
    assert _made(spark, sources).getClass().getName() == "icecore.Shown"
    (kept,) = folder.iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(java_classes, "_compiled_object", _refused)
        assert _made(spark, sources).getClass().getName() == "icecore.Shown"
        # Also where the last class is as it was, but one that it uses is not.
        assert _made(spark, _sources(tmp_path / "other", "2")) == "compiled anew"
        whole = kept.read_bytes()
        for damaged in (whole[:-30], whole.replace(b"Shown", b"Shame"), b""):
            kept.write_bytes(damaged)
            assert _made(spark, sources) == "compiled anew"
    assert _made(spark, sources).getClass().getName() == "icecore.Shown"
    assert set(kept_classes(kept) or ()) == {"icecore.Asked", "icecore.Shown"}


def test_damage_to_what_is_kept_is_no_error(folder: Path) -> None:
    """Each bit in turn: what raised another error than was looked for would have stayed for all sessions to come."""
    kept, classes = folder / "some.zip", {"A": b"\xca\xfe", "B": b""}
    keep_classes(kept, classes)
    whole = kept.read_bytes()
    assert kept_classes(kept) == classes
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        kept.write_bytes(damaged)
        found = kept_classes(kept)
        assert found is None or {*found.values()} <= {*classes.values()}


def test_kept_classes_that_do_not_load_are_compiled_anew(spark: Any, tmp_path: Path, folder: Path) -> None:
    sources = _sources(tmp_path / "one", "1")
    assert _made(spark, sources).getClass().getName() == "icecore.Shown"
    (kept,) = folder.iterdir()
    keep_classes(kept, {"icecore.Shown": b"no class"})
    assert _made(spark, sources).getClass().getName() == "icecore.Shown"
    assert set(kept_classes(kept) or ()) == {"icecore.Asked", "icecore.Shown"}


def test_where_nothing_can_be_kept_classes_are_compiled_each_time(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert _made(spark, _sources(tmp_path / "one", "1")).getClass().getName() == "icecore.Shown"


def test_classes_that_no_session_used_for_90_days_go(folder: Path) -> None:
    """When others are kept; to read them is to use them, which is noted once a day."""
    day, now = 24 * 3600, time.time()
    ages = {"unused": 91.0, "used": 91.0, "lately": 89.0, "today": 0.5}
    for name in ages:
        keep_classes(folder / f"{name}.zip", {"A": b"1"})
    for name, days in ages.items():
        os.utime(folder / f"{name}.zip", (now - days * day, now - days * day))
    (folder / "left.tmp").touch()
    (folder / "stuck.zip").mkdir()
    os.utime(folder / "stuck.zip", (0, 0))
    for name in ("used", "today"):
        assert kept_classes(folder / f"{name}.zip") == {"A": b"1"}
    assert (folder / "used.zip").stat().st_mtime >= now - 1
    assert (folder / "today.zip").stat().st_mtime == pytest.approx(now - day / 2)
    keep_classes(folder / "new.zip", {"A": b"1"})
    assert {p.stem for p in folder.iterdir()} == {"used", "lately", "today", "new", "stuck"}


def test_classes_for_another_spark_or_java_are_others(tmp_path: Path, folder: Path) -> None:
    jar = tmp_path / "spark.jar"
    jar.write_bytes(b"1")
    path = f"{tmp_path / 'conf'}{os.pathsep}{jar}"
    place = place_of(["a", "b"], "17", path)
    assert place is not None and place.parent == folder
    assert place == place_of(["a", "b"], "17", path)
    assert place not in (place_of(["ab"], "17", path), place_of(["a", "b"], "21", path))
    jar.write_bytes(b"12")
    assert place != place_of(["a", "b"], "17", path)


def test_no_class_is_kept_beside_classes_that_are_in_folders_or_on_another_host(tmp_path: Path) -> None:
    jar = tmp_path / "spark.jar"
    assert place_of(["a"], "17", str(jar)) is None
    jar.touch()
    (tmp_path / "classes" / "org").mkdir(parents=True)
    assert place_of(["a"], "17", f"{jar}{os.pathsep}{tmp_path / 'classes'}") is None


def _sources(folder: Path, number: str) -> list[Path]:
    """Two classes, the second of which makes one of the first."""
    folder.mkdir()
    asked, shown = folder / "Asked.java", folder / "Shown.java"
    asked.write_text(f"package icecore; public class Asked {{ public int number() {{ return {number}; }} }}")
    shown.write_text("package icecore; public class Shown { private final int n = new Asked().number(); }")
    return [asked, shown]


def _made(spark: Any, sources: list[Path]) -> Any:
    return java_classes._made(spark, spark._sc._gateway, sources)


def _refused(*args: Any) -> Any:
    raise AssertionError("compiled anew")
