"""Version hints of tables that clients of a server commit to: a little later, and never of what is not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core_tables import local
from rest_client import RestClient, make_table, served

import icecore
from icecore.engine.server.feed.gathering import Gathering

TABLE = "/v1/namespaces/ns/tables/"


def set_key(rest: RestClient, name: str, value: str) -> Any:
    """Commits a property; gives the metadata file."""
    change = {"action": "set-properties", "updates": {"key": value}}
    return rest.post(TABLE + name, {"updates": [change]}).json["metadata-location"]


def hinted(metadata_location: str) -> Path:
    """The metadata file that the hint beside this one names."""
    folder = local(metadata_location).parent
    return folder / ((folder / "version-hint.text").read_text() + ".metadata.json")


def test_hints_follow_when_the_server_ends_at_the_latest(tmp_path: Path) -> None:
    """Where old metadata files go a hint that is late would name one of them."""
    with icecore.open(tmp_path / "w") as catalog:
        with served(catalog) as rest:
            make_table(rest, "t")
            make_table(rest, "u", properties={"write.metadata.delete-after-commit.enabled": "true"})
            gone = local(make_table(rest, "gone")["metadata-location"])
            last = [set_key(rest, "t", value) for value in "12"][-1]
            now = set_key(rest, "u", "1")
            assert hinted(now) == local(now)
            set_key(rest, "gone", "1")
            assert rest.ask("DELETE", TABLE + "gone?purgeRequested=true").status == 204
        assert hinted(last) == local(last)
        assert not gone.parent.exists()
        assert catalog.verify().problems == ()


def test_what_comes_as_it_is_closed_is_handled_too() -> None:
    """As of a thread that saw it open: its commit stood, and it was told of an error."""
    handled: list[list[int]] = []
    gathering = Gathering[int]("test", handled.append)
    gathering.take(1)
    gathering.close()
    gathering.take(2)
    assert handled == [[1], [2]]
