"""Many values from columns are the values made one by one."""

from __future__ import annotations

import gc
import pickle
import threading

import attrs
import pytest
from attrs import define, field, frozen

from icecore.engine.common.bulk_attrs import build_attrs, gc_paused
from icecore.engine.data.scan_task import FileScanTask
from icecore.engine.expression.nodes import TRUE
from icecore.engine.spec.content_file import ContentFile, DataFileContent, FileFormat


def one(i: int) -> ContentFile:
    return ContentFile(DataFileContent.DATA, f"f{i}", FileFormat.ORC, 0, (i,), i, 2 * i, split_offsets=(4,))


def test_values_are_those_of_the_class() -> None:
    """Equal, as hashable, as frozen, and as they are pickled; what has no column has its default."""
    files = build_attrs(
        ContentFile,
        3,
        {
            "content": [DataFileContent.DATA] * 3,
            "file_path": [f"f{i}" for i in range(3)],
            "file_format": iter([FileFormat.ORC] * 3),
            "spec_id": [0, 0, 0],
            "partition": [(0,), (1,), (2,)],
            "record_count": range(3),
            "file_size_in_bytes": range(0, 6, 2),
            "split_offsets": [(4,)] * 3,
        },
    )
    assert files == [one(i) for i in range(3)]
    assert [hash(f) for f in files] == [hash(one(i)) for i in range(3)]
    assert pickle.loads(pickle.dumps(files)) == files and repr(files[0]) == repr(one(0))
    with pytest.raises(AttributeError):
        files[0].file_path = "g"  # type: ignore[misc]
    assert build_attrs(FileScanTask, 0, {n: [] for n in attrs.fields_dict(FileScanTask)}) == []


def test_what_cannot_be_made_from_columns_is_refused() -> None:
    @frozen
    class Checked:
        x: int = field(validator=lambda *_: None)

    @frozen
    class Filled:
        x: list[int] = field(factory=list)

    @define
    class Hooked:
        x: int

        def __attrs_post_init__(self) -> None:
            self.x += 1

    for cls in (Checked, Filled, Hooked):
        with pytest.raises(TypeError, match=cls.__name__):
            build_attrs(cls, 1, {"x": [1]})
    with pytest.raises(TypeError, match="needs a column 'file'"):
        build_attrs(FileScanTask, 1, {"residual": [TRUE]})
    whole: dict[str, list[object]] = {n: [0, 0] for n in attrs.fields_dict(FileScanTask)}
    with pytest.raises(ValueError, match="length"):
        build_attrs(FileScanTask, 2, {**whole, "length": [1]})
    with pytest.raises(TypeError, match="nothing"):
        build_attrs(FileScanTask, 1, {"nothing": [1]})


def test_the_collector_is_on_again_after_the_last() -> None:
    """Threads may overlap, errors may come out, and where it was off before it stays off."""
    assert gc.isenabled()
    inside, out = threading.Event(), threading.Event()

    def other() -> None:
        with gc_paused():
            inside.set()
            out.wait(60)

    thread = threading.Thread(target=other)
    with pytest.raises(ZeroDivisionError), gc_paused():
        thread.start()
        assert inside.wait(60)
        1 / 0  # noqa: B018
    assert not gc.isenabled()
    out.set()
    thread.join()
    assert gc.isenabled()
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
