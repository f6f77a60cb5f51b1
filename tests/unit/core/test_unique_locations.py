"""Locations under rules are in nobody else's: no table or view is inside of another's place, or around it."""

from __future__ import annotations

import pytest
from core_tables import SCHEMA, ids_of, local, rows
from ruled_locations import MANUAL, commit_updates, ruled

import icecore
from icecore.engine.errors import ForbiddenLocationError
from icecore.engine.spec.updates.metadata_update import SetLocation, SetProperties

__all__ = ["ruled"]


def test_two_tables_are_never_in_one_place(ruled: icecore.Catalog) -> None:
    """Nor one inside of another, in any spelling, as long as the other is there."""
    at = ruled.path / "place"
    ruled.create_table("ns.one", SCHEMA, location=str(at / "t")).append(rows(1))
    spelled = ["t", "t/", "t/inner", "t/inner/deep", "", "t/../t", "%74", "t/.", "x/%2e%2e/t"]
    texts = [f"{at}/{text}" for text in spelled] + [f"file:{at}/t", f"file://{at}/t", f"file:///{at}/t/data"]

    def none_is_accepted() -> None:
        for text in texts:
            for make in (
                lambda text=text: ruled.create_table("ns.two", SCHEMA, location=text),
                lambda text=text: ruled.create_view("ns.two", "SELECT 1 AS one", location=text),
                lambda text=text: commit_updates(ruled, SetLocation(text)),
                lambda text=text: commit_updates(ruled, SetProperties({"write.data.path": text})),
            ):
                with pytest.raises(ForbiddenLocationError, match="where files of"):
                    make()
                    pytest.fail(f"{text} was accepted")

    ruled.create_table("ns.t", SCHEMA, properties=MANUAL)
    none_is_accepted()
    ruled.drop_table("ns.one")
    ruled.create_table("ns.two", SCHEMA, location=f"{at}/t/inner")
    with pytest.raises(ForbiddenLocationError, match=r"ns\.two"):
        ruled.undrop_table("ns.one")
    ruled.drop_table("ns.two", purge=True)
    assert ids_of(ruled.undrop_table("ns.one")) == [1]
    ruled.rebuild()
    none_is_accepted()
    ruled.create_table("ns.beside", SCHEMA, location=f"{at}/t2")
    ruled.create_table("ns.other_case", SCHEMA, location=f"{at}/T")
    ruled.drop_table("ns.one", purge=True)
    ruled.create_table("ns.two", SCHEMA, location=f"{at}/t")
    assert ruled.verify().problems == ()


def test_a_table_keeps_its_own_place(ruled: icecore.Catalog) -> None:
    """Its data may be inside of it, it may be replaced and registered again, and its commits are as ever."""
    table = ruled.create_table("ns.t", SCHEMA, properties={"write.data.path": str(ruled.path / "ns" / "t" / "rows")})
    table.append(rows(1))
    table.set_properties({"write.metadata.path": f"{table.location()}/logs"})
    table = ruled.replace_table("ns.t", SCHEMA, location=table.location())
    table.append(rows(2))
    file = ruled.load_table("ns.t").metadata_location
    assert file is not None
    ruled.drop_table("ns.t")
    again = ruled.register_table("ns.again", file)
    assert ids_of(again) == [2] and again.location() == table.location()
    with pytest.raises(ForbiddenLocationError, match=r"ns\.again"):
        ruled.undrop_table("ns.t")
    with pytest.raises(ForbiddenLocationError, match=r"ns\.again"):
        ruled.register_table("ns.third", file)


def test_default_locations_stay_apart(ruled: icecore.Catalog) -> None:
    """Of a table in a namespace that has another table's name, and the reverse."""
    ruled.create_table("ns.t", SCHEMA)
    ruled.create_namespace("ns.t")
    inner = ruled.create_table("ns.t.x", SCHEMA)
    inner.append(rows(1))
    assert local(inner.location()).parent == ruled.path and ids_of(ruled.load_table("ns.t.x")) == [1]
    ruled.create_namespace("a.b")
    ruled.create_table("a.b.t", SCHEMA)
    assert ruled.create_table(("a", "b"), SCHEMA).location().startswith(f"file://{ruled.path}/a/b-")
