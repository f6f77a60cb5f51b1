"""Residuals: the part of a filter that is still to be applied to a file's rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import frozen

from icecore.engine.expression.nodes import FALSE, TRUE, And, Expression, Or, Predicate
from icecore.engine.expression.simplify import and_, or_
from icecore.engine.expression.walk import predicates, rewrite


def residual(bound: Expression, might_bits: int, all_bits: int) -> Expression:
    """The residual of a filter for a file, simplified.

    Bit i of the numbers says what `leaf_might[i]` and `leaf_all[i]` of the filter's plan are for the file.
    """
    return Residuals.of(bound).left(might_bits, all_bits)


@frozen
class Residuals:
    """A filter prepared for the residuals of many files: a long one has many parts, few of which matter.

    `bits` has the bit of each leaf; `parts` are the operands of the filter's AND or OR, or the filter
    itself, with their leaves' bits.
    """

    bound: Expression
    bits: Mapping[Predicate, int]
    parts: tuple[tuple[Expression, int], ...]

    @property
    def all_bits(self) -> int:
        """The bits of all leaves."""
        return (1 << len(self.bits)) - 1

    @classmethod
    def of(cls, bound: Expression) -> Residuals:
        """The prepared form of a bound filter."""
        bits = {p: 1 << i for i, p in enumerate(predicates(bound))}
        operands = bound.children if isinstance(bound, (And, Or)) else (bound,)
        return cls(bound, bits, tuple((e, sum(bits[p] for p in predicates(e))) for e in operands))

    def left(self, might: int, surely: int) -> Expression:
        """The residual, see `residual`."""
        # A leaf that no row can satisfy is false, even where all rows satisfy it: there may be no rows.
        surely &= might
        if not self.all_bits & (~might | surely):
            return self.bound
        out: list[Expression] = []
        for part, bits in self.parts:
            if not bits & (~might | surely):
                out.append(part)
            elif bits & ~might and _is_and(part):
                out.append(FALSE)
            elif bits & surely and _is_or(part):
                out.append(TRUE)
            else:
                out.append(rewrite(part, self._decided(part, might, surely)))
        match self.bound:
            case And():
                return and_(*out)
            case Or():
                return or_(*out)
            case _:
                return out[0]

    def _decided(self, part: Expression, might: int, surely: int) -> Callable[[Predicate], Expression]:
        found: dict[Predicate, Expression] = {}
        for p in predicates(part):
            bit = self.bits[p]
            if not bit & might:
                found[p] = FALSE
            elif bit & surely:
                found[p] = TRUE
        return lambda p: found.get(p, p)


def _is_and(e: Expression) -> bool:
    """Whether it is a leaf alone or an AND of leaves, so that one false leaf makes it false."""
    return isinstance(e, Predicate) or (isinstance(e, And) and all(isinstance(c, Predicate) for c in e.children))


def _is_or(e: Expression) -> bool:
    return isinstance(e, Predicate) or (isinstance(e, Or) and all(isinstance(c, Predicate) for c in e.children))
