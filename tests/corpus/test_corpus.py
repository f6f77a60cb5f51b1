"""Real tables of other writers, through the public API, against answers that other readers computed.

The corpus lies outside of this repository: `ICECORE_CORPUS`, by default `../shared/corpus` beside the checkout. The
checks are those of its own tool, `../tools/check_corpus.py` from there.
"""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from attrs import frozen

REPOSITORY = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("ICECORE_CORPUS", REPOSITORY.parent / "shared" / "corpus"))
TOOL = CORPUS.parent / "tools" / "check_corpus.py"


@frozen
class Exemption:
    """A table that can't be wholly right, with the reason: `problem` must still be there, and `missing` not."""

    problem: tuple[str, str]
    missing: str
    reason: str


KNOWN = {
    "duckdb-iceberg/equality_deletes_mytable": Exemption(
        ("history", "snap-7342794868382145167-1-34f7dec7-90c5-4cd5-b158-5782b73fc010.avro: there is no such file"),
        "metadata/snap-7342794868382145167-1-34f7dec7-90c5-4cd5-b158-5782b73fc010.avro",
        "L3: the rows of a v2 snapshot are known from its manifest list only, and one old snapshot's is not there",
    ),
    "pg_lake/spark_generated_iceberg_test_2": Exemption(
        ("history", "snap-1864641659289962989-1-ca3d011c-dffd-43da-9fc0-ced7a4ac5a35.avro: there is no such file"),
        "metadata/snap-1864641659289962989-1-ca3d011c-dffd-43da-9fc0-ced7a4ac5a35.avro",
        "L3: the rows of a v2 snapshot are known from its manifest list only, and old snapshots' are not there",
    ),
}


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_corpus", TOOL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def entries() -> list[Any]:
    """A parameter for each table and metadata file; one that is skipped, saying so, where there is no corpus."""
    manifest = CORPUS / "MANIFEST.json"
    if not manifest.exists() or not TOOL.exists():
        skip = pytest.mark.skip(reason=f"no corpus at {CORPUS}; set ICECORE_CORPUS")
        return [pytest.param(None, id="no corpus", marks=skip)]
    kinds = ("table", "table-metadata", "view-metadata")
    found = [e for e in json.loads(manifest.read_text()) if e["kind"] in kinds]
    return [pytest.param(e, id=e["id"]) for e in found]


@pytest.mark.parametrize("entry", entries())
def test_the_corpus_reads_as_expected(entry: dict[str, Any]) -> None:
    """Files, sequence numbers, deletes, rows and history are the expected ones; known exceptions stay exceptions."""
    tool = load_tool()
    if entry["kind"] == "table":
        problems = tool.check_table(entry, CORPUS.resolve(), CORPUS.resolve(), True)
    else:
        problems = tool.check_metadata(entry, CORPUS.resolve())
    known = KNOWN.get(entry["id"])
    if known is None:
        assert problems == []
        return
    assert not (CORPUS / entry["path"] / known.missing).exists(), f"the reason is gone: {known.reason}"
    assert len(problems) == 1, f"expected one problem, because {known.reason}"
    kind, text = problems[0]
    assert kind == known.problem[0] and known.problem[1] in text and "MissingFileError" in text


def test_every_exception_is_of_a_table_that_is_there() -> None:
    """The list of exceptions names tables of the corpus only."""
    ids = {p.id for p in entries()}
    if ids == {"no corpus"}:
        pytest.skip(f"no corpus at {CORPUS}; set ICECORE_CORPUS")
    assert KNOWN.keys() <= ids
