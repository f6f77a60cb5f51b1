"""The registration of `format("icecore")` in a session of Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from icecore.engine.spark import session as sessions
from icecore.engine.spark_source.session_zone import ZONE

_REGISTERED = "spark.icecore.source"


def register(session: Any, *, warehouse: str | os.PathLike[str] | None = None) -> None:
    """Makes `format("icecore")` known to a session, in classic mode or Spark Connect.

    `warehouse` is the folder for reads and writes that name none; a relative folder, here and in the option, is one in
    the working directory of this moment. The session's time zone is set to its present value, as tasks are told only
    settings that are set.
    """
    from icecore.engine.spark_source.iceberg_source import IcecoreSource

    folder = os.getcwd()
    default = None if warehouse is None else os.path.join(folder, os.fspath(warehouse))
    mark = f"{folder}\n{default or ''}"
    if session.conf.get(_REGISTERED, None) == mark:
        return
    # A class that no module has, so that it is pickled as a whole, with its attributes.
    made = type("IcecoreSource", (IcecoreSource,), {"folder": folder, "default_warehouse": default})
    with _active(session):
        session.dataSource.register(made)
    session.conf.set(ZONE, session.conf.get(ZONE))
    session.conf.set(_REGISTERED, mark)


def session(app_name: str = "icecore", *, master: str = "local[2]", memory: str = "2g", **conf: Any) -> Any:
    """A local Spark session that is ready to read and write Iceberg tables, or the one that is running already.

    `format("icecore")` is known to it: see `register`. `memory` is the driver's. `conf` is Spark's configuration; in
    keyword arguments `__` stands for the dot, as in `spark__sql__shuffle__partitions=4`. Raises
    MissingDependencyError where PySpark or Java is missing.
    """
    made = sessions.session(app_name, master=master, memory=memory, **conf)
    register_once(made)
    return made


def register_once(session: Any) -> None:
    """Makes the format known to a session, unless it is known already, whatever its warehouse."""
    if session.conf.get(_REGISTERED, None) is None:
        register(session)


@contextmanager
def _active(session: Any) -> Iterator[None]:
    """The session as its thread's active one: a new session takes the formats of the active one for Spark's own."""
    jvm = None if getattr(session, "_jsparkSession", None) is None else session._jvm
    if jvm is None:
        yield
        return
    before = jvm.SparkSession.getActiveSession()
    jvm.SparkSession.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            jvm.SparkSession.setActiveSession(before.get())
        else:
            jvm.SparkSession.clearActiveSession()
