"""Values of numpy, pandas and Arrow as plain Python values, without importing any of them."""

from __future__ import annotations

import datetime as dt
from typing import Any

from icecore.engine.errors import ExpressionError
from icecore.engine.expression.nodes import TypedValue
from icecore.engine.spec.types import DateType, FloatType, TimestampNanoType, TimestamptzNanoType

_DAYS = {"D": 1, "W": 7}
_NANOSECONDS = {"h": 3_600_000_000_000, "m": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def plain(value: Any) -> Any:
    """A scalar of numpy, pandas or Arrow as a Python value or `TypedValue`; any other value as it is.

    NaT and NA are null. A time of nanoseconds keeps them, a 32-bit float its type. Raises ExpressionError where there
    is no such value.
    """
    kind = type(value)
    match kind.__module__.partition(".")[0]:
        case "numpy":
            return _of_numpy(value)
        case "pandas":
            return _of_pandas(value)
        case "pyarrow" if hasattr(value, "as_py"):
            return _of_arrow(value)
        case _:
            return value


def elements(value: Any) -> list[Any] | None:
    """The values of a collection, sorted where it has no order; None for what is not one."""
    if isinstance(value, (list, tuple, range)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        # A set has no order of its own; sorting keeps equal filters equal.
        return sorted(value, key=repr)
    match type(value).__module__.partition(".")[0]:
        case "numpy" if getattr(value, "ndim", 0) == 1:
            return list(value)
        case "pandas" if hasattr(value, "to_list"):
            return list(value)
        case "pyarrow" if hasattr(value, "to_pylist"):
            return list(value)
        case _:
            return None


def _of_numpy(value: Any) -> Any:
    name: str = type(value).__name__
    if name == "datetime64":
        return _of_datetime64(value)
    if name == "float32":
        return TypedValue(FloatType(), float(value))
    if name in ("void", "timedelta64", "ndarray"):
        raise ExpressionError(f"a value of numpy's type {name} can't be a literal")
    return value.item() if hasattr(value, "item") else value


def _of_datetime64(value: Any) -> TypedValue | None:
    if value != value:  # NaT alone
        return None
    unit: str = value.dtype.name.partition("[")[2].rstrip("]")
    count = int(value.astype("int64"))
    if unit in _DAYS:
        return TypedValue(DateType(), count * _DAYS[unit])
    if unit in _NANOSECONDS:
        return TypedValue(TimestampNanoType(), count * _NANOSECONDS[unit])
    raise ExpressionError(f"{value!r} is neither a date nor a time: its unit is {unit or 'missing'}")


def _of_pandas(value: Any) -> Any:
    name = type(value).__name__
    if name in ("NaTType", "NAType"):
        return None
    if name == "Timestamp":
        # Its value counts nanoseconds of UTC where it has a zone, else of the wall clock.
        nano = value.as_unit("ns").value
        return TypedValue(TimestampNanoType() if value.tzinfo is None else TimestamptzNanoType(), int(nano))
    return value


def _of_arrow(value: Any) -> Any:
    if not value.is_valid:
        return None
    kind = str(value.type)
    if kind == "float":
        return TypedValue(FloatType(), value.as_py())
    if kind.startswith("timestamp[ns"):
        zoned = value.type.tz is not None
        return TypedValue(TimestamptzNanoType() if zoned else TimestampNanoType(), int(value.value))
    found = value.as_py()
    return plain(found) if isinstance(found, dt.datetime) else found
