"""The snapshots of a table as a graph of text, the latest first, as `git log --graph` has commits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def graph_lines(nodes: Iterable[tuple[int, int | None, str]]) -> Iterator[str]:
    """The lines of a graph of `(id, parent, text)` nodes, children before parents; a parent that is no node is None."""
    lanes: list[int] = []
    for node, parent, text in nodes:
        if node not in lanes:
            lanes.append(node)
        here = lanes.index(node)
        yield f"{' '.join('*' if i == here else '|' for i in range(len(lanes)))}  {text}"
        ended = [i for i, lane in enumerate(lanes) if lane == node and (i != here or parent is None)]
        for gone in reversed(ended):
            if gone or len(lanes) > 1:
                yield _without(len(lanes), gone, joins=gone != here)
            del lanes[gone]
        if parent is not None:
            lanes[here] = parent


def _without(lanes: int, gone: int, *, joins: bool) -> str:
    """A line in which a lane joins the one that its snapshot is in, or ends, and those beside it move to the left."""
    line = [" "] * (2 * lanes)
    for i in range(lanes):
        if i < gone:
            line[2 * i] = "|"
        elif i > gone or joins:
            line[2 * i - 1] = "/"
    return "".join(line).rstrip()
