"""Functions, of which a warehouse has none. Spec: the listFunctions of the REST document."""

from __future__ import annotations

from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint


def list_functions(call: Call) -> Answer:
    """No functions, of a namespace that is there."""
    call.shown.load_namespace_properties(call.namespace)
    return json_answer({"identifiers": []})


ENDPOINTS = (Endpoint("GET", "/namespaces/{namespace}/functions", list_functions),)
