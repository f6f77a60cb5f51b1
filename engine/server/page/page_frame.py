"""The frame of the server's pages, which load nothing from elsewhere and run no script but the server's own."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from icecore.engine.server.wire.answer import Answer
from icecore.projections.report.html_elements import Markup, element

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}
_PLACES = (("/", "Log"), ("/tables", "Tables"), ("/sql", "SQL"), ("/findings", "Findings"))


def framed(title: str, here: str, *content: Markup, facts: str = "") -> Answer:
    """A page with the ways to the others on top; `here` is its path."""
    ways = [element("a", name, href=path, aria_current="page" if path == here else None) for path, name in _PLACES]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("link", rel="stylesheet", href="/static/report.css"),
        element("link", rel="stylesheet", href="/static/page.css"),
        element("script", src="/static/page.js", defer="defer"),
    )
    top = element("header", element("nav", *ways), element("h1", title), element("p", facts))
    return html(element("html", head, element("body", element("main", top, *content)), lang="en"))


def html(page: Markup | str) -> Answer:
    """A page as it goes over the wire."""
    text = page if page.startswith("<!DOCTYPE") else f"<!DOCTYPE html>\n{page}\n"
    return Answer(200, text.encode("utf-8", "replace"), "text/html; charset=utf-8", HEADERS)


def static_file(name: str, content_type: str) -> Answer:
    """A file that comes with the package."""
    folder = ("projections", "report") if name == "report.css" else ("engine", "server", "page")
    return Answer(200, files("icecore").joinpath(*folder, name).read_bytes(), content_type, HEADERS)


def grid(columns: Sequence[str], rows: Sequence[Sequence[str | Markup]], **attributes: str) -> Markup:
    """A table whose cells are text or markup; its head stays in sight."""
    head = element("thead", element("tr", *(element("th", c, scope="col") for c in columns)))
    body = element("tbody", *(element("tr", *(element("td", c) for c in row)) for row in rows))
    return element("div", element("table", head, body, **attributes), class_="scrolls")
