"""The configuration that clients ask for first. Spec: the REST document's getConfig."""

from __future__ import annotations

from icecore.engine.common.location import to_uri
from icecore.engine.server.wire.answer import Answer, json_answer
from icecore.engine.server.wire.call import Call
from icecore.engine.server.wire.endpoint import Endpoint
from icecore.engine.server.wire.error_answers import named_error
from icecore.engine.server.wire.keyed_calls import LIFETIME
from icecore.engine.server.wire.past_catalogs import AT, check_at
from icecore.engine.server.wire.path_names import ENCODED_SEPARATOR


def configuration(call: Call) -> Answer:
    """The operations that are served, and how clients are to speak to the server.

    Where the server has no names for its one warehouse, clients may call it anything but a path of another folder.
    Other names get 404. The warehouse `at/<position or time>` is all of it as it was then. It lists operations that
    change something too: Java's client removes the files of a commit that is refused, but not of a commit that it can't
    ask for. Raises ValidationError for a malformed time.
    """
    asked = call.query.get("warehouse", "")
    if asked.startswith(AT):
        check_at(asked.removeprefix(AT))
        # Java's clients can't make a path of a prefix with a space.
        return _configured(call, {"prefix": asked.replace(" ", "T")})
    path, names = call.catalog.path, call.serving.settings.names
    is_folder = asked.rstrip("/") in (str(path), path.as_uri(), to_uri(path).rstrip("/"))
    if "/" in asked and not is_folder:
        text = f"Warehouse does not exist: {asked[:200]}; a path must be the folder of the one that is served"
        return named_error(404, "NoSuchWarehouseException", text)
    if asked and names and not is_folder and asked not in names:
        return named_error(404, "NoSuchWarehouseException", f"Warehouse does not exist: {asked[:200]}")
    return _configured(call, {})


def _configured(call: Call, overrides: dict[str, str]) -> Answer:
    told = {"namespace-separator": ENCODED_SEPARATOR} | overrides
    found = {"defaults": {}, "overrides": told, "endpoints": list(call.serving.endpoints)}
    return json_answer({**found, "idempotency-key-lifetime": LIFETIME})


ENDPOINTS = (Endpoint("GET", "/config", configuration, has_prefix=False, is_open=True),)
