"""Writes docs/properties.md, the page of the properties that this engine reads, from where they are declared.

python docs/properties.py
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from icecore.engine.properties.table_properties import PROPERTIES, VIEW_PROPERTIES, KnownProperty

PAGE = Path(__file__).parent / "properties.md"
_HEAD = """\
# Properties

Made by `python docs/properties.py` from `engine/properties/table_properties.py`; change it there.

A value that is none of a property's values is refused when somebody sets it. Tables that other engines wrote may have
any; values are read there as Java reads them: a flag is set where its text is `true` in any case of letters, a number
is decimal digits. Spaces around a value are let be, as in PyIceberg. A value that can't be read counts as not set where
a commit would be kept from being made (`commit.*`, `write.metadata.previous-versions-max`), so that the one that puts
it right can be; else what needs it raises `ValidationError` naming the property. Properties that are not here are kept
for other engines.
"""


def page() -> str:
    """The text of the page."""
    return f"{_HEAD}\n## Of tables\n\n{_table(PROPERTIES)}\n## Of views\n\n{_table(VIEW_PROPERTIES)}"


def _table(properties: Iterable[KnownProperty[Any]]) -> str:
    rows = ["| name | values | default | |", "|---|---|---|---|"]
    for p in sorted(properties, key=lambda p: p.name):
        name = f"{p.name}<column>" if p.name.endswith(".") else p.name
        default = "" if p.default is None else f"`{p.default}`"
        rows.append(f"| `{name}` | {p.values.expected.replace('<', '&lt;')} | {default} | {p.doc} |")
    return "\n".join(rows) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
