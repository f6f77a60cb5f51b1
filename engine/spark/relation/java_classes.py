"""Java classes given as source, compiled in the driver's JVM by Janino, the compiler that Spark itself brings.

There is no jar to ship and none to match to a version of Spark: what does not fit does not compile. What was compiled
is kept for the next session (see `kept_classes`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any
from weakref import WeakKeyDictionary

from icecore.engine.common.fork_safety import Lock
from icecore.engine.spark.name_rule import says_true
from icecore.engine.spark.pyspark_api import SparkSession
from icecore.engine.spark.relation.kept_classes import keep_classes, kept_classes, place_of

ENABLED = "spark.icecore.plannedFiles.enabled"
_FOLDER = Path(__file__).parent
_RULES_FOLDER = _FOLDER / "rules"
ASKING = (_FOLDER / "FilterText.java", _RULES_FOLDER / "KnownAggregates.java")
_NAMES = (
    "FilterText",
    "FilePruning",
    "plan_files/PlanFiles",
    "plan_files/KeptPlans",
    "plan_files/FileStatuses",
    "plan_files/PlannedFiles",
    "PlannedParquet",
    "DeletedRows",
    "PlannedRelations",
)
_SOURCES = tuple(_FOLDER / f"{name}.java" for name in _NAMES)
_RULES = (
    (_RULES_FOLDER / "KnownAggregates.java", _RULES_FOLDER / "PlannedAggregates.java"),
    (_RULES_FOLDER / "JoinedFiles.java", _RULES_FOLDER / "JoinPruning.java"),
)
_log = logging.getLogger(__name__)
_lock = Lock()
_compiled: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_rules: WeakKeyDictionary[Any, tuple[Any, ...]] = WeakKeyDictionary()


def planned_relations(session: SparkSession) -> Any | None:
    """The Java object that makes relations of planned files, or None where public API has to do.

    That is so in Spark Connect, where Spark's internals are not those that are known, and where a user has set
    `spark.icecore.plannedFiles.enabled` to false.
    """
    if _gateway(session) is None:
        return None
    if not _is_enabled(session):
        return None
    made = made_object(session, _SOURCES)
    return None if isinstance(made, str) else made


def _is_enabled(session: SparkSession) -> bool:
    return says_true(session.conf.get(ENABLED, "true"))


def compile_ahead(session: SparkSession) -> None:
    """Has the JVM compile the classes of `planned_relations` while Python plans; that function then waits for them.

    A session's first DataFrame waits for the classes and for the plan, and neither needs the other.
    """
    gateway = _gateway(session)
    if gateway is None or _SOURCES[-1] in _compiled.get(gateway, {}) or not _is_enabled(session):
        return
    Thread(target=made_object, args=(session, _SOURCES), name="icecore-compiler", daemon=True).start()


def keep_rules(session: SparkSession, relations: Any) -> None:
    """Has a session plan by the rules `PlannedAggregates` and `JoinPruning`, which use classes of `planned_relations`.

    The first time a thread compiles them, for some tenths of a second that the first DataFrame does not wait for. A
    query that is planned before they are there reads rows that metadata would tell of, and files that a join would
    leave out.
    """
    gateway = _gateway(session)
    with _lock:
        rules = _rules.get(gateway)
        if rules is None:
            _rules[gateway] = ()
    if rules is None:
        Thread(target=_make_rules, args=(session, gateway, relations), name="icecore-compiler", daemon=True).start()
    for rule in rules or ():
        relations.keep(session._jsparkSession, rule)


def keep_rules_ahead(session: SparkSession) -> None:
    """Does the same in a thread, before the session has a DataFrame."""

    def keep() -> None:
        relations = planned_relations(session)
        if relations is not None:
            keep_rules(session, relations)

    Thread(target=keep, name="icecore-compiler", daemon=True).start()


def _make_rules(session: SparkSession, gateway: Any, relations: Any) -> None:
    for sources in _RULES:
        rule = _made(session, gateway, sources, relations)
        if not isinstance(rule, str):
            _rules[gateway] = (*_rules[gateway], rule)
            relations.keep(session._jsparkSession, rule)


def _gateway(session: SparkSession) -> Any | None:
    """The gateway to the driver's JVM, None in Spark Connect."""
    return getattr(getattr(session, "_sc", None), "_gateway", None)


def made_object(session: SparkSession, sources: Sequence[Path]) -> Any | str:
    """A Java object of the last of the classes, each of which sees those before it; else a text that says why not.

    It is made once for a driver.
    """
    gateway = _gateway(session)
    if gateway is None:
        return "Spark Connect lets no class into its driver"
    with _lock:
        known = _compiled.setdefault(gateway, {})
        if sources[-1] not in known:
            known[sources[-1]] = _made(session, gateway, sources)
        return known[sources[-1]]


def _made(session: SparkSession, gateway: Any, sources: Sequence[Path], above: Any = None) -> Any | str:
    try:
        loader = (session._jsparkSession if above is None else above).getClass().getClassLoader()
        place = _place(gateway, sources)
        made = None if place is None else _kept_object(gateway, sources, loader, place)
        return made or _compiled_object(gateway, sources, loader, place)
    except Exception as e:  # whatever a Spark of another version does
        reason = str(e).split("\n\tat ")[0]
        _log.info("Spark %s has no icecore.%s, by public API alone: %s", session.version, sources[-1].stem, reason)
        return reason


def _kept_object(gateway: Any, sources: Sequence[Path], loader: Any, place: Path) -> Any | None:
    """The object of classes that an earlier session compiled from the same sources, for the same Spark and Java."""
    classes = kept_classes(place)
    if classes is None:
        return None
    try:
        given = gateway.jvm.java.util.HashMap()
        for name, data in classes.items():
            given.put(name, data)
        loader = gateway.jvm.org.codehaus.commons.compiler.util.reflect.ByteArrayClassLoader(given, loader)
        return _object(gateway, sources, loader)
    except Exception as e:  # compiled anew, they may fit
        _log.info("kept classes are compiled anew: %s", str(e).split("\n\tat ")[0])
        return None


def _compiled_object(gateway: Any, sources: Sequence[Path], loader: Any, place: Path | None) -> Any:
    classes: dict[str, bytes] = {}
    for source in sources:
        compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(_source(source))
        loader = compiler.getClassLoader()
        classes.update(compiler.getBytecodes())
    made = _object(gateway, sources, loader)
    if place is not None:
        keep_classes(place, classes)
    return made


def _object(gateway: Any, sources: Sequence[Path], loader: Any) -> Any:
    made = loader.loadClass(f"icecore.{sources[-1].stem}")
    return made.getConstructors()[0].newInstance(gateway.new_array(gateway.jvm.java.lang.Object, 0))


def _place(gateway: Any, sources: Sequence[Path]) -> Path | None:
    """The file for the classes of sources; it depends on the sources beside them too, whose classes they may use."""
    beside = sorted(p for folder in {s.parent for s in (*sources, *_SOURCES)} for p in folder.glob("*.java"))
    system = gateway.jvm.java.lang.System
    of_java = (str(system.getProperty(name) or "") for name in ("java.vm.version", "java.class.path"))
    return place_of((*(s.stem for s in sources), *map(_source, beside)), *of_java)


@lru_cache
def _source(path: Path) -> str:
    return path.read_text()
