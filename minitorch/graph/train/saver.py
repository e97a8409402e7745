"""Saver: the variables of a session in a file, and back; `train.Saver` by TensorFlow's name.

A file is a safetensors file with an array for each variable's name (`minitorch.serialize`), so it
holds data and nothing that runs, and other programs can read it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError
from ..defaults import global_variables
from ..node import Node, UnknownShape
from ..refusing import refuse
from ..session import Session
from ..spaces.absent import Named, no_attribute
from ..state import Variable
from ..static_shape import agree

SUFFIX = ".safetensors"
INDEX = "checkpoint"  # beside the files: their names, newest last
HOUR_S = 3600.0
Path_ = str | os.PathLike[str]


class SaverDef:
    """TensorFlow's formats of a file, for `write_version`: here there is one."""

    LEGACY, V1, V2 = 0, 1, 2


class Saver(metaclass=Named):
    """Saves and restores variables.

    Args:
        var_list: the variables, or a dict of them by the names they have in the file; all of the
            default graph unless given.
        reshape: give an array of the file the shape that its variable has now, where it has as
            many elements.
        max_to_keep: how many of the files it has written it leaves; 0 or None for all.
        keep_checkpoint_every_n_hours: beyond those, leave one file of each so many hours.
        defer_build: find the variables when they are first needed, or at `build()`.
        allow_empty: take a graph without a variable.
        pad_step_number: write the step with 8 digits, so that files sort by it.
        sharded, name, restore_sequentially, write_version, save_relative_paths: taken for
            TensorFlow's sake; one file holds all, in one format, and its list holds bare names.
    Raises:
        GraphError: there is no variable, or two have one name; or `saver_def`, `builder` or
            `filename` is asked for.
    """

    known_as = "minitorch.graph.train.Saver"

    def __init__(
        self,
        var_list: Iterable[Variable] | Mapping[str, Variable] | None = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: Any = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        refuse("Saver", "saver_def", saver_def, "Build the graph in Python, and give var_list.")
        refuse("Saver", "builder", builder, "A Saver writes the one format of minitorch.save.")
        refuse("Saver", "filename", filename, "Give save and restore the path.")
        if write_version not in (SaverDef.LEGACY, SaverDef.V1, SaverDef.V2):
            raise GraphError(f"Saver: got write_version {write_version!r}, expected a SaverDef's.")
        self.max_to_keep, self.reshape, self.allow_empty = max_to_keep, reshape, allow_empty
        self.pad_step_number = pad_step_number
        self._hours, self._given = keep_checkpoint_every_n_hours, var_list
        self._keep_after_s = time.time() + self._hours * HOUR_S
        self._written: dict[str, float] = {}
        self._variables: dict[str, Variable] | None = None
        if not defer_build:
            self.build()

    def build(self) -> None:
        """Find the variables, where `defer_build` put that off.

        Raises:
            GraphError: there is none, or two have one name.
        """
        self._variables = _by_name(global_variables() if self._given is None else self._given)
        if not self._variables and not self.allow_empty:
            raise GraphError("Saver: there is no variable to save. Build one first.")

    @property
    def variables(self) -> dict[str, Variable]:
        """The variables by their names in the file."""
        if self._variables is None:
            self.build()
        return self._variables or {}

    @property
    def last_checkpoints(self) -> list[str]:
        """The files that it has written and counts, the newest last."""
        return list(self._written)

    def set_last_checkpoints(self, last_checkpoints: Iterable[str]) -> None:
        """Count these files as its own, the newest last, as if they were written now."""
        now_s = time.time()
        self._written = {str(path): now_s for path in last_checkpoints}

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: Iterable[tuple[str, float]]
    ) -> None:
        """Count these (file, seconds since 1970) as its own, the newest last."""
        self._written = {str(path): float(at_s) for path, at_s in last_checkpoints_with_time}

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Count those of these files that are there as its own, by when they were written."""
        found = [(path, _path(path, None)) for path in checkpoint_paths]
        there = [(name, path.stat().st_mtime) for name, path in found if path.is_file()]
        self.set_last_checkpoints_with_time(there)

    def __getattr__(self, name: str) -> Any:
        """Raise for a method that is not here, and say what to use."""
        raise no_attribute(self.known_as, name)

    def save(
        self,
        sess: Session,
        save_path: Path_,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str:
        """Write the variables' values, all or nothing; return the path of the file.

        Args:
            save_path: where to; `.safetensors` is added if it is not there.
            global_step: a number, or a variable that holds one, to put into the name.
            latest_filename: what the list of files beside them is called, "checkpoint" unless
                given.
            write_state: whether to note the file in that list.
            meta_graph_suffix, write_meta_graph, strip_default_attrs, save_debug_info: taken for
                TensorFlow's sake; they are about the graph, which is code here.
        Raises:
            GraphError: a variable has no value yet; names it. Or the step is no whole number.
        """
        from ...serialize import save

        values = sess.run(dict(self.variables))
        step = _step(sess, global_step)
        digits = f"{step:08d}" if self.pad_step_number and step is not None else step
        path = _path(save_path, digits)
        if sess.writes_files:
            save({name: np.asarray(value) for name, value in values.items()}, path)
            self._remember(path, (latest_filename or INDEX) if write_state else None)
        return str(path)

    def restore(self, sess: Session, save_path: Path_) -> None:
        """Set every variable to what the file has under its name; nothing unless all fit.

        Raises:
            FileNotFoundError: there is no such file.
            DamagedFile: it is not what `save` wrote.
            GraphError: variables are missing in it, or have another shape or dtype; names all.
        """
        from ...serialize import load

        path = _path(save_path, None)
        found = load(path)
        arrays = {name: np.asarray(value) for name, value in found.items()} if _flat(found) else {}
        if self.reshape:
            arrays = {
                name: _reshaped(array, self.variables.get(name)) for name, array in arrays.items()
            }
        wrong = [
            complaint
            for name, variable in self.variables.items()
            if (complaint := _complaint(name, variable, arrays))
        ]
        if wrong:
            raise GraphError(
                f"restore: {str(path)!r} does not fit the graph: {'; '.join(wrong)}. Nothing was "
                "restored. Build the variables as they were saved, or give var_list."
            )
        for name, variable in self.variables.items():
            sess.load(variable, arrays[name])

    def _remember(self, path: Path, index: str | None) -> None:
        """Note a file in the index beside it, and remove the oldest beyond `max_to_keep`."""
        name, kept = str(path), self._written
        kept.pop(name, None)
        kept[name] = time.time()
        while self.max_to_keep and len(kept) > self.max_to_keep:
            oldest = next(iter(kept))
            if kept.pop(oldest) > self._keep_after_s:
                self._keep_after_s += self._hours * HOUR_S
            else:
                _path(oldest, None).unlink(missing_ok=True)
        names = [Path(p).name for p in self.last_checkpoints if Path(p).parent == path.parent]
        if index is not None:
            (path.parent / index).write_text(json.dumps(names))


class CheckpointState(NamedTuple):
    """The files that a `Saver` left in a directory, the newest last."""

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]


def get_checkpoint_state(
    checkpoint_dir: Path_, latest_filename: str | None = None
) -> CheckpointState | None:
    """Return what checkpoints a directory has, or None if there is none."""
    found = _present(checkpoint_dir, latest_filename)
    return CheckpointState(found[-1], found) if found else None


def checkpoint_exists(checkpoint_prefix: Path_) -> bool:
    """Tell whether there is a file of that name, with or without its suffix."""
    return _path(checkpoint_prefix, None).is_file()


def latest_checkpoint(checkpoint_dir: Path_, latest_filename: str | None = None) -> str | None:
    """Return the path of the file that a `Saver` wrote last in a directory, or None."""
    return next(reversed(_present(checkpoint_dir, latest_filename)), None)


def _present(checkpoint_dir: Path_, latest_filename: str | None) -> list[str]:
    index = Path(checkpoint_dir) / (latest_filename or INDEX)
    try:
        names = json.loads(index.read_text()) if index.is_file() else []
    except ValueError as error:
        raise GraphError(
            f"latest_checkpoint: {str(index)!r} is no list of files that a Saver wrote ({error}). "
            "Give restore the path of a file."
        ) from error
    return [str(path) for name in names if (path := Path(checkpoint_dir) / name).is_file()]


def _by_name(found: Iterable[Variable] | Mapping[str, Variable]) -> dict[str, Variable]:
    if isinstance(found, Mapping):
        pairs = list(found.items())
    else:
        pairs = [(getattr(v, "name", ""), v) for v in found]
    variables: dict[str, Variable] = {}
    for name, variable in pairs:
        if not isinstance(variable, Variable):
            raise GraphError(f"Saver: got {type(variable).__name__}, expected variables.")
        if not isinstance(name, str):
            raise GraphError(f"Saver: got {name!r} for a name in the file, expected a string.")
        if name in variables:
            raise GraphError(f"Saver: two variables are called {name!r}. Give a dict of names.")
        variables[name] = variable
    return variables


def _path(path: Path_, step: int | str | None) -> Path:
    if path is None:
        raise GraphError(
            "Saver: got None for a path, which is what latest_checkpoint gives where there is no "
            "checkpoint. Check the directory, or save first."
        )
    text = os.fspath(path)
    stem = text.removesuffix(SUFFIX)
    return Path(f"{stem}{SUFFIX}" if step is None else f"{stem}-{step}{SUFFIX}")


def _step(sess: Session, global_step: Any) -> int | None:
    if global_step is None:
        return None
    value = sess.run(global_step) if isinstance(global_step, Node) else global_step
    found = np.asarray(value)
    if found.dtype.kind not in "iu" or found.size != 1:
        raise GraphError(
            f"save: got global_step {value!r}, expected a whole number, or a node that is one."
        )
    return int(found.reshape(()))


def _flat(found: Any) -> bool:
    return isinstance(found, dict) and all(hasattr(value, "dtype") for value in found.values())


def _reshaped(array: Any, variable: Variable | None) -> Any:
    """Return the array in the shape of its variable, where it has as many elements."""
    shape = None if variable is None else variable.shape
    if shape is None or isinstance(shape, UnknownShape) or shape.num_elements() != array.size:
        return array
    return array.reshape(tuple(shape))


def _complaint(name: str, variable: Variable, arrays: Mapping[str, Any]) -> str | None:
    """Return what is wrong with what the file has for a variable, if anything is."""
    where = f"variable {variable.name!r} built at {variable.location}"
    if name not in arrays:
        return f"{name!r} is missing ({where})"
    got = arrays[name]
    if got.dtype != variable.dtype:
        return f"{name!r} has dtype {got.dtype}, expected {variable.dtype} ({where})"
    if agree(got.shape, variable.shape):
        return None
    return f"{name!r} has shape {got.shape}, expected {tuple(variable.shape)} ({where})"
