"""Elements of HTML and SVG: whatever is not markup already is text, and escaped."""

from __future__ import annotations

from html import escape

from icecore.engine.common.text import printable

_EMPTY = frozenset({"meta", "link", "br", "input", "rect", "line", "circle", "path"})


class Markup(str):
    """Text that is markup, and put in as it is."""

    __slots__ = ()


def element(name: str, /, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """An element; attributes that are None are left out, `class_` is `class` and `_` in a name `-`."""
    given = "".join(f' {_attribute(n)}="{escape(_value(v))}"' for n, v in attributes.items() if v is not None)
    if name in _EMPTY and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: object) -> Markup:
    """The markup of several children."""
    assert isinstance(children, (list, tuple)), "children are told one by one"
    return Markup("".join([markup_of(c) for c in children]))


def markup_of(child: object) -> str:
    """Markup as it is, and all else as text."""
    return child if isinstance(child, Markup) else escape(printable(str(child)))


def _attribute(name: str) -> str:
    return name.rstrip("_").replace("_", "-") if name not in ("viewBox", "preserveAspectRatio") else name


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return printable(value)
    return f"{value:.2f}".rstrip("0").rstrip(".")


def in_bytes(number: float) -> str:
    """A size with its unit, as `1.5 MiB`."""
    value, unit = _scaled(number, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    return f"{value} {unit}"


def in_short(number: float) -> str:
    """A number as `950`, `1.2k` or `3M`."""
    return "".join(_scaled(number, 1000, ("", "k", "M", "G", "T")))


def _scaled(number: float, step: int, units: tuple[str, ...]) -> tuple[str, str]:
    """The number in the greatest unit that it is one of, with a digit behind the point, and the unit."""
    place = 0
    while abs(number) >= step and place < len(units) - 1:
        number, place = number / step, place + 1
    return f"{number:.1f}".removesuffix(".0"), units[place]
