"""Files that a `Saver` wrote, read without a session: their names, shapes and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import GraphError
from ..defaults import global_variables
from ..dtypes import DType, as_dtype
from ..state import Variable, assign
from ..static_shape import agree
from .saver import Path_, _path, latest_checkpoint


class NewCheckpointReader:
    """The arrays of a file by the names of their variables; `train.load_checkpoint` makes one."""

    def __init__(self, filepattern: Path_) -> None:
        from ...serialize import load

        self.path = _path(filepattern, None)
        self._arrays = {name: np.asarray(value) for name, value in load(self.path).items()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Tell whether the file has an array of that name."""
        return _bare(tensor_str) in self._arrays

    def get_tensor(self, tensor_str: str) -> Any:
        """Return the array of that name.

        Raises:
            GraphError: there is none; names those there are.
        """
        name = _bare(tensor_str)
        if name not in self._arrays:
            raise GraphError(
                f"load_variable: {str(self.path)!r} has no {name!r}, expected one of "
                f"{', '.join(sorted(self._arrays))}."
            )
        return self._arrays[name]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """Return the shape of each array."""
        return {name: list(array.shape) for name, array in self._arrays.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """Return the dtype of each array."""
        return {name: as_dtype(array.dtype) for name, array in self._arrays.items()}


def _bare(name: str) -> str:
    return name.removesuffix(":0")


def load_checkpoint(ckpt_dir_or_file: Path_) -> NewCheckpointReader:
    """Return a reader of a file, or of the newest one of a directory.

    Raises:
        GraphError: the directory has none.
    """
    if not _path(ckpt_dir_or_file, None).is_file():
        newest = latest_checkpoint(ckpt_dir_or_file)
        if newest is None:
            raise GraphError(f"load_checkpoint: there is no checkpoint in {ckpt_dir_or_file!s}.")
        return NewCheckpointReader(newest)
    return NewCheckpointReader(ckpt_dir_or_file)


def load_variable(ckpt_dir_or_file: Path_, name: str) -> Any:
    """Return one array of a file, or of the newest one of a directory."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name)


def list_variables(ckpt_dir_or_file: Path_) -> list[tuple[str, list[int]]]:
    """Return (name, shape) of all arrays of a file, sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def init_from_checkpoint(ckpt_dir_or_file: Path_, assignment_map: Mapping[str, Any]) -> None:
    """Let variables of the default graph start from arrays of a file.

    Args:
        assignment_map: for names in the file the variable, or its name; a scope with a "/" at its
            end stands for all names in it.
    Raises:
        GraphError: a name is not in the file or the graph, or a shape or dtype differs.
    """
    reader = load_checkpoint(ckpt_dir_or_file)
    for there, here in assignment_map.items():
        for name, variable in _pairs(reader, there, here):
            array = reader.get_tensor(name)
            if not agree(array.shape, variable.shape) or array.dtype != variable.dtype:
                raise GraphError(
                    f"init_from_checkpoint: {name!r} is {array.dtype} {array.shape}, expected "
                    f"{variable.dtype} {tuple(variable.shape)} for variable {variable.name!r} "
                    f"(built at {variable.location})."
                )
            with variable.graph.as_default():
                variable.initializer = assign(variable, np.asarray(array))


def _pairs(reader: NewCheckpointReader, there: str, here: Any) -> list[tuple[str, Variable]]:
    """Return (name in the file, variable) for one entry of an assignment map."""
    if isinstance(here, Variable):
        return [(_bare(there), here)]
    known = {v.name: v for v in global_variables()}
    if not there.endswith("/"):
        if _bare(here) not in known:
            raise GraphError(f"init_from_checkpoint: the graph has no variable {here!r}.")
        return [(_bare(there), known[_bare(here)])]
    outer, inner = there.removeprefix("/"), "" if here == "/" else here
    found = [(outer + n[len(inner) :], v) for n, v in known.items() if n.startswith(inner)]
    if not found:
        raise GraphError(f"init_from_checkpoint: the graph has no variable in scope {here!r}.")
    return found
