"""Where rounds take place: a warehouse that can be put back as it was."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from attrs import define, field

from .children import FAILED, Say, in_child
from .model import Model
from .operations import Setting, set_up


@define
class Bench:
    """One warehouse folder, and a copy of how it was. Metadata holds absolute paths, so the folder never moves."""

    root: Path
    model: Model = field(factory=Model)

    @property
    def folder(self) -> str:
        return os.fspath(self.root / "warehouse")

    @property
    def _kept(self) -> Path:
        return self.root / "kept"

    def start(self, setting: Setting) -> Model:
        """A new warehouse of that kind, and what it holds."""
        shutil.rmtree(self.root, ignore_errors=True)
        self.root.mkdir(parents=True)

        def work(say: Say) -> None:
            say("model", set_up(self.folder, setting))

        outcome = in_child(work)
        model: Model | None = outcome.get("model")
        if model is None:
            raise RuntimeError(f"no warehouse could be made: {outcome.get(FAILED)}")
        self.model = model
        self.keep()
        return model

    def keep(self) -> None:
        """Notes how the warehouse is now."""
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self.folder, self._kept, symlinks=True)

    def put_back(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._kept, self.folder, symlinks=True)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
