"""What answers of the REST catalog must hold, said in few words here and in full by Iceberg's OpenAPI document.

The document is not part of this project: where `ICECORE_REST_DOCUMENT` names a copy of apache/iceberg's
`open-api/rest-catalog-open-api.yaml`, each answer that a test of the server gets is held to its schemas too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from attrs import define

_TABLE, _TABLE_CHANGED = {"metadata"}, {"metadata", "metadata-location"}
_P = "/v1/{prefix}"
_NS = _P + "/namespaces/{namespace}"
REQUIRED: dict[str, set[str] | None] = {
    "GET /v1/config": {"defaults", "overrides"},
    "POST /v1/oauth/tokens": {"access_token", "token_type"},
    f"GET {_P}/namespaces": set(),
    f"POST {_P}/namespaces": {"namespace"},
    f"GET {_NS}": {"namespace"},
    f"HEAD {_NS}": None,
    f"DELETE {_NS}": None,
    f"POST {_NS}/properties": {"removed", "updated"},
    f"GET {_NS}/tables": set(),
    f"POST {_NS}/tables": _TABLE,
    f"GET {_NS}/functions": set(),
    f"GET {_NS}/functions/{{function}}": {"metadata"},
    f"POST {_NS}/tables/{{table}}/plan": set(),
    f"GET {_NS}/tables/{{table}}/plan/{{plan-id}}": set(),
    f"DELETE {_NS}/tables/{{table}}/plan/{{plan-id}}": None,
    f"POST {_NS}/tables/{{table}}/tasks": set(),
    f"POST {_NS}/register": _TABLE,
    f"GET {_NS}/tables/{{table}}": _TABLE,
    f"POST {_NS}/tables/{{table}}": _TABLE_CHANGED,
    f"HEAD {_NS}/tables/{{table}}": None,
    f"DELETE {_NS}/tables/{{table}}": None,
    f"POST {_NS}/tables/{{table}}/unregister": _TABLE_CHANGED,
    f"POST {_P}/tables/rename": None,
    f"POST {_NS}/tables/{{table}}/metrics": None,
    f"POST {_P}/transactions/commit": None,
    f"GET {_NS}/views": set(),
    f"POST {_NS}/views": _TABLE_CHANGED,
    f"GET {_NS}/views/{{view}}": _TABLE_CHANGED,
    f"POST {_NS}/views/{{view}}": _TABLE_CHANGED,
    f"HEAD {_NS}/views/{{view}}": None,
    f"DELETE {_NS}/views/{{view}}": None,
    f"POST {_P}/views/rename": None,
    f"POST {_NS}/register-view": _TABLE_CHANGED,
}
"""Of each operation that is served, the fields that its answer must have; None where it has no body."""


def _pattern(operation: str) -> re.Pattern[str]:
    """The requests of an operation; the catalog as it was has a prefix of two parts."""
    text = re.escape(operation.replace("/{prefix}", "<prefix>")).replace("<prefix>", "(?:/at/[^/]+)?")
    return re.compile(re.sub(r"\\{[^}]*\\}", "[^/]+", text))


PATTERNS = {operation: _pattern(operation) for operation in REQUIRED}

NOT_OF_AN_OPERATION = {405, 413, 429}
"""What is refused before it is known whose request it is, or as others are at work."""


@define(slots=False)
class Document:
    """The OpenAPI document, read when it is first asked for; `path` is empty where there is none."""

    path: str

    @cached_property
    def _content(self) -> Any:
        """Changed where Java's server and clients, and so ours, differ from it.

        Values of partitions may be null, errors of views are as all errors, and what is of several types is of one: a
        number is long and double, "variant" is a primitive type by the pattern of names.
        """
        import yaml

        found = yaml.load(Path(self.path).read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        schemas = found["components"]["schemas"]
        schemas["PrimitiveTypeValue"] = {"anyOf": [{"type": "null"}, *schemas["PrimitiveTypeValue"]["oneOf"]]}
        schemas["Type"] = {"anyOf": schemas["Type"]["oneOf"]}
        model, answer = "#/components/schemas/ErrorModel", "#/components/schemas/IcebergErrorResponse"
        for operation in (o for item in found["paths"].values() for o in item.values() if "responses" in o):
            for said in operation["responses"].values():
                schema = said.get("content", {}).get("application/json", {}).get("schema", {})
                if schema.get("$ref") == model:
                    schema["$ref"] = answer
        return found

    def _found(self, node: Any) -> Any:
        while "$ref" in node:
            name = node["$ref"]
            node = self._content
            for part in name.removeprefix("#/").split("/"):
                node = node[part]
        return node

    def response(self, operation: str, status: int) -> Any:
        """What the document says of a status, None where it does not know it."""
        method, path = operation.split()
        listed = self._content["paths"][path][method.lower()]["responses"]
        said = next((listed[k] for k in (status, str(status), f"{status // 100}XX", "default") if k in listed), None)
        return None if said is None else self._found(said)

    def required(self, operation: str) -> set[str] | None:
        """The fields that the successful answer must have."""
        said = self.response(operation, 200) or self.response(operation, 204)
        schema = said.get("content", {}).get("application/json", {}).get("schema")
        return None if schema is None else set(self._required(schema))

    def _required(self, schema: Any) -> Iterator[str]:
        schema = self._found(schema)
        yield from schema.get("required", ())
        for part in schema.get("allOf", ()):
            yield from self._required(part)

    def faults(self, operation: str, status: int, body: bytes) -> list[str]:
        """Where an answer is not what the document has."""
        from jsonschema import Draft202012Validator

        said = self.response(operation, status)
        if said is None:
            return [f"the document knows no status {status}"]
        content = said.get("content", {}).get("application/json")
        if content is None or not body:
            return [f"a body, where the document has none: {body[:200]!r}"] if body and content is None else []
        validator = Draft202012Validator({**self._content, **content["schema"]})
        return [f"{e.json_path}: {e.message[:300]}" for e in map(_deepest, validator.iter_errors(json.loads(body)))]


def _deepest(error: Any) -> Any:
    """Of the alternatives that a value is none of, what is wrong where it is most alike."""
    while error.context:
        error = max(error.context, key=lambda e: (len(e.path), e.validator not in ("enum", "const")))
    return error


DOCUMENT = Document(os.environ.get("ICECORE_REST_DOCUMENT", ""))


def check_answer(method: str, path: str, status: int, body: bytes) -> None:
    """Raises AssertionError where the answer of one of the document's operations is not as it says."""
    request = f"{method} {path.split('?')[0]}"
    operation = next((o for o, pattern in PATTERNS.items() if pattern.fullmatch(request)), None)
    if operation is None or status in NOT_OF_AN_OPERATION:
        return
    required = REQUIRED[operation] if status < 400 else {"error"}
    if required is None or method == "HEAD" or status == 304:
        assert not body and status in (204, 304, 404), (operation, status)
    else:
        assert required <= json.loads(body).keys(), (operation, status)
    if DOCUMENT.path:
        faults = DOCUMENT.faults(operation, status, body)
        assert not faults, (operation, status, faults)
