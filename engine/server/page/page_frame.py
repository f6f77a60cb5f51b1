"""The frame of the server's pages, which load nothing from elsewhere and run no script but the server's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from urllib.parse import quote, urlencode

import orjson

from icecore.engine.common.identifiers import Identifier
from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.path_names import SEPARATOR
from icecore.projections.report.html_elements import Markup, element, markup_of

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
ASKS_BROWSER = {"www-authenticate": 'Basic realm="icecore: a token is the password", charset="UTF-8"'}
_OF_ALL = (("/", "Log"), ("/sql", "SQL"), ("/findings", "Findings"))
_PLACES = (_OF_ALL[0], ("/tables", "Tables"), *_OF_ALL[1:])
_OF_TABLE = (("", "Report"), ("/plan", "Plan"), ("/blame", "Blame"), ("/findings", "Findings"))


def framed(call: Call, title: str, here: str, *content: Markup, facts: str = "", table: Identifier = ()) -> Answer:
    """A page with links to the others on top; `here` is its own path, `table` the table that it is about."""
    ways = [_ways(_PLACES if call.may_read(()) else [p for p in _PLACES if p not in _OF_ALL], here, "Pages")]
    if table:
        ways.append(_ways([(table_path(table, what), name) for what, name in _OF_TABLE], here, "Pages of the table"))
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="icon", href="/static/icon.svg"),
        element("link", rel="stylesheet", href="/static/report.css"),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("script", src="/static/page.js", defer="defer"),
    )
    skip = element("a", "To the content", href="#content", class_="skip")
    top = element("div", element("h1", title), element("p", facts), class_="title")
    main = element("main", top, *content, id="content", tabindex="-1")
    page = element("html", head, element("body", skip, element("header", *ways), main), lang="en")
    return Answer(200, f"<!DOCTYPE html>\n{page}\n".encode("utf-8", "replace"), "text/html; charset=utf-8", _HTML)


_HTML = {**HEADERS, "cache-control": "no-store"}


def _ways(places: Sequence[tuple[str, str]], here: str, label: str) -> Markup:
    ways = [element("a", name, href=path, aria_current="page" if path == here else None) for path, name in places]
    return element("nav", *ways, aria_label=label)


def error_page(call: Call, told: Answer) -> Answer:
    """The error of an answer as a page. Where a token is missing the browser asks for it."""
    assert isinstance(told.body, bytes), "errors are told at once"
    error = orjson.loads(told.body)["error"]
    page = framed(call, "That did not work", "", alert(error["message"]), facts=f"{told.status} {error['type']}")
    asks = ASKS_BROWSER if told.status in (401, 419) else {}
    return Answer(told.status, page.body, page.content_type, {**told.headers, **page.headers, **asks})


def alert(message: str) -> Markup:
    """A message of what went wrong, which is read out at once."""
    return element("p", message, class_="error", role="alert")


def static_file(name: str, content_type: str) -> Answer:
    """A file that comes with the package."""
    folder = ("projections", "report") if name == "report.css" else ("engine", "server", "page")
    return Answer(200, files("icecore").joinpath(*folder, name).read_bytes(), content_type, HEADERS)


def grid(label: str, columns: Sequence[str], rows: Sequence[Sequence[str | Markup]], **attributes: str) -> Markup:
    """A table whose cells are text or markup; one that is too wide scrolls by itself.

    With the class `stacks` rows become lists of named cells where there is little room.
    """
    names = columns if attributes.get("class_") == "stacks" else [None] * len(columns)
    body = element("tbody", *(element("tr", *_cells(row, names)) for row in rows))
    table = element("table", _head(columns), body, aria_label=label, **attributes)
    return element("div", table, class_="scrolls", tabindex="0", role="region", aria_label=label)


def lines(label: str, columns: Sequence[str], rows: Sequence[Sequence[str | Markup]], name: str, **more: str) -> Markup:
    """A table of any number of rows, which is as wide as the page. Rows that are out of sight are not laid out."""
    parts = (rows[i : i + _ROWS] for i in range(0, max(len(rows), 1), _ROWS))
    bodies = (Markup(f"<tbody>{''.join(map(_plain_row, part))}</tbody>") for part in parts)
    return element("table", _head(columns), *bodies, id=name, class_="lines", aria_label=label, **more)


_ROWS = 250


def _head(columns: Sequence[str]) -> Markup:
    return element("thead", element("tr", *(element("th", c, scope="col") for c in columns)))


def _plain_row(row: Sequence[str | Markup]) -> str:
    return f"<tr><td>{'</td><td>'.join([markup_of(content) for content in row])}</td></tr>"


def _cells(row: Sequence[str | Markup], names: Sequence[str | None]) -> Iterator[Markup]:
    """The cells of a row; where rows stack each tells the name of its column."""
    return (element("td", c, data_label=name or None) for c, name in zip(row, names, strict=True))


def row_filter(rows_of: str, label: str, count: int) -> Markup:
    """A field that hides the rows of a table without the words that are typed."""
    shown = element("output", f"{count:,}", for_=f"{rows_of}-filter")
    name = element("label", label, for_=f"{rows_of}-filter")
    field = element("input", type="search", id=f"{rows_of}-filter", data_filters=rows_of, autocomplete="off")
    return element("p", name, field, shown, class_="filter", role="search")


def table_path(table: Identifier, what: str = "", query: Mapping[str, str] = {}) -> str:
    """The path of a page of a table: its report, or `what` of it."""
    asked = f"?{urlencode(query)}" if query else ""
    return f"/tables/{quote(SEPARATOR.join(table[:-1]), safe='')}/{quote(table[-1], safe='')}{what}{asked}"


def link(text: str, path: str) -> Markup:
    """A link to another page."""
    return element("a", text, href=path)
