"""The ways in which `rewrite_data_files` puts rows into files, with Java's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from icecore.engine.evolution.terms import SortTerm
    from icecore.engine.spec.sort import SortOrder

SortTerms: TypeAlias = "Sequence[str | SortTerm] | SortOrder"
BINPACK = "binpack"
SORT = "sort"
