"""Where rounds take place: a warehouse that can be put back as it was."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

from attrs import define, field

from .children import FAILED, Say, in_child
from .model import Model
from .operations import Setting, set_up

MODEL = "model.pickle"


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

    @property
    def _aside(self) -> Path:
        return self.root / "aside"

    def start(self, setting: Setting, then: Callable[[str, Model], Model] | None = None) -> Model:
        """A new warehouse of that kind to which more was done, and what it holds; made once for all at this place."""
        shutil.rmtree(self.root, ignore_errors=True)
        made = self.root.with_name(", ".join([self.root.name, str(setting), *([then.__name__] if then else [])]))
        if not (made / MODEL).exists():
            self._make(setting, then, made)
        shutil.copytree(made / "warehouse", self.folder, symlinks=True)
        self.model = pickle.loads((made / MODEL).read_bytes())
        self.keep()
        return self.model

    def _make(self, setting: Setting, then: Callable[[str, Model], Model] | None, made: Path) -> None:
        self.root.mkdir(parents=True)

        def work(say: Say) -> None:
            model = set_up(self.folder, setting)
            say("model", then(self.folder, model) if then else model)

        outcome = in_child(work)
        if outcome.get("model") is None:
            raise RuntimeError(f"no warehouse could be made: {outcome.get(FAILED)}")
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        Path(self.folder).rename(made / "warehouse")
        (made / MODEL).write_bytes(pickle.dumps(outcome.get("model")))

    def keep(self) -> None:
        """Notes how the warehouse is now."""
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(self.folder, self._kept, symlinks=True)

    def put_back(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self._kept, self.folder, symlinks=True)

    def set_aside(self) -> Path:
        """Moves what happened to the warehouse, and what was made beside it, out of the way of the next round."""
        place = self._aside / str(len(os.listdir(self._aside)) if self._aside.exists() else 0)
        place.mkdir(parents=True)
        for path in self.root.iterdir():
            if path not in (self._kept, self._aside):
                path.rename(place / path.name)
        return place

    def bring_back(self, place: Path) -> None:
        """Undoes `set_aside`: all is where it was."""
        for path in self.root.iterdir():
            if path not in (self._kept, self._aside):
                shutil.rmtree(path)
        for path in place.iterdir():
            path.rename(self.root / path.name)

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
