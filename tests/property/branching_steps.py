"""The steps of a history of a table with branches, drawn by Hypothesis."""

from __future__ import annotations

import random
from typing import Any

TERMS = ["s", "bucket(2, id)", "truncate(2, i)", "st.a", "year(d)", "n"]
NAMES = ["i", "s", "f", "p", "q"]
# How often each step is taken.
WEIGHTS: dict[str, float] = {
    "append": 6,
    "delete": 5,
    "overwrite": 2,
    "same": 2,
    "delete_keys": 4,
    "upsert": 3,
    "mode": 1,
    "rename": 1,
    "drop": 1.5,
    "add": 1.5,
    "promote": 1,
    "move": 0.7,
    "spec": 1,
    "upgrade": 0.7,
    "compact": 0.8,
    "rewrite_manifests": 1,
    "rewrite_deletes": 0.7,
    "branch": 2,
    "fast_forward": 0.6,
    "rollback": 1,
    "pick": 2,
    "tag": 0.5,
    "expire": 0.8,
    "revert": 1,
}
Step = tuple[str, bool, Any]


def history(choice: random.Random, length: int) -> list[Step]:
    """Steps, each with whether it is one on the branch `side`; the first is an append."""
    actions = choice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=length)
    return [(action, choice.random() < 0.5, _argument(action, choice)) for action in ["append", *actions]]


def _argument(action: str, choice: random.Random) -> Any:
    number = choice.randrange(60)
    match action:
        case "append" | "upsert":
            return _seeds(choice)
        case "overwrite" | "delete_keys":
            return number, _seeds(choice)
        case "rename" | "add":
            return number, choice.choice(NAMES)
        case "spec":
            return choice.sample(TERMS, choice.randrange(3))
        case _:
            return number


def _seeds(choice: random.Random) -> list[int]:
    return choice.choices(range(12), k=choice.randint(1, 5))
