"""An audit as SARIF 2.1.0 (OASIS Static Analysis Results Interchange Format), for CI and code hosts."""

from __future__ import annotations

import hashlib
from typing import Any
from urllib.parse import quote

import orjson

from icecore.engine.common.identifiers import name_parts
from icecore.engine.common.version import VERSION
from icecore.projections.audit.rules.audit_findings import Accepted, Audit, AuditFinding
from icecore.projections.audit.rules.rule import Rule

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif(audit: Audit) -> dict[str, Any]:
    """The log of one run as a JSON object. Accepted findings are suppressed results, with the reason where it is told.

    A result's place is the table, or the warehouse. Its name stands as a path, too, as code hosts show no result
    without one.
    """
    places = {rule.id: place for place, rule in enumerate(audit.rules)}
    results = [_result(f, places[f.rule]) for f in audit.findings]
    results += [_result(f, places[f.rule]) | {"suppressions": [_suppression(a)]} for f, a in audit.accepted]
    driver = {
        "name": "icecore",
        "version": VERSION,
        "rules": [_rule(r) for r in audit.rules],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "shortDescription": {"text": rule.finds},
        "help": {"text": rule.mend},
        "defaultConfiguration": {"level": str(rule.severity)},
    }


def _result(finding: AuditFinding, place: int) -> dict[str, Any]:
    name = finding.table or "warehouse"
    kind = {"kind": "module"} if finding.table is None else {"kind": "type"}
    key = orjson.dumps([finding.rule, finding.table_uuid, finding.subject])
    return {
        "ruleId": finding.rule,
        "ruleIndex": place,
        "level": str(finding.severity),
        "message": {"text": f"{name}: {finding.message}"},
        "locations": [
            {
                "physicalLocation": {"artifactLocation": {"uri": _path(finding)}, "region": {"startLine": 1}},
                "logicalLocations": [{"name": name_parts(name)[-1], "fullyQualifiedName": name, **kind}],
            }
        ],
        "partialFingerprints": {"finding/v1": hashlib.sha256(key).hexdigest()},
    }


def _path(finding: AuditFinding) -> str:
    """A relative URI, below the folder of the warehouse: of the table's name, or of the log's file."""
    return "icecore.db" if finding.table is None else "/".join(quote(n, safe="") for n in name_parts(finding.table))


def _suppression(accepted: Accepted) -> dict[str, str]:
    said = {} if accepted.reason is None else {"justification": accepted.reason}
    return {"kind": "external", **said}
