"""The entries that a commit stores beside its event, as its manifests have them."""

from __future__ import annotations

from core_tables import make_table, repository_of, rows

import icecore


def test_a_commit_of_one_manifest_has_its_entries_uncut(catalog: icecore.Catalog) -> None:
    """Most are such, and to cut so many columns out takes as long as to read them."""
    table = make_table(catalog)
    table.append(rows(0))
    repository = repository_of(catalog)
    (listed,) = table.manifests()
    found = repository.entries.canonical(table.state.stream, listed, repository.storage)
    assert found is repository.entries.beside(listed.position)
