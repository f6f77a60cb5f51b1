"""Bounding boxes of shapes in well-known binary.

Spec: Bounds for Geometry and Geography, Bound Serialization (M8). Z and M are read both from ISO's type numbers and
from the flags that PostGIS sets instead (EWKB).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from attrs import define, field

from icecore.engine.errors import ValidationError

_POINT, _LINE, _POLYGON, _PARTS = 1, 2, 3, (4, 5, 6, 7)
_Z_FLAG, _M_FLAG, _SRID_FLAG = 0x80000000, 0x40000000, 0x20000000
_MOST_DEPTH = 64
# The axes (x, y, z and m are 0 to 3) of a point's coordinates, by the thousands digit of the WKB type.
_DIMENSIONS = {0: (0, 1), 1: (0, 1, 2), 2: (0, 1, 3), 3: (0, 1, 2, 3)}


@define
class Box:
    """The least and greatest x, y, z and m of shapes; NaN where there is none. `only_points`: no shape has an edge."""

    low: list[float] = field(factory=lambda: [math.nan] * 4)
    high: list[float] = field(factory=lambda: [math.nan] * 4)
    only_points: bool = True

    def add(self, shapes: Iterable[bytes]) -> None:
        """Widens the box. Raises ValidationError for bytes that are no WKB."""
        for shape in shapes:
            try:
                end = self._shape(shape, 0, 0)
            except (struct.error, ValueError) as e:
                raise ValidationError(f"{shape[:16].hex()}... is not a shape in well-known binary: {e}") from e
            if end != len(shape):
                raise ValidationError(f"{shape[:16].hex()}... has {len(shape) - end} bytes after the shape")

    @property
    def is_empty(self) -> bool:
        """Whether no x or no y was added, so that there is no box (M8)."""
        return math.isnan(self.low[0]) or math.isnan(self.low[1])

    def lower_bound(self) -> bytes:
        """The lower bound as stored (M8)."""
        return _point(self.low)

    def upper_bound(self) -> bytes:
        """The upper bound as stored (M8)."""
        return _point(self.high)

    def _shape(self, data: bytes, at: int, depth: int) -> int:
        """Widens the box by the shape that begins at byte `at`, and returns the byte at which it ends."""
        if depth > _MOST_DEPTH:
            raise ValueError("shapes are nested too deep")
        order = {0: ">", 1: "<"}.get(data[at] if at < len(data) else -1)
        if order is None:
            raise ValueError(f"no byte order at byte {at}")
        (code,) = struct.unpack_from(f"{order}I", data, at + 1)
        at += 5 + (4 if code & _SRID_FLAG else 0)
        dimensions = (code & ~(_Z_FLAG | _M_FLAG | _SRID_FLAG)) // 1000
        if code & (_Z_FLAG | _M_FLAG):
            dimensions = (1 if code & _Z_FLAG else 0) + (2 if code & _M_FLAG else 0)
        kind = (code & 0x1FFFFFFF) % 1000
        axes = _DIMENSIONS.get(dimensions)
        if axes is None:
            raise ValueError(f"unknown type {code}")
        if kind == _POINT:
            return self._points(data, at, 1, axes, order)
        if kind not in (_LINE, _POLYGON, *_PARTS):
            raise ValueError(f"unknown type {code}")
        (count,) = struct.unpack_from(f"{order}I", data, at)
        at += 4
        if kind == _LINE:
            self.only_points = False
            return self._points(data, at, count, axes, order)
        if kind == _POLYGON:
            self.only_points = False
        for _ in range(count):
            if kind == _POLYGON:
                (points,) = struct.unpack_from(f"{order}I", data, at)
                at = self._points(data, at + 4, points, axes, order)
            else:
                at = self._shape(data, at, depth + 1)
        return at

    def _points(self, data: bytes, at: int, count: int, axes: tuple[int, ...], order: str) -> int:
        end = at + 8 * len(axes) * count
        if end > len(data):
            raise ValueError(f"{count} points do not fit into the rest")
        if count == 1:
            for axis, value in zip(axes, struct.unpack_from(f"{order}{len(axes)}d", data, at), strict=True):
                # Comparisons with NaN are false.
                if not value >= self.low[axis] and value == value:
                    self.low[axis] = value
                if not value <= self.high[axis] and value == value:
                    self.high[axis] = value
        elif count:
            numbers = np.frombuffer(data, f"{order}f8", count * len(axes), at)
            self._widen(axes, numbers.reshape(-1, len(axes)))
        return end

    def _widen(self, axes: Iterable[int], points: npt.NDArray[np.float64]) -> None:
        low, high = np.fmin.reduce(points), np.fmax.reduce(points)
        for i, axis in enumerate(axes):
            self.low[axis] = float(np.fmin(self.low[axis], low[i]))
            self.high[axis] = float(np.fmax(self.high[axis], high[i]))


def _point(values: list[float]) -> bytes:
    """x:y, x:y:z, x:y:z:m or, without z, x:y:NaN:m, as little-endian doubles."""
    last = max(i for i in range(4) if i < 2 or not math.isnan(values[i]))
    return struct.pack(f"<{last + 1}d", *values[: last + 1])
