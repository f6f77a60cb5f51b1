"""The log as server-sent events: what is there and what comes, once and in order, to whom may see it."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa
from rest_client import RestClient, make_table, served

import icecore
from icecore.engine.server.auth.access_tokens import AccessTokens
from icecore.engine.server.auth.grants import Grant
from icecore.engine.server.feed.log_feed import LogFeed
from icecore.engine.server.server_settings import ServerSettings


@contextlib.contextmanager
def followed(rest: RestClient, query: str = "", **headers: str) -> Iterator[Iterator[bytes]]:
    """The lines of a stream that is open as long as the block."""
    connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=60)
    with contextlib.closing(connection):
        connection.request("GET", f"/v1/events{query}", headers={k.replace("_", "-"): v for k, v in headers.items()})
        reply = connection.getresponse()
        assert (reply.status, reply.getheader("content-type")) == (200, "text/event-stream; charset=utf-8")
        yield iter(reply)


def ids(lines: Iterator[bytes], count: int) -> list[int]:
    """The positions of the next events."""
    return [int(line[4:]) for line in itertools.islice((x for x in lines if x.startswith(b"id: ")), count)]


def test_followers_get_what_was_there_and_what_comes(rest: RestClient, catalog: icecore.Catalog) -> None:
    """From the position that they name, by the library's commits too; a namespace or table filters."""
    make_table(rest)
    catalog.create_namespace("other")
    pages = rest.post("/v1/events", {}).json["events"]
    with (
        followed(rest, "?after=0") as all_lines,
        followed(rest, "?after=0", last_event_id="2") as resumed,
        followed(rest, "?namespace=other") as inside,
        followed(rest, "?namespace=ns&table=t&after=0") as of_table,
    ):
        data = [orjson.loads(line[6:]) for line in itertools.islice((x for x in all_lines if x[:1] == b"d"), 3)]
        assert data == pages
        assert ids(resumed, 1) == [3] and ids(of_table, 1) == [2]
        catalog.load_table("ns.t").append([{"id": 1, "city": "Oslo"}])
        with catalog.transaction() as both:
            both.rename_table("ns.t", "other.u")
            both.create_namespace("third")
        catalog.drop_table("other.u")
        assert ids(all_lines, 4) == ids(resumed, 4) == [4, 5, 6, 7]
        # What left a namespace or came to it is of both.
        assert ids(of_table, 2) == [4, 5] and ids(inside, 2) == [5, 7]


def test_the_namespace_that_is_followed_is_encoded_once(rest: RestClient, catalog: icecore.Catalog) -> None:
    """As any value of a query: the name may look like one that is encoded."""
    catalog.create_namespace("aA")
    catalog.create_namespace("a%41")
    with followed(rest, "?after=0&namespace=a%2541") as lines:
        assert ids(lines, 1) == [2]


def test_tables_made_while_the_log_is_followed_have_their_names_from_then_on(catalog: icecore.Catalog) -> None:
    """Where there was none before, too: followers of a namespace got nothing of its tables but their creation."""
    catalog.create_namespace("ns")
    feed = LogFeed(catalog._warehouse.store, heartbeat_s=1, most_followers=1)
    feed._begin()
    table = catalog.create_table("ns.t", pa.schema([("id", pa.int64())]))
    for _ in range(2):
        feed._keep(feed._read())
        table.append([{"id": 1}])
    assert [e.names for e in feed._kept] == [(("ns", "t"),)] * 2


def test_who_follows_all_gets_what_has_no_name_too(rest: RestClient, catalog: icecore.Catalog) -> None:
    """What was forgotten, as in pages. A purge is known by the name that the table had, to followers of that too."""
    make_table(rest, properties={"owner": "Jane Doe"})
    catalog.load_table("ns.t").remove_properties("owner")
    catalog.drop_table("ns.t", purge=True)
    catalog.forget_text("Jane Doe")
    pages = [e["x-icecore-position"] for e in rest.post("/v1/events", {}).json["events"]]
    with followed(rest, "?after=0") as lines:
        assert ids(lines, len(pages)) == pages == list(range(1, 7))
    purge, asked = 5, {"catalog-objects": [{"reference-type": "namespace", "namespace": ["ns"]}]}
    with followed(rest, f"?after={purge - 1}&namespace=ns&table=t") as lines:
        assert ids(lines, 1) == [purge]
    [*_, last] = rest.post("/v1/events", asked).json["events"]
    assert last["x-icecore-position"] == purge and last["operation"]["identifier"] == {"namespace": ["ns"], "name": "t"}


def test_streams_end_where_they_were_asked_to_and_wrong_positions_are_refused(
    rest: RestClient, catalog: icecore.Catalog
) -> None:
    make_table(rest)
    then = rest.get("/v1/at/1/events?after=0")
    assert then.status == 200 and ids(iter(then.body.splitlines()), 9) == [1]
    assert [rest.get(f"/v1/events?{asked}").status for asked in ("after=99", "after=x", "table=t")] == [400] * 3


def test_a_commit_counts_all_of_its_events_to_who_asks_for_some(rest: RestClient, catalog: icecore.Catalog) -> None:
    """From inside of the commit on, and up to a position inside of it, in pages too."""
    with catalog.transaction() as three:
        for name in ("a", "b", "c"):
            three.create_namespace(name)
    with followed(rest, "?after=0", last_event_id="1") as resumed:
        told = [orjson.loads(line[6:]) for line in itertools.islice((x for x in resumed if x[:1] == b"d"), 2)]
    past = [
        orjson.loads(line[6:]) for line in rest.get("/v1/at/2/events?after=0").body.splitlines() if line[:1] == b"d"
    ]
    pages = rest.post("/v1/at/2/events", {}).json["events"]
    assert [e["event-count"] for e in (*told, *past, *pages)] == [3] * 6


def test_who_does_not_read_holds_nobody_up_and_a_token_that_ends_ends_its_stream(tmp_path: Path) -> None:
    """A token of one namespace is refused. Streams that nobody reads end with the server."""
    settings = ServerSettings(heartbeat_s=0.02, most_followers=2)
    with icecore.open(tmp_path / "w") as catalog, served(catalog, settings) as rest, contextlib.ExitStack() as stack:
        catalog.create_namespace("ns", {"k": "v" * 200_000})
        stack.enter_context(followed(rest, "?after=0"))
        for n in range(30):
            catalog.update_namespace_properties("ns", updates={"k": str(n) * 100_000})
        tokens = AccessTokens(catalog._warehouse.store)
        follower, narrow = (
            {"authorization": f"Bearer {tokens.create(name, [Grant.parse(grant)])[1]}"}
            for name, grant in (("follower", "read:*"), ("narrow", "manage:ns"))
        )
        assert rest.get("/v1/events?namespace=ns", **narrow).status == 403
        lines = stack.enter_context(followed(rest, "?after=0", **follower))
        assert ids(lines, 31) == list(range(1, 32))
        assert list(itertools.islice((x for x in lines if x == b":\n"), 2)) == [b":\n"] * 2
        tokens.revoke("follower")
        assert set(lines) <= {b":\n", b"\n"}


def test_a_stream_ends_where_its_log_was_replaced(tmp_path: Path) -> None:
    """What comes to the log that is there, it would never tell."""
    with (
        icecore.open(tmp_path / "w") as catalog,
        served(catalog, ServerSettings(heartbeat_s=0.02)) as rest,
        followed(rest, "?after=0") as lines,
    ):
        catalog.create_namespace("ns")
        assert ids(lines, 1) == [1]
        log = tmp_path / "w" / "icecore.db"
        log.rename(log.with_name("before.db"))
        log.touch()
        assert len(list(itertools.islice(lines, 6000))) < 6000
        assert rest.get("/v1/events").status == 403
        log.with_name("before.db").rename(log)


def test_who_is_gone_follows_no_more_also_after_it_asked_for_more(catalog: icecore.Catalog) -> None:
    """Of several requests of a connection that ended only the last one was woken: the stream went on to nobody."""
    catalog.create_namespace("ns")
    head = b"GET /v1/%s HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
    with served(catalog, ServerSettings(most_followers=1, heartbeat_s=0.02)) as rest:
        with socket.create_connection(("127.0.0.1", rest.port), timeout=60) as gone:
            gone.sendall(head % b"events" + head % b"config")
            assert gone.recv(65536).startswith(b"HTTP/1.1 200 ")
            assert rest.get("/v1/at/1/events?after=0").status == 429
        deadline = time.monotonic() + 60
        while rest.get("/v1/at/1/events?after=0").status == 429:
            assert time.monotonic() < deadline
