"""Java classes given as source, compiled in the driver's JVM by Janino, the compiler that Spark itself brings.

There is no jar to ship and none to match to a version of Spark: what does not fit does not compile.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from icecore.engine.common.fork_safety import Lock
from icecore.engine.spark.pyspark_api import SparkSession

ENABLED = "spark.icecore.plannedFiles.enabled"
_SOURCES = ("FilterText", "FilePruning", "PlannedFiles", "DeletedRows", "PlannedRelations")
_log = logging.getLogger(__name__)
_lock = Lock()
_compiled: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()


def planned_relations(session: SparkSession) -> Any | None:
    """The Java object that makes relations of planned files, or None where public API has to do.

    That is so in Spark Connect, where Spark's internals are not those that are known, and where a user has set
    `spark.icecore.plannedFiles.enabled` to false.
    """
    gateway = getattr(getattr(session, "_sc", None), "_gateway", None)
    if gateway is None:
        return None
    if session.conf.get(ENABLED, "true") != "true":
        return None
    with _lock:
        if gateway not in _compiled:
            _compiled[gateway] = _made(session, gateway)
        return _compiled[gateway]


def _made(session: SparkSession, gateway: Any) -> Any | None:
    try:
        jvm, nothing = gateway.jvm, gateway.new_array(gateway.jvm.java.lang.Object, 0)
        loader = session._jsparkSession.getClass().getClassLoader()
        for name in _SOURCES:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(_source(name))
            loader = compiler.getClassLoader()
        made = loader.loadClass(f"icecore.{_SOURCES[-1]}")
        return made.getConstructors()[0].newInstance(nothing)
    except Exception as e:  # whatever a Spark of another version does
        _log.info("Spark %s reads plans by public API alone: %s", session.version, str(e).split("\n\tat ")[0])
        return None


@lru_cache
def _source(name: str) -> str:
    return Path(__file__).with_name(f"{name}.java").read_text()
