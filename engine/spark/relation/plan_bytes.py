"""A plan's files as one value for the JVM: sent path by path, ten thousand of them would take seconds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from icecore.engine.spark.pyspark_api import types as T

_AS_BYTES = (T.StringType, T.BinaryType, T.DecimalType)


def plan_bytes(paths: pa.Array, sizes: pa.Array, constants: Mapping[str, tuple[T.DataType, pa.Array]]) -> bytes:
    """The number of files, then the columns: paths, sizes in bytes, constants of each file in their stored form.

    A column is a byte for each row, 1 where it has a value; then 8 bytes for each, or a length of 4 bytes for each and
    after all lengths the bytes. Numbers are big-endian, floats as doubles, decimals as text.
    """
    columns = [
        _column(paths, T.StringType()),
        _column(sizes, T.LongType()),
        *(_column(values, spark_type) for spark_type, values in constants.values()),
    ]
    return len(paths).to_bytes(4, "big") + b"".join(columns)


def plan_key(plan: bytes, constants: str) -> str:
    """The text by which the JVM knows a plan again: a hash of all that is made from it, bytes and constant types."""
    told = hashlib.sha256(constants.encode())
    told.update(b"\0")
    told.update(plan)
    return told.hexdigest()


def deleted_bits(positions: Sequence[np.ndarray[tuple[int], np.dtype[np.int64]]]) -> bytes:
    """The number of files, then for each a length of 4 bytes and a bit for each position, set where it is deleted.

    `positions` are the deleted ones of each file, ascending.
    """
    parts = [len(positions).to_bytes(4, "big")]
    for deleted in positions:
        bits = np.zeros(int(deleted[-1]) + 1 if len(deleted) else 0, dtype=np.uint8)
        bits[deleted] = 1
        packed = np.packbits(bits, bitorder="little").tobytes()
        parts += [len(packed).to_bytes(4, "big"), packed]
    return b"".join(parts)


def _column(values: pa.Array, spark_type: T.DataType) -> bytes:
    there = np.asarray(values.is_valid()).astype(np.uint8).tobytes()
    if pa.types.is_string(values.type):
        texts = pc.fill_null(values, "")
        offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
        data = memoryview(texts.buffers()[2] or b"")[offsets[0] : offsets[-1]]
        return there + np.diff(offsets).astype(">i4").tobytes() + bytes(data)
    if isinstance(spark_type, _AS_BYTES):
        texts = [_bytes(v) for v in values.to_pylist()]
        return there + np.array([len(t) for t in texts], dtype=">i4").tobytes() + b"".join(texts)
    return there + _numbers(values).tobytes()


def _bytes(value: object) -> bytes:
    if value is None:
        return b""
    if isinstance(value, bytes):
        return value
    return (f"{value:f}" if isinstance(value, Decimal) else str(value)).encode()


def _numbers(values: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    if pa.types.is_floating(values.type):
        return np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0)).astype(">f8")
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    whole = values.cast(pa.int64())
    return np.asarray(pc.fill_null(whole, 0)).astype(">i8")
