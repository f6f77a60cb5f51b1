"""murmur3_x86_32 with seed 0 over whole columns. Spec: Appendix B, 32-bit Hash Requirements (PT4)."""

from __future__ import annotations

from collections.abc import Iterable

import mmh3
import numpy as np
import numpy.typing as npt

Hashes = npt.NDArray[np.int32]
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def hash_longs(values: npt.NDArray[np.int64]) -> Hashes:
    """The hashes of 64-bit integers as eight little-endian bytes each."""
    words = np.ascontiguousarray(values, dtype="<i8").view("<u4").reshape(-1, 2)
    h = np.zeros(len(values), dtype=np.uint32)
    for i in range(2):
        k = _rotate(words[:, i] * _C1, 15) * _C2
        h = _rotate(h ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    h ^= np.uint32(8)
    h ^= h >> np.uint32(16)
    h *= np.uint32(0x85EBCA6B)
    h ^= h >> np.uint32(13)
    h *= np.uint32(0xC2B2AE35)
    h ^= h >> np.uint32(16)
    return h.view(np.int32)


def hash_each(values: Iterable[bytes | str]) -> Hashes:
    """The hashes of byte strings; of text, its UTF-8."""
    return np.fromiter(map(mmh3.hash, values), dtype=np.int32)


def _rotate(x: npt.NDArray[np.uint32], by: int) -> npt.NDArray[np.uint32]:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))
