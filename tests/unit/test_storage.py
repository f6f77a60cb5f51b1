"""Storage: whole files by location, atomic writes, exclusive creation, mappings, and errors that name the location."""

from __future__ import annotations

import datetime as dt
import os
import threading
from pathlib import Path
from typing import Any

import pyarrow.fs
import pytest

from icecore.engine.common.location import LocationMapping, local_path, to_uri
from icecore.engine.errors import FileExistsInStorageError, IcecoreError, MissingFileError, ReadOnlyError, StorageError
from icecore.engine.storage.atomic_write import put_text
from icecore.engine.storage.file_io import GCS_PATIENCE_S, Storage, translated
from icecore.engine.storage.listing import list_folders, list_level, list_resolved


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("/a/b", "/a/b"),
        ("a/b", "a/b"),
        ("file:///a/b", "/a/b"),
        ("file:/a/b", "/a/b"),
        ("file://a", "/a"),
        ("file:////a", "/a"),
        ("/a%20b", "/a%20b"),
        ("file:///a%20b c#d?e", "/a%20b c#d?e"),
        ("s3://b/k", None),
        ("hdfs://h:1/p", None),
    ],
)
def test_local_paths(location: str, path: str | None) -> None:
    """Local locations give their path as it is written, percent signs and all; others give none."""
    assert local_path(location) == path


def test_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path becomes an absolute file URI; what has a scheme stays."""
    monkeypatch.chdir(tmp_path)
    assert to_uri("a b") == f"file://{tmp_path}/a b"
    assert to_uri(tmp_path) == f"file://{tmp_path}"
    assert to_uri("/a/../b") == "file:///b"
    assert to_uri("s3://b/k") == "s3://b/k"
    assert to_uri("file:/a") == "file:///a"


def test_mappings_replace_whole_segments_longest_first() -> None:
    """`/a` maps `/a/x`, never `/ab`; of two prefixes the longer counts."""
    mapping = LocationMapping.of({"s3://b/a/": "/one", "s3://b/a/deep": "/two/", "s3://b/ab": "/three"})
    assert mapping.resolve("s3://b/a/x") == "/one/x"
    assert mapping.resolve("s3://b/a") == "/one"
    assert mapping.resolve("s3://b/a/deep/x") == "/two/x"
    assert mapping.resolve("s3://b/a/deeper") == "/one/deeper"
    assert mapping.resolve("s3://b/ab/x") == "/three/x"
    assert mapping.resolve("s3://b/abc") == "s3://b/abc"
    assert LocationMapping.of(mapping.to_dict()) == mapping
    assert LocationMapping.of(None).resolve("/a") == "/a"


def test_mappings_stand_for_other_spellings() -> None:
    """Impala's deletes name `hdfs://host/a/x` what its manifests name `/a/x`; Dremio writes both `file:/a` and `/a`."""
    mapping = LocationMapping.of({"/a": "/new", "s3a://b": "/bucket", "./c": "/rel", "hdfs://n:1/d": "/hadoop"})
    for one in ("/a/x", "file:/a/x", "file:///a/x", "hdfs://n:1/a/x", "hdfs://m/a/x"):
        assert mapping.resolve(one) == "/new/x", one
    assert mapping.resolve("s3://b/x") == mapping.resolve("s3n://b/x") == "/bucket/x"
    assert mapping.resolve("c/x") == "/rel/x"
    assert mapping.resolve("/d/x") == mapping.resolve("hdfs://n:1/d/x") == "/hadoop/x"
    for other in ("s3://a/x", "/ab", "gs://b/x", "hdfs://n:1/ab/x", "hdfs://a/x", "hdfs://other/d/x", "file:/d/x"):
        assert mapping.resolve(other) == other
    nested = LocationMapping.of({"hdfs://a.long.name:8020/a": "/one", "/a/b": "/two"})
    assert {nested.resolve(f"{p}/a/b/f") for p in ("", "file:", "hdfs://nn2")} == {"/two/f"}


def test_s3a_is_read_as_s3(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow knows no s3a, which is what Hadoop's engines write."""
    asked = []

    class FileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[object, str]:
            asked.append(uri)
            return None, ""

    monkeypatch.setattr("pyarrow.fs.FileSystem", FileSystem)
    assert Storage().file_system("s3a://bucket/k")[1] == "bucket/k"
    assert asked == ["s3://bucket/k"]


def test_a_file_comes_back_through_a_mapping(tmp_path: Path) -> None:
    """All calls resolve the mapping; errors name the location that was asked for."""
    storage = Storage(LocationMapping.of({"s3://bucket": str(tmp_path)}))
    storage.write_atomic("s3://bucket/deep/er/f", b"abc")
    assert (tmp_path / "deep/er/f").read_bytes() == b"abc"
    assert storage.read_bytes("s3://bucket/deep/er/f") == b"abc"
    assert storage.size("s3://bucket/deep/er/f") == 3
    assert storage.exists("s3://bucket/deep/er/f") and not storage.exists("s3://bucket/none")
    assert storage.list("s3://bucket/deep/er") == ["f"]
    assert storage.list("s3://bucket/none") == []
    assert storage.open_input("s3://bucket/deep/er/f").read() == b"abc"
    with storage.open_output("s3://bucket/new/g") as stream:
        stream.write(b"x")
    storage.sync("s3://bucket/new/g")
    storage.delete("s3://bucket/deep/er/f")
    storage.delete("s3://bucket/deep/er/f")
    with pytest.raises(MissingFileError, match="s3://bucket/deep/er/f"):
        storage.read_bytes("s3://bucket/deep/er/f")


@pytest.mark.parametrize("call", ["read_bytes", "open_input", "size", "sync"])
def test_a_missing_file_is_named(tmp_path: Path, call: str) -> None:
    """Whatever is done with a file that is not there, the error is ours, and a FileNotFoundError too."""
    with pytest.raises(MissingFileError, match="none") as caught:
        getattr(Storage(), call)(str(tmp_path / "none"))
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, IcecoreError)


def test_an_empty_file_is_read(tmp_path: Path) -> None:
    """A file of no bytes can be opened, which a memory map alone can't."""
    (tmp_path / "e").touch()
    assert Storage().read_bytes(str(tmp_path / "e")) == b""
    assert Storage().open_input(str(tmp_path / "e")).read() == b""


def test_create_is_exclusive(tmp_path: Path) -> None:
    """A second creation fails, and the first file stays as it is."""
    path = str(tmp_path / "f")
    Storage().create(path, b"first")
    with pytest.raises(FileExistsInStorageError, match="f"):
        Storage().create(path, b"second")
    assert Storage().read_bytes(path) == b"first"
    assert os.listdir(tmp_path) == ["f"]


def test_what_was_written_for_nothing_goes_with_the_folders_that_were_made_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with those that were there, or hold something else; who writes into one just then makes it again."""
    storage = Storage()
    for location in ("data/b=1/f", "data/b=2/f", "data/b=2/kept"):
        storage.write_atomic(str(tmp_path / location), b"x")
    storage.unwrite(str(tmp_path / "data/b=1/f"))
    storage.unwrite(str(tmp_path / "data/b=2/f"))
    assert sorted(p.name for p in (tmp_path / "data").rglob("*")) == ["b=2", "kept"]
    Storage().unwrite(str(tmp_path / "data/b=2/kept"))
    assert (tmp_path / "data/b=2").is_dir(), "another made it"
    storage.make_folder(str(tmp_path / "asked" / "for"))
    storage.write_atomic(str(tmp_path / "asked" / "for" / "b=1" / "f"), b"x")
    storage.unwrite(str(tmp_path / "asked" / "for" / "b=1" / "f"))
    assert os.listdir(tmp_path / "asked") == ["for"] and os.listdir(tmp_path / "asked" / "for") == []
    lost: list[str] = []

    class Losing(Storage):
        def _make_folder(self, path: str) -> None:
            super()._make_folder(path)
            if path.endswith("lost") and len(lost) < 2:
                lost.append(path)
                os.rmdir(path)

    there = str(tmp_path / "lost" / "f")
    for write in (
        lambda: Losing().write_atomic(there, b"x"),
        lambda: Losing().create(there, b"x"),
        lambda: Losing().open_output(there).close(),
    ):
        write()
        assert os.path.exists(there) and len(lost) == 2
        lost.clear()
        os.unlink(there)
    mkdir = os.mkdir

    def losing_above(path: str) -> None:
        if path.endswith("b=1") and not lost:
            lost.append(path)
            os.rmdir(os.path.dirname(path))
        mkdir(path)

    monkeypatch.setattr(os, "mkdir", losing_above)
    Storage().create(str(tmp_path / "above" / "b=1" / "f"), b"x")
    assert lost and (tmp_path / "above" / "b=1" / "f").exists()


def test_of_many_creators_one_wins(tmp_path: Path) -> None:
    """Threads that create one file at once: one succeeds, and the file is wholly its."""
    path, won = str(tmp_path / "f"), []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        try:
            Storage().create(path, bytes([number]) * 10_000)
            won.append(number)
        except FileExistsInStorageError:
            pass

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(won) == 1
    assert Storage().read_bytes(path) == bytes(won) * 10_000
    assert os.listdir(tmp_path) == ["f"]


def test_readers_see_the_old_or_the_new_content(tmp_path: Path) -> None:
    """While a file is replaced again and again, every read gives one whole content."""
    path, stop = str(tmp_path / "f"), threading.Event()
    storage = Storage(durable=False)
    storage.write_atomic(path, b"a" * 50_000)

    def write() -> None:
        while not stop.is_set():
            for letter in (b"a", b"b"):
                storage.write_atomic(path, letter * 50_000)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(300):
            data = storage.read_bytes(path)
            assert data in (b"a" * 50_000, b"b" * 50_000)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("failing", ["write", "fsync", "replace"])
def test_a_write_that_fails_leaves_the_old_file_and_no_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    """An error at any step of an atomic write keeps the old content, and no temporary file stays."""
    path = str(tmp_path / "f")
    Storage().write_atomic(path, b"old")

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    class FullFile:
        def __init__(self, name: str, mode: str) -> None:
            self.file = Path(name).open(mode)  # noqa: SIM115 - closed on exit

        def __enter__(self) -> FullFile:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def fileno(self) -> int:
            return self.file.fileno()

        write = full

    with monkeypatch.context() as patch, pytest.raises(StorageError, match=r"write .*f: No space left"):
        if failing == "write":
            patch.setattr("icecore.engine.storage.atomic_write.open", FullFile, raising=False)
        else:
            patch.setattr(os, failing, full)
        Storage().write_atomic(path, b"new")
    assert Path(path).read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["f"]


def test_long_names_can_be_written(tmp_path: Path) -> None:
    """The temporary file's name fits where the file's own name just does."""
    path = str(tmp_path / ("n" * 255))
    Storage().write_atomic(path, b"x")
    assert Storage().read_bytes(path) == b"x"


def test_a_name_that_is_too_long_is_an_error_of_ours(tmp_path: Path) -> None:
    """What the operating system refuses names the location."""
    with pytest.raises(StorageError, match="nnn"):
        Storage().write_atomic(str(tmp_path / ("n" * 256)), b"x")
    with pytest.raises(StorageError, match="nnn"):
        Storage().exists(str(tmp_path / ("n" * 256)))


@pytest.mark.parametrize("call", ["read_bytes", "open_input", "size", "exists", "list", "delete"])
@pytest.mark.parametrize("location", ["nosuch://a/b", "s4://", "://", "gibberish://"])
def test_unknown_schemes_are_errors_of_ours(call: str, location: str) -> None:
    """A scheme without a file system names the location, in any call."""
    with pytest.raises(StorageError) as caught:
        getattr(Storage(), call)(location)
    assert location in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    """Reading a folder as a file is an error of ours."""
    for call in ("read_bytes", "open_input"):
        with pytest.raises(StorageError, match=str(tmp_path)):
            getattr(Storage(), call)(str(tmp_path))


@pytest.mark.parametrize(
    ("number", "expected"), [(30, ReadOnlyError), (13, ReadOnlyError), (1, ReadOnlyError), (28, StorageError)]
)
def test_errors_of_the_system_are_translated(number: int, expected: type[Exception]) -> None:
    """EROFS, EACCES and EPERM mean read-only; others are storage errors; all name what was being done."""
    with pytest.raises(expected, match=r"can't write /x") as caught, translated("/x", "write"):
        raise OSError(number, os.strerror(number))
    assert type(caught.value) is expected


@pytest.mark.parametrize("scheme", ["file", "s3"])
def test_levels_and_what_is_below_them_are_all_files(tmp_path: Path, scheme: str) -> None:
    """Of a local folder and of a bucket; hidden names are passed over at each level."""
    for name in ("b/t/x", "b/t/data/k=a%20b/y", "b/t/data/.h/z", "b/t/metadata/m", "b/t/.z", "b/u/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"four")
    bucket = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    storage = Storage(filesystems={"s3://b": bucket})
    folder = "s3://b/t" if scheme == "s3" else str(tmp_path / "b/t")
    folders, files = list_level(storage, folder, lambda name: name.startswith("."))
    assert [f.rsplit("/", 1)[-1] for f in sorted(folders)] == ["data", "metadata"]
    assert [f.location.rsplit("/", 1)[-1] for f in files] == ["x"]
    files += [f for below in folders for f in list_resolved(storage, below, lambda name: name.startswith("."))]
    whole = list_folders(storage, [folder], lambda name: name.startswith("."))
    assert sorted(files, key=lambda f: f.location) == sorted(whole, key=lambda f: f.location) and len(files) == 3


@pytest.mark.parametrize("scheme", ["gs", "gcs"])
def test_google_s_client_gives_up_in_time(scheme: str) -> None:
    """It would try for a quarter of an hour to reach a service that nobody can; the path stays as it is."""
    client, path = Storage().file_system(f"{scheme}://bucket/a/b")
    _, (settings,) = client.__reduce__()
    assert path == "bucket/a/b" and settings["retry_time_limit"] == dt.timedelta(seconds=GCS_PATIENCE_S)


def test_a_text_goes_where_a_link_leads_and_a_device_stays_one(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "text")
    for text in ("old", "new"):
        put_text(tmp_path / "link", text)
        assert (tmp_path / "text").read_text() == text and (tmp_path / "link").is_symlink()
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    put_text(tmp_path / "pipe", "x")
    read, write = os.pipe()
    put_text(f"/dev/fd/{write}", "of a shell")
    assert os.read(read, 100) == b"of a shell"
    for end in (read, write):
        os.close(end)
    assert os.read(reader, 9) == b"x" and (tmp_path / "pipe").is_fifo()
    os.close(reader)
    with pytest.raises(FileNotFoundError):
        put_text(tmp_path / "none" / "text", "x")
