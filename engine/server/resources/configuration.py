"""The configuration that clients ask for first. Spec: the REST document's getConfig."""

from __future__ import annotations

from icecore.engine.common.location import to_uri
from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.error_answers import named_error
from icecore.engine.server.wire.path_names import ENCODED_SEPARATOR


def configuration(call: Call) -> Answer:
    """The operations that are served, and how clients are to speak to the server.

    Clients call the one warehouse as they like; a path must be its folder, else they are told 404.
    """
    asked = call.query.get("warehouse", "")
    path = call.catalog.path
    if "/" in asked and asked.rstrip("/") not in (str(path), path.as_uri(), to_uri(path).rstrip("/")):
        text = f"Warehouse does not exist: {asked[:200]}; this server has {path}"
        return named_error(404, "NoSuchWarehouseException", text)
    overrides = {"namespace-separator": ENCODED_SEPARATOR}
    return json_answer({"defaults": {}, "overrides": overrides, "endpoints": list(call.serving.endpoints)})


ENDPOINTS = (Endpoint("GET", "/config", configuration, has_prefix=False),)
