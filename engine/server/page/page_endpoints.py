"""The paths of the server's pages. The modules that make pages load at the first request, which few servers get."""

from __future__ import annotations

from importlib import import_module

from icecore.engine.server.wire.answer import Answer
from icecore.engine.server.wire.call import Call, Handler
from icecore.engine.server.wire.endpoint import Endpoint


def _made_by(module: str, function: str) -> Handler:
    def answer(call: Call) -> Answer:
        page: Handler = getattr(import_module(f"icecore.engine.server.page.{module}"), function)
        return page(call)

    return answer


ONE = "/tables/{namespace}/{table}"
PAGES = (
    Endpoint("GET", "/", _made_by("log_page", "log_page"), is_of_all=True, is_page=True),
    Endpoint("GET", "/tables", _made_by("pages_shown", "tables_page"), is_page=True),
    Endpoint("GET", ONE, _made_by("table_page", "table_page"), is_page=True),
    Endpoint("GET", f"{ONE}/findings", _made_by("table_page", "table_findings_page"), is_page=True, is_audit=True),
    Endpoint("GET", f"{ONE}/plan", _made_by("plan_page", "plan_page"), is_page=True),
    Endpoint("GET", f"{ONE}/blame", _made_by("blame_page", "blame_page"), is_page=True),
    Endpoint("GET", "/findings", _made_by("pages_shown", "findings_page"), is_of_all=True, is_page=True, is_audit=True),
    Endpoint("GET", "/sql", _made_by("pages_shown", "sql_page"), is_of_all=True, is_page=True),
    Endpoint("GET", "/static/{file}", _made_by("pages_shown", "static"), is_open=True, is_page=True),
)
