"""What commands print at 80 and 120 columns and into a pipe, byte for byte.

`ICECORE_UPDATE_GOLDEN=1` writes the captures anew, for a change of the output that is meant.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.display import output
from icecore.engine.display.table_layout import text_width
from icecore.engine.log import store
from icecore.engine.repository import repository
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat
from icecore.engine.table import pending_commit

AT_ONCE = """
from icecore.engine.display import output

class Now:
    def __init__(self, seconds, call):
        self.start = call

    def cancel(self):
        pass

    join = cancel

output.Timer = Now
import shlex, sys
from icecore.engine.cli.main import cli
for command in sys.argv[2:]:
    cli.main(["-w", sys.argv[1], *shlex.split(command)], standalone_mode=False)
"""
"""The program, for several commands, with a spinner that does not wait for a second."""
HERE = Path(__file__).parent / "captures"
UPDATE = os.environ.get("ICECORE_UPDATE_GOLDEN") == "1"
FILES = "SELECT split_part(file_path, '/shop/', 2) AS file_path, record_count FROM files WHERE name = 'parcels' LIMIT 2"
COMMANDS = (
    "ls",
    "log",
    "-x log shop.orders --limit 1",
    "show shop.orders",
    "-x show shop.orders --limit 1",
    "show shop.orders --wide --limit 1",
    "plan shop.parcels",
    "plan shop.parcels --where 'id < 5000' --explain --limit 3",
    "sql 'SELECT namespace, name, table_uuid, snapshot_id, parent_snapshot_id AS parent, operation FROM snapshots'",
    f'sql "{FILES}"',
    "describe shop.orders",
    "describe shop.parcels",
    "blame shop.orders --columns id,note",
    "blame shop.orders --column note",
    "-x blame shop.orders --columns id --limit 1",
    "diff 2 3",
    "diff 4 --table shop.parcels",
    "show-commit 5",
    "audit --fail-on never",
)
WHOLE = ("--wide", "describe", "show-commit", "audit")
"""What says some lines whole, however narrow the terminal is: values of one thing, and sentences."""
TEXTS = ("the first order of all that came in on a rainy day", "Łódź\nby train", "東京に送る")
NAMES = ("id", "note", *(f"measure_{i}" for i in range(16)), "last")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A table with rows of many columns, and one of many files that nobody reads; ids and times count up."""
    with pytest.MonkeyPatch.context() as patch:
        _pin(patch)
        folder = tmp_path_factory.mktemp("shop")
        with icecore.open(folder, actor="ann") as catalog:
            catalog.create_namespace("shop")
            rows = [[number, text, *range(16), "end"] for number, text in enumerate(TEXTS)]
            orders = catalog.create_table("shop.orders", pa.schema([(n, _type(n)) for n in NAMES]))
            orders.append([dict(zip(NAMES, row, strict=True)) for row in rows], message="three orders, as they came in")
            parcels = catalog.create_table("shop.parcels", pa.schema([("id", pa.int64())]))
            parcels.append_files(
                [_file(parcels.location(), n) for n in range(1, 26)], author="a long name of a program"
            )
        yield folder


@pytest.mark.parametrize("width", [80, 120, None])
def test_captures(shop: Path, width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    size = None if width is None else os.terminal_size((width, 10_000))
    monkeypatch.setattr(output, "terminal_size", lambda: size)
    parts = []
    for command in COMMANDS:
        result = CliRunner().invoke(cli, ["-w", str(shop), *shlex.split(command)])
        assert result.exit_code == 0, result.output
        told = _told(result.stdout, shop)
        if width is not None and not any(word in command for word in WHOLE):
            assert all(text_width(line) <= width for line in told.splitlines())
        parts.append(f"$ icecore {command}\n{told}")
    text = "\n".join(parts)
    file = HERE / f"{width or 'piped'}.txt"
    if UPDATE:
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert text == file.read_text()


def test_a_terminal_has_its_width_and_a_pager(shop: Path) -> None:
    """Seen by a process whose terminal has 80 columns and 5 lines."""
    environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "LESS")}
    # A dumb one is not told what takes longer than a second.
    environment |= {"PAGER": "sed s/^/paged:/", "TERM": "dumb"}
    text = _on_terminal([sys.executable, "-m", "icecore", "-w", str(shop), "show", "shop.orders"], environment)
    assert [line[:8] for line in text.splitlines()] == [
        "paged:id",
        "paged:──",
        *(f"paged: {n}" for n in range(3)),
        "paged:… ",
    ]
    assert "more columns, --wide" in text


def _on_terminal(command: list[str], environment: dict[str, str]) -> str:
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 5, 80, 0, 0))
    with subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment) as process:
        os.close(side)
        text = b""
        try:
            while part := os.read(main, 65536):
                text += part
        except OSError:
            # The terminal's other side was closed.
            os.close(main)
    assert process.returncode == 0, text.decode()
    return text.decode()


def _told(text: str, folder: Path) -> str:
    """The output without what each run has anew; the folder's length is in no width: paths are cut, or stand last."""
    text = re.sub(r"planned in [0-9.]+ ms", "planned in 1.0 ms", text)
    text = re.sub(r"(?m)^( +file://)[^ …]+…", r"\1/shop…", text)
    text = re.sub(r"(?m)^(change .* file_path *\n)─+$", r"\1───", text)
    text = re.sub(r"(?m)^(hash +)[0-9a-f]{64}$", r"\1f00d", text)
    return text.replace(str(folder), "/shop")


def _type(name: str) -> pa.DataType:
    return pa.string() if name in ("note", "last") else pa.int64()


def _file(location: str, number: int) -> ContentFile:
    return ContentFile(
        DataFileContent.DATA,
        f"{location}/data/{uuid.UUID(int=number)}-written-by-nobody-at-all-{number:05}.parquet",
        FileFormat.PARQUET,
        0,
        (),
        record_count=1000 * number,
        file_size_in_bytes=123_456 + number,
        lower_bounds={1: (1000 * number).to_bytes(8, "little")},
        upper_bounds={1: (1000 * number + 999).to_bytes(8, "little")},
    )


def _pin(patch: pytest.MonkeyPatch) -> None:
    numbers, times = itertools.count(1), itertools.count(1_700_000_000_000, 1001)
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers), version=4))
    for module in (repository, store):
        patch.setattr(module, "new_event_id", lambda: str(uuid.UUID(int=next(numbers), version=4)))
    patch.setattr(pending_commit, "new_snapshot_id", lambda taken: 5_528_347_193_847_100_000 + next(numbers))
    patch.setattr(store, "now_ms", lambda: next(times))


def test_commands_that_may_take_long_say_so(shop: Path) -> None:
    """What reads rows or all tables, to a person alone: here at once, else after a second."""
    told = {
        "show shop.orders": "reading shop.orders",
        "query 'SELECT id FROM shop.orders'": "running the query",
        "sql 'SELECT name FROM tables'": "running the query",
        "blame shop.orders": "looking through the commits of shop.orders",
        "blame shop.orders --column note": "looking through the commits of shop.orders",
        "audit --fail-on never": "checking the tables",
        "log": "reading the log",
        "log shop.orders --graph": "reading the log",
        "plan shop.orders": "planning shop.orders",
        "plan shop.orders --explain": "planning shop.orders",
        "plan shop.orders --name all --where 'id > 0'": "planning shop.orders",
        "diff 2 3": "comparing",
        "diff 2 3 --table shop.orders --files": "comparing",
        "diff 2 3 --table shop.orders --rows": "comparing",
        "show-commit 3": "reading commit 3",
        "show-commit 3 --rows": "reading commit 3",
    }
    program = [sys.executable, "-c", AT_ONCE, str(shop), *told]
    text = _on_terminal(program, {**os.environ, "TERM": "xterm", "PAGER": "cat"})
    piped = subprocess.run(program, capture_output=True, text=True, check=True)
    for doing in told.values():
        at = text.find(doing)
        assert at >= 0 and doing not in piped.stdout + piped.stderr, (doing, text)
        text = text[at + len(doing) :]


@pytest.mark.parametrize(("patience", "is_told"), [(0.0, True), (3600.0, False)])
def test_what_takes_long_is_told(
    patience: float, is_told: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only then, and only to a person."""
    monkeypatch.setattr(output, "PATIENCE", patience)
    with output.waiting("reading") as nothing:
        assert nothing is None
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with output.waiting('reading shop."[/b]\x1b[2J"') as status:
        assert status is not None
        until = 6000
        while is_told and not status._live.is_started and until:  # type: ignore[attr-defined]
            until -= 1
            threading.Event().wait(0.01)
        assert status._live.is_started == is_told  # type: ignore[attr-defined]
    assert not status._live.is_started  # type: ignore[attr-defined]
    told = capsys.readouterr().err
    assert "\x1b[2J" not in told and ('reading shop."[/b]' in told) == is_told
