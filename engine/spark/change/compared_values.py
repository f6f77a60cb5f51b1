"""Values as a merge compares them: in their stored form, however the source spells them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from icecore.engine.spark.name_rule import KnownNames
from icecore.engine.spark.pyspark_api import types as T
from icecore.engine.spark.spark_sql_text import list_of, quote, struct_of
from icecore.engine.spark.spark_types import shown_type
from icecore.engine.spec.types import DecimalType, ListType, StructType, Type, UUIDType

_MAX_DIGITS = 38
_DIGITS_OF_LONG = 19


@frozen
class Compared:
    """A type of the table, and the Spark type of a value that is compared with it.

    In the SQL of both sides uuids are 32 lower-case digits, made from text or bytes. Decimals inside of structs and
    lists are cast to a type that holds both sides, since Spark compares them only where their types are equal.
    """

    wanted: Type
    found: T.DataType
    case_sensitive: bool

    def mine(self, value: str) -> str:
        """SQL of the table's value."""
        return self._plain(value, shown_type(self.wanted), self.found, self.wanted) or value

    def theirs(self, value: str) -> str:
        """SQL of the other value, as `stored_sql` has it."""
        return self._plain(value, self.found, shown_type(self.wanted), self.wanted) or value

    def _plain(self, value: str, own: T.DataType, other: T.DataType, wanted: Type) -> str | None:
        """The SQL by which a value is compared; None where the value is compared as it is."""
        match wanted:
            case UUIDType() if own.typeName() == "binary":
                return f"lower(hex({value}))"
            case UUIDType() if own.typeName() != "void":
                return f"lower(replace({value}, '-', ''))"
            case StructType(fields=fields) if isinstance(own, T.StructType):
                mine, theirs = (given_types(t, wanted, case_sensitive=self.case_sensitive) for t in (own, other))
                parts, changed = [], False
                for f in fields:
                    if f.name in mine and f.name in theirs:
                        inner = f"{value}.{quote(f.name)}"
                        sql = self._inside(inner, mine[f.name], theirs[f.name], f.field_type)
                        parts.append((f.name, sql or inner))
                        changed = changed or sql is not None
                return struct_of(value, parts) if changed else None
            case ListType(element=element) if isinstance(own, T.ArrayType) and isinstance(other, T.ArrayType):
                if self._inside("x", own.elementType, other.elementType, element) is None:
                    return None
                return list_of(value, lambda x: self._inside(x, own.elementType, other.elementType, element) or x)
            case _:
                return None

    def _inside(self, value: str, own: T.DataType, other: T.DataType, wanted: Type) -> str | None:
        common = common_decimal(own, other) if isinstance(wanted, DecimalType) and own != other else None
        return self._plain(value, own, other, wanted) if common is None else f"CAST({value} AS {common})"


def common_decimal(a: T.DataType, b: T.DataType) -> str | None:
    """The decimal type that holds all values of two decimal or integer types; None where there is none."""
    whole, scale = (max(pair) for pair in zip(_digits(a), _digits(b), strict=True))
    return f"DECIMAL({whole + scale}, {scale})" if whole + scale <= _MAX_DIGITS else None


def _digits(t: T.DataType) -> tuple[int, int]:
    return (t.precision - t.scale, t.scale) if isinstance(t, T.DecimalType) else (_DIGITS_OF_LONG, 0)


def given_types(found: T.DataType, wanted: StructType, *, case_sensitive: bool) -> Mapping[str | None, T.DataType]:
    """The types of a struct's fields in the data, by the table's names of them; empty where the data has no struct."""
    known = KnownNames((f.name for f in wanted.fields), case_sensitive=case_sensitive)
    return {known.find(f.name): f.dataType for f in found.fields} if isinstance(found, T.StructType) else {}
