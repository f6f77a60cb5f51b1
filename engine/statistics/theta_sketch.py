"""Theta sketches of distinct values, as Puffin files of table statistics hold them.

Spec: Puffin, apache-datasketches-theta-v1. A value is hashed from its binary single-value form, as Java and Trino do.
The library's Python face takes no bytes, so values are hashed here, and the library is handed sketches that hold every
hash of a batch: merging, thinning out and estimating are its work. The outcome depends on the set of values alone, not
on their order or on how they come in batches.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any

import mmh3
import numpy as np
import pyarrow as pa

from icecore.engine.common.optional_packages import needs
from icecore.engine.errors import CorruptFileError
from icecore.engine.formats.typed_values import arrow_type, identity_bytes
from icecore.engine.spec.types import PrimitiveType

THETA_BLOB_TYPE = "apache-datasketches-theta-v1"
LG_NOMINAL_ENTRIES = 12
SEED = 9001
_PREAMBLE = struct.Struct("<BBBBBBHIf")
_PREAMBLE_LONGS, _SERIAL_VERSION, _FAMILY_COMPACT = 2, 3, 3
_READ_ONLY, _COMPACT, _ORDERED = 2, 8, 16


class ThetaSketch:
    """A sketch of the distinct values of a column of one type, nulls and empty values left out as in Java.

    Raises MissingDependencyError where the library is not installed.
    """

    def __init__(self, iceberg_type: PrimitiveType) -> None:
        self._library = library()
        self._type = iceberg_type
        self._union = self._library.theta_union(LG_NOMINAL_ENTRIES)

    def add(self, array: pa.Array) -> None:
        """Adds values, in the Arrow type that scans give."""
        hashes = hashes_of(single_values(self._type, array))
        if len(hashes):
            self._union.update(self._library.compact_theta_sketch.deserialize(self._exact(hashes)))

    def serialize(self) -> bytes:
        """The compact sketch."""
        return bytes(self._union.get_result().serialize())

    def estimate(self) -> int:
        """The number of distinct values; exact up to 4096 of them."""
        return int(self._union.get_result().get_estimate())

    def _exact(self, hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> bytes:
        seed_hash = self._library.update_theta_sketch(seed=SEED).get_seed_hash()
        flags = _READ_ONLY | _COMPACT | _ORDERED
        preamble = _PREAMBLE.pack(
            _PREAMBLE_LONGS, _SERIAL_VERSION, _FAMILY_COMPACT, 0, 0, flags, seed_hash, len(hashes), 1.0
        )
        return preamble + hashes.astype("<u8").tobytes()


def estimate_of(sketch: bytes, where: str) -> int:
    """The number of distinct values that a serialized sketch estimates.

    Raises CorruptFileError naming `where` it is from, MissingDependencyError.
    """
    try:
        return int(library().compact_theta_sketch.deserialize(sketch, SEED).get_estimate())
    except (ValueError, RuntimeError, IndexError, MemoryError) as e:
        raise CorruptFileError(f"{where}: the theta sketch can't be read: {e}") from e


def single_values(iceberg_type: PrimitiveType, array: pa.Array) -> list[bytes]:
    """The distinct values of an array in their binary single-value form, nulls left out."""
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    typed = storage.unique().drop_null().cast(arrow_type(iceberg_type))
    values: list[bytes] = identity_bytes(typed).to_pylist()
    return values


def hashes_of(values: Iterable[bytes]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The hashes of values as sketches keep them: positive, distinct, ascending."""
    found = [mmh3.hash64(v, SEED, True, signed=False)[0] for v in values if v]
    hashes = np.unique(np.array(found, dtype=np.uint64) >> np.uint64(1))
    return hashes[hashes > 0]


def library() -> Any:
    """The datasketches package. Raises MissingDependencyError where it is not installed."""
    with needs("datasketches", "'icecore[stats]'"):
        import datasketches
    return datasketches
