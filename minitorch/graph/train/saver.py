"""Saver: the variables of a session in a file, and back; the paper's user-level checkpoints.

A file is what `minitorch.serialize` writes: an array for each variable's name and nothing that
runs. A text file `checkpoint` beside the files names the newest.

Source: Abadi et al., OSDI 2016, section 4.3.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from ...arrays.library import Array
from ...errors import GraphError
from ...serialize import load, save
from ..core.session import Session
from ..core.variables import Variable, global_variables
from ..shapes.static import agree

SUFFIX = ".safetensors"
INDEX = "checkpoint"
PathLike = str | os.PathLike[str]


class Saver:
    """Saves and restores variables.

    Args:
        var_list: the variables, or a dict of them by the names they have in the file; all of the
            default graph unless given.
    """

    def __init__(self, var_list: Iterable[Variable] | Mapping[str, Variable] | None = None) -> None:
        variables = global_variables() if var_list is None else var_list
        named = variables if isinstance(variables, Mapping) else {v.name: v for v in variables}
        self.variables: dict[str, Variable] = dict(named)
        if not self.variables:
            raise GraphError("Saver: there is no variable to save. Build one first.")

    def save(
        self, sess: Session, save_path: PathLike, global_step: Variable | int | None = None
    ) -> str:
        """Write the variables' values, all or nothing; return the path of the file.

        Args:
            global_step: a number, or a variable that holds one, to put into the name.
        Raises:
            GraphError: a variable has no value yet; names it.
        """
        values = sess.run(self.variables)
        step = sess.run(global_step) if isinstance(global_step, Variable) else global_step
        path = _file(save_path if step is None else f"{os.fspath(save_path)}-{int(step)}")
        if sess.writes_files:
            save({name: np.asarray(value) for name, value in values.items()}, path)
            (path.parent / INDEX).write_text(path.name)
        return str(path)

    def restore(self, sess: Session, save_path: PathLike) -> None:
        """Set every variable to what the file has under its name; nothing unless all fit.

        Raises:
            FileNotFoundError: there is no such file.
            DamagedFile: it is not what `save` wrote.
            GraphError: variables are missing in it, or have another shape or dtype; names all.
        """
        path = _file(save_path)
        saved = load(path)
        arrays = {
            name: np.asarray(value)
            for name, value in (saved.items() if isinstance(saved, dict) else ())
            if hasattr(value, "dtype")
        }
        wrong = [_misfit(name, v, arrays.get(name)) for name, v in self.variables.items()]
        if any(wrong):
            raise GraphError(
                f"restore: {str(path)!r} does not fit the graph: {'; '.join(filter(None, wrong))}. "
                "Nothing was restored. Build the variables as they were saved, or give var_list."
            )
        for name, variable in self.variables.items():
            sess.load(variable, arrays[name])


def latest_checkpoint(checkpoint_dir: PathLike) -> str | None:
    """Return the path of the file that a `Saver` wrote last in a directory, or None."""
    index = Path(checkpoint_dir) / INDEX
    path = index.parent / index.read_text().strip() if index.is_file() else None
    return str(path) if path is not None and path.is_file() else None


def _file(path: PathLike) -> Path:
    if path is None:
        raise GraphError("Saver: got None for a path. Is there a checkpoint in the directory?")
    return Path(os.fspath(path).removesuffix(SUFFIX) + SUFFIX)


def _misfit(name: str, variable: Variable, array: Array | None) -> str:
    """Return what is wrong with what the file has for a variable, "" where nothing is."""
    where = f"variable {variable.name!r} built at {variable.location}"
    if array is None:
        return f"{name!r} is missing ({where})"
    if array.dtype != variable.dtype:
        return f"{name!r} has dtype {array.dtype}, expected {variable.dtype} ({where})"
    if not agree(array.shape, variable.shape):
        return f"{name!r} has shape {array.shape}, expected {tuple(variable.shape)} ({where})"
    return ""
