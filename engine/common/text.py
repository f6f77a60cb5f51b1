"""Text: lists as messages show them, short reprs, what a terminal can print, and what can be written as UTF-8."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from icecore.engine.common.identifiers import Identifier

MOST = 20
MOST_OF_A_REPR = 500
_MOST_OF_A_VALUE = 100
_ITEMS = 3
_MOST_DIGITS = 100


def abbreviated(names: Iterable[object], most: int = MOST) -> str:
    """The first names and the number of the others: `a, b and 3 more`; `none` for no names."""
    rest = iter(names)
    shown = ", ".join(str(n) for n in islice(rest, most))
    more = sum(1 for _ in rest)
    return f"{shown} and {more} more" if more else shown or "none"


def number_in(text: str) -> int | None:
    """The whole number that a text of ASCII digits is; None for other text, and for more than 100 digits."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def shown_text(value: str | bytes) -> str:
    """The text of a database's row, where bytes that are not UTF-8 are shown as such."""
    return value if isinstance(value, str) else value.decode(errors="backslashreplace")


def ascii_lower(name: str) -> str:
    """A name as DuckDB compares it, with A to Z in lower case: to it É and é are two names."""
    return name.lower() if name.isascii() else "".join(c.lower() if c.isascii() else c for c in name)


def counted(number: int, what: str) -> str:
    """`1 file`, `2,000 files`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def cut(text: str, most: int) -> str:
    """A text, cut where it is longer."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def names_like(name: Identifier, known: Iterable[Identifier]) -> tuple[Identifier, ...]:
    """The known names that may be meant by an unknown one, the best first.

    First come names of the same dotted text, split at other dots, which have to be in quotes; then the same last part
    in any namespace; then similar last parts, in the same namespace or, for a name without one, anywhere.
    """
    import difflib

    names = tuple(dict.fromkeys(known))
    same = [other for other in names if ".".join(other) == ".".join(name)]
    same += [other for other in names if other[-1].lower() == name[-1].lower()]
    near = [other for other in names if len(name) == 1 or other[:-1] == name[:-1]]
    close = difflib.get_close_matches(name[-1], dict.fromkeys(n[-1] for n in near), len(near) or 1)
    return tuple(dict.fromkeys([*same, *(other for text in close for other in near if other[-1] == text)]))


def parser_words(error: Exception) -> str:
    """The words of an SQL parser for an error, and the word where it is; without its marked copy of the text."""
    found = getattr(error, "errors", None)
    if not found:
        return str(error).partition("\n")[0]
    words, at = str(found[0].get("description") or error).partition("\n")[0], found[0].get("highlight")
    # It names a class of its own.
    words = "something is missing" if words.startswith("Required keyword") else words
    return f"{words} at {at!r}" if at else words


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8, which lone surrogates can't."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def printable(text: str) -> str:
    """Text in which control characters are written as escapes; new lines stay."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def printable_json(text: str) -> str:
    """JSON with the same values, in which what a terminal can't print is escaped as JSON has it."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else _json_escape(c) for c in text)


def short_repr(value: Any) -> str:
    """The repr of an attrs object: its fields, long ones cut, of many things the first ones and their number.

    Fields that begin with an underscore, or are left out of attrs' own repr, are not shown.
    """
    import attrs

    shown = (a for a in attrs.fields(type(value)) if a.repr is not False and not a.name.startswith("_"))
    parts = (f"{a.name}={_brief(getattr(value, a.name))}" for a in shown)
    return cut(f"{type(value).__qualname__}({', '.join(_fitting(parts))})", MOST_OF_A_REPR)


def changes_repr(kind: str, of: str | None, pending: Iterable[object] | None) -> str:
    """The repr of an object that gathers changes: the first ones and their number; `pending` is None after its end."""
    held = (call_text(p) if callable(p) else p if isinstance(p, str) else _brief(p) for p in pending or ())
    told = "ended" if pending is None else f"pending: {abbreviated(held, _ITEMS)}"
    return cut(f"{kind}({', '.join([*([] if of is None else [_brief(of)]), told])})", MOST_OF_A_REPR)


def call_text(function: Callable[..., object]) -> str:
    """The call that made a closure, with the values that the closure keeps: `remove_tag(tag_name='v1')`."""
    name = function.__qualname__.partition(".<locals>")[0].rpartition(".")[2]
    kept = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    given = ", ".join(f"{n}={_brief(cell.cell_contents)}" for n, cell in kept if n != "self")
    return cut(f"{name}({given})", _MOST_OF_A_VALUE)


def rows_html(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """Rows as an HTML table, the first ones and the number of the others. No text of them is markup."""
    from html import escape

    rows = list(rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = ("".join(f"<td>{escape(cut(str(v), 200))}</td>" for v in row) for row in rows[:MOST])
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    more = f"<p>… {len(rows) - MOST:,} more</p>" if len(rows) > MOST else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


def _fitting(parts: Iterable[str]) -> Iterator[str]:
    """The parts until they have more than MOST_OF_A_REPR characters; later ones are not even made."""
    length = 0
    for part in parts:
        if length > MOST_OF_A_REPR:
            return
        length += len(part) + 2
        yield part


def _brief(value: Any) -> str:
    match value:
        case str() | bytes():
            return repr(value) if len(value) <= _MOST_OF_A_VALUE else f"{repr(value[:_MOST_OF_A_VALUE])[:-1]}…"
        case Mapping():
            inner = (f"{_brief(k)}: {_brief(v)}" for k, v in islice(value.items(), _ITEMS))
            return f"{{{_some(inner, len(value))}}}"
        case list() | tuple() | AbstractSet():
            return f"[{_some(map(_brief, islice(value, _ITEMS)), len(value))}]"
        case _ if hasattr(type(value), "__attrs_attrs__"):
            # Its own repr may be as long as all that it holds.
            return cut(short_repr(value), _MOST_OF_A_VALUE)
        case _ if hasattr(value, "num_rows"):
            return f"<{value.num_rows:,} rows>"
        case _:
            return cut(repr(value), _MOST_OF_A_VALUE)


def _some(items: Iterable[str], count: int) -> str:
    more = [f"… {count - _ITEMS:,} more"] if count > _ITEMS else []
    return ", ".join([*items, *more])
