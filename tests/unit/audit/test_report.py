"""The report: every table is there, names are text whatever they hold, and a browser shows it by itself."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from broken_tables import MERGE_ON_READ, healthy
from click.testing import CliRunner
from core_tables import SCHEMA

import icecore
from icecore.engine.cli.main import cli
from icecore.engine.errors import NoSuchTableError, StorageError, name_text
from icecore.projections.report.heat_map import Cell, heat_map
from icecore.projections.report.html_elements import Markup, element, in_bytes, in_short
from icecore.projections.report.report_data import TableData
from icecore.projections.report.snapshot_graph import Dot, snapshot_graph
from icecore.projections.report.svg_charts import Bar, bars, nice_top, share, steps
from icecore.projections.report.table_charts import charts

HOSTILE = "<img src=https://evil.example/x onerror=alert(1)>\"'&\x1b[31m"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page that is read strictly: each element is closed in its order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.counts: dict[str, int] = {}
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[icecore.Catalog]:
    """A table with deletes and a branch, one without rows, and one of which all names and texts are hostile."""
    with icecore.open(tmp_path_factory.mktemp("report")) as catalog:
        catalog.create_namespace("ns")
        table = healthy(catalog, "orders", properties=MERGE_ON_READ)
        table.delete("id < 5", message="cancelled")
        table.manage_snapshots(message="for audits").create_branch(
            table.metadata.snapshots[0].snapshot_id, "b"
        ).commit()
        catalog.create_table(("ns", "empty"), SCHEMA)
        hostile = catalog.create_table(("ns", HOSTILE), SCHEMA, partition_spec=["name"])
        hostile.append([{"id": 1, "name": HOSTILE}], message=HOSTILE, author=HOSTILE)
        hostile.set_properties({f"{HOSTILE}password": "hunter2"}, message="why")
        yield catalog


@pytest.fixture(scope="module")
def written(lake: icecore.Catalog, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return lake.report(tmp_path_factory.mktemp("html") / "report.html")


def test_every_table_is_there_with_its_charts(lake: icecore.Catalog, written: Path) -> None:
    page = Page(written.read_text())
    text = "".join(page.texts)
    assert all(name_text(t.name()).replace("\x1b", "\\x1b") in text for t in lake.tables())
    for title in ("Commits", "Growth: rows", "Growth: bytes", "File sizes", "Partitions", "Snapshots", "Delete debt"):
        assert title in page.texts, title
    assert "25.0 %: 5 deletes in 1 delete file for 20 rows" in page.texts
    assert "delete-debt" in page.texts and "secrets" in page.texts
    assert page.counts["svg"] == page.counts["figure"] >= 12
    assert ("id", "t2") in page.attributes and ("href", "#t2") in page.attributes


def test_findings_of_dropped_tables_have_their_names(catalog: icecore.Catalog, tmp_path: Path) -> None:
    healthy(catalog, "gone").append([{"id": 1, "name": "n"}])
    catalog.drop_table("ns.gone", message="why")
    texts = Page(catalog.report(tmp_path / "report.html").read_text()).texts
    assert any(t.startswith("ns.gone: commits without a reason: 1") for t in texts), texts


def test_names_are_text_whatever_they_hold(written: Path) -> None:
    """No element, attribute or address comes of them, and nothing is loaded: the browser is told so too."""
    text = written.read_text()
    page = Page(text)
    assert page.counts.keys().isdisjoint({"img", "script", "link", "iframe", "object"})
    assert {n for n, _ in page.attributes}.isdisjoint({"onerror", "src", "style"})
    assert all(value.startswith("#") for name, value in page.attributes if name == "href")
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in page.attributes
    style = text.partition("<style>")[2].partition("</style>")[0]
    assert "url(" not in style and "@import" not in style and "//" not in style
    assert "\x1b" not in text and "hunter2" not in text
    assert HOSTILE.replace("\x1b", "\\x1b") in "".join(page.texts)


def test_a_report_of_one_table(lake: icecore.Catalog, tmp_path: Path) -> None:
    """Tells of no other; the shell writes it too."""
    text = lake.report(tmp_path / "one.html", "ns.orders").read_text()
    assert "ns.orders" in text and "ns.empty" not in text and "onerror" not in text
    result = CliRunner().invoke(cli, ["-w", str(lake.path), "report", "ns.orders", "--to", str(tmp_path / "b.html")])
    assert result.exit_code == 0, result.output
    assert re.fullmatch(r".*b\.html: [\d,]+ bytes\n", result.output)
    with pytest.raises(NoSuchTableError):
        lake.report(tmp_path / "none.html", "ns.nothing")
    with pytest.raises(StorageError, match="can't write the report"):
        lake.report(tmp_path)


def test_a_browser_shows_it(written: Path, tmp_path: Path) -> None:
    """Light and dark: the page has a picture, which is not of one colour."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("there is no Chromium here")
    pictures = []
    for mode, flags in {"light": [], "dark": ["--force-dark-mode"]}.items():
        picture = tmp_path / f"{mode}.png"
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}", *flags]
        size = ["--window-size=1100,1800", f"--screenshot={picture}"]
        subprocess.run([chromium, *options, *size, written.as_uri()], check=True, capture_output=True, timeout=100)
        pictures.append(picture.read_bytes())
    assert all(len(p) > 30_000 for p in pictures) and pictures[0] != pictures[1]


# Charts are functions of values


def test_elements_escape_what_is_not_markup() -> None:
    assert element("p", "<b>", Markup("<i/>"), title='"&') == '<p title="&quot;&amp;">&lt;b&gt;<i/></p>'
    assert element("rect", x=1.5, y=2.0, class_="a", stroke_width=None) == '<rect x="1.5" y="2" class="a"/>'
    assert element("rect", element("title", "t")) == "<rect><title>t</title></rect>"


def test_numbers_in_short() -> None:
    assert [in_bytes(n) for n in (0, 1023, 1536, 5 * 2**30, 2**50)] == ["0 B", "1023 B", "1.5 KiB", "5 GiB", "1024 TiB"]
    assert [in_short(n) for n in (0, 999, 1200, 3e6)] == ["0", "999", "1.2k", "3M"]
    assert [nice_top(n) for n in (0, 1, 7, 52, 1001)] == [1, 1, 8, 60, 1500]
    assert [nice_top(n, 1024) for n in (1023, 1025, 70 * 1024)] == [1500, 1536, 80 * 1024]


def test_charts_hold_their_values() -> None:
    """The tallest bar reaches as far as its share of the scale; nothing leaves the drawing."""
    drawn = bars(
        [Bar("a", (("op append", 4.0), ("op delete", 4.0)), "a: 8"), Bar("b", (("op append", 0.0),), "b")],
        in_short,
        "x",
    )
    rects = [dict(re.findall(r'(\w+)="([\d.]+)"', r)) for r in re.findall(r"<rect[^>]*>", drawn)]
    assert [float(r["height"]) for r in rects] == [68, 68] and float(rects[1]["y"]) == 10
    line = steps([(0, 1), (10, 8), (20, 2)], in_short, lambda x, _: f"{x:g}", "x")
    assert "M46 146" not in line and line.count("<path") == 2 and ">20</text>" in line
    assert 'width="115"' in share(1, 4, "a quarter") and share(0, 4, "none").count("<rect") == 1
    assert share(1, 0, "of nothing").count("<rect") == 1


def test_a_line_of_many_points_is_no_longer_than_it_is_wide() -> None:
    """It reaches as high and as low, and ends where it ends."""

    def line(points: list[tuple[float, float]]) -> list[list[float]]:
        drawn = steps(points, in_short, lambda x, _: f"{x:g}", "x")
        found = re.search(r'class="line" d="M([^"]*)"', drawn)
        assert found is not None
        return [[float(n) for n in at.split()] for at in found[1].split("L")]

    few = line([(0, 1), (10, 8), (20, 2), (20, 8), (20, 2)])
    assert [y for _, y in few] == [129, 129, 10, 10, 112, 10, 112]
    many = line([(i, 500 + i % 7 - 400 * (i == 70_001) + 400 * (i == 30_001)) for i in range(100_000)])
    assert len(many) < 4_000 and many[-1][0] > 451.4
    assert [min(y for _, y in many), max(y for _, y in many)] == [22.8, 132.3], "906 and 101 of 1,000"


def test_partitions_of_two_fields_are_a_grid() -> None:
    cells = [Cell(f"a={a}/b={b}", (a, b), 10 * (a == "x"), "") for a in "xyz" for b in "123"]
    drawn = heat_map(cells, "x")
    assert drawn.count("<rect") == 9 and drawn.count('class="heat h9"') == 3 and ">y</text>" in drawn
    assert heat_map([Cell(f"a={i}", (str(i),), i, "") for i in range(1000)], "x").count("<rect") == 400
    assert heat_map([], "x").count("<rect") == 0
    of_three = [
        Cell(f"{x}{y}{z}", (str(x), str(y), str(z)), 1, "") for x in range(2) for y in range(2) for z in range(2)
    ]
    drawn = heat_map(of_three, "x")
    assert len(set(re.findall(r"<rect[^>]*>", drawn))) == 8


def test_commits_may_be_of_any_time() -> None:
    """As where a writer took microseconds for milliseconds."""
    told = {"actor": "a", "operation": "append", "message": None, "branch": "main", "parent_id": None, "bytes": None}
    times = (-(2**62), 1_700_000_000_000, 1_700_000_000_000_000)
    commits = [
        {**told, "position": i, "snapshot_id": i, "committed_ms": ms, "records": i} for i, ms in enumerate(times)
    ]
    for of in (commits, commits[1:], commits[:1]):
        drawn = {title: chart for title, _, chart in charts(TableData("t", {"snapshots": 1}, [], [], of, []))}
        assert 1 <= drawn["Commits"].count("<g>") <= 49


def test_a_branch_leaves_its_parent() -> None:
    dots = [Dot(i, i - 1, "main", "append", "") for i in range(1, 60)] + [Dot(99, 50, "b", "odd", "")]
    drawn = snapshot_graph(dots, {59: ["main"], 99: ["b", "<t>", "u"]}, "x")
    assert drawn.count("<circle") == 40 and drawn.count("<path") == 39 and "op other" in drawn
    assert ">main</text>" in drawn and "&lt;t&gt;" in drawn and ">u</text>" not in drawn
    assert min(float(y) for y in re.findall(r'<text [^>]*y="([0-9.]+)"', drawn)) >= 10, "none is cut off at the top"
