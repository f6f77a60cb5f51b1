"""Functions, of which a warehouse has none. Spec: the listFunctions and loadFunction of the REST document."""

from __future__ import annotations

from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.error_answers import named_error
from icecore.engine.server.wire.pages import page_size


def list_functions(call: Call) -> Answer:
    """No functions, of a namespace that is there. Raises ValidationError, NoSuchNamespaceError."""
    page_size(call)
    call.shown.load_namespace_properties(call.namespace)
    return json_answer({"identifiers": []})


def load_function(call: Call) -> Answer:
    """No function has the name. Raises NoSuchNamespaceError."""
    call.shown.load_namespace_properties(call.namespace)
    name = ".".join((*call.namespace, call.name_in_path("function")))
    return named_error(404, "NoSuchFunctionException", f"Function does not exist: {name}")


ALL = "/namespaces/{namespace}/functions"
ENDPOINTS = (Endpoint("GET", ALL, list_functions), Endpoint("GET", f"{ALL}/{{function}}", load_function))
