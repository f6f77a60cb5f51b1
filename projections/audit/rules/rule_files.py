"""The rules that come with icecore, in `sql/audit`, and those of a user's folder: one a file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

from icecore.engine.errors import ValidationError
from icecore.projections.audit.rules.rule import Rule, parse_rule

FOLDER = "audit"
_ENDING = ".sql"


@cache
def own_rules() -> Mapping[str, Rule]:
    """The rules of `sql/audit` by their ids, in the order of the alphabet."""
    folder = files("icecore") / "sql" / FOLDER
    found = sorted((f for f in folder.iterdir() if f.name.endswith(_ENDING)), key=lambda f: f.name)
    rules = (parse_rule(f.read_text(encoding="utf-8"), f.name) for f in found)
    return {rule.id: rule for rule in rules}


def rules_of(folder: str | os.PathLike[str] | None) -> Mapping[str, Rule]:
    """The rules that come with icecore and those of a folder, by their ids; one of the folder wins over one of ours.

    Raises ValidationError where there is no such folder, or a file in it is no rule.
    """
    if folder is None:
        return own_rules()
    path = Path(folder)
    if not path.is_dir():
        raise ValidationError(f"there is no folder of rules at {path}")
    theirs: dict[str, Rule] = {}
    for file in sorted(path.glob(f"*{_ENDING}")):
        rule = parse_rule(_text(file), str(file))
        if rule.id in theirs:
            raise ValidationError(f"{file}: another file of the folder has the rule {rule.id} too")
        theirs[rule.id] = rule
    return dict(sorted({**own_rules(), **theirs}.items()))


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise ValidationError(f"{file} can't be read: {e}") from e


def chosen_rules(known: Mapping[str, Rule], ids: Sequence[str] | None) -> list[Rule]:
    """The rules of these ids, or all. Raises ValidationError for an unknown id."""
    if ids is None:
        return list(known.values())
    if isinstance(ids, str):
        raise ValidationError(f"rules are given as a list of ids, found {ids!r}")
    for one in ids:
        if one not in known:
            raise ValidationError(f"there is no rule {one!r}; there are: {', '.join(known)}")
    return [known[one] for one in dict.fromkeys(ids)]
