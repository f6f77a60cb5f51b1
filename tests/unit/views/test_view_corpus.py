"""V1: real and deliberately broken view metadata of other projects; the folder is named by ICECORE_CORPUS."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from icecore.engine.errors import ValidationError
from icecore.engine.metadata.view_builder import ViewBuilder
from icecore.engine.spec.view import ViewMetadata

CORPUS = Path(os.environ.get("ICECORE_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))
pytestmark = pytest.mark.skipif(not CORPUS.exists(), reason="no corpus of real tables: set ICECORE_CORPUS")

# What breaks which rule of the spec; every other file is read.
BROKEN = {
    "iceberg-rust/_metadata/view/ViewMetadataV1SchemaNotFound.json": "there is no schema",
    "iceberg-rust/_metadata/view/ViewMetadataV1MissingSchema.json": "current-version-id",
    "iceberg-rust/_metadata/view/ViewMetadataV1MissingCurrentVersion.json": "current-version-id",
    "dremio/_metadata/view/ViewMetadataMissingVersionV1.metadata.json": "version",
    "dremio/_metadata/view/ValidViewVersionMetadataV0.metadata.json": "view-uuid",
    "dremio/_metadata/view/ViewVersionMetadataUnsupportedVersionV0.json": "format version",
    "dremio/_metadata/view/ViewMetadataMissingUuidV1.metadata.json": "format version 2",
    "dremio/_metadata/view/ViewVersionMetadataMissingVersionV0.metadata.json": "format-version",
    "iceberg-java/_metadata/view/ViewMetadataInvalidCurrentSchema.json": "there is no schema",
    "iceberg-java/_metadata/view/ViewMetadataMissingLocation.json": "location",
}
FILES = sorted(p for p in CORPUS.glob("*/_metadata/view/*") if p.is_file())


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parts[-4]}/{p.name}")
def test_v1_corpus_is_read_or_refused_for_the_rule_that_it_breaks(path: Path) -> None:
    expected = BROKEN.get(str(path.relative_to(CORPUS)))
    if expected is not None:
        with pytest.raises(ValidationError, match=expected):
            ViewMetadata.from_json(path.read_bytes())
        return
    metadata = ViewMetadata.from_json(path.read_bytes())
    assert ViewMetadata.from_json(metadata.to_json()) == metadata
    unchanged = ViewBuilder(metadata, 0)
    assert (unchanged.build(), unchanged.changes) == (metadata, [])


def test_the_corpus_has_all_that_is_expected_of_it() -> None:
    names = {str(p.relative_to(CORPUS)) for p in FILES}
    assert names >= BROKEN.keys()
    assert len(names - BROKEN.keys()) == 3
