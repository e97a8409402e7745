"""Saver: the variables of a session in a file, and back; `train.Saver` by TensorFlow's name.

A file is a safetensors file with an array for each variable's name (`minitorch.serialize`), so it
holds data and nothing that runs, and other programs can read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...errors import GraphError
from ..defaults import global_variables
from ..node import Node, UnknownShape
from ..session import Session
from ..state import Variable
from ..static_shape import agree

SUFFIX = ".safetensors"
INDEX = "checkpoint"  # beside the files: their names, newest last
Path_ = str | os.PathLike[str]


class Saver:
    """Saves and restores variables.

    Args:
        var_list: the variables, or a dict of them by the names they have in the file; all of the
            default graph unless given.
        max_to_keep: how many of the files it has written it leaves; 0 or None for all.
        reshape: give an array of the file the shape that its variable has now, where it has as
            many elements.
        sharded, keep_checkpoint_every_n_hours, name: taken for TensorFlow's sake; no effect.
    Raises:
        GraphError: there is no variable, or two have one name.
    """

    def __init__(
        self,
        var_list: Iterable[Variable] | Mapping[str, Variable] | None = None,
        max_to_keep: int | None = 5,
        reshape: bool = False,
        sharded: bool = False,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
    ) -> None:
        found = global_variables() if var_list is None else var_list
        self.variables = _by_name(found)
        if not self.variables:
            raise GraphError("Saver: there is no variable to save. Build one first.")
        self.max_to_keep, self.reshape = max_to_keep, reshape
        self.last_checkpoints: list[str] = []

    def save(
        self,
        sess: Session,
        save_path: Path_,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
    ) -> str:
        """Write the variables' values, all or nothing; return the path of the file.

        Args:
            save_path: where to; `.safetensors` is added if it is not there.
            global_step: a number, or a variable that holds one, to put into the name.
            latest_filename: what the list of files beside them is called, "checkpoint" unless
                given.
            write_state: whether to note the file in that list.
            meta_graph_suffix, write_meta_graph: taken for TensorFlow's sake; no effect.
        Raises:
            GraphError: a variable has no value yet; names it.
        """
        from ...serialize import save

        values = sess.run(dict(self.variables))
        path = _path(save_path, _step(sess, global_step))
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
        arrays = {name: value.numpy() for name, value in found.items()} if _flat(found) else {}
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
        name = str(path)
        self.last_checkpoints = [p for p in self.last_checkpoints if p != name] + [name]
        while self.max_to_keep and len(self.last_checkpoints) > self.max_to_keep:
            Path(self.last_checkpoints.pop(0)).unlink(missing_ok=True)
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


def _path(path: Path_, step: int | None) -> Path:
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
    return int(sess.run(global_step) if isinstance(global_step, Node) else global_step)


def _flat(found: Any) -> bool:
    return isinstance(found, dict) and all(hasattr(value, "numpy") for value in found.values())


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
