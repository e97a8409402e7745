"""Tensors out of files that `torch.save` wrote, without running what such a file may hold.

The file is a zip archive: `data.pkl` is a pickle of everything but the numbers, `data/KEY` are the
bytes of a storage. A pickle is a program that may call anything; this one may call what builds
tensors and ordered dicts, and nothing else: any other name is refused before it is looked up.

May import: NumPy, arrays, errors.
"""

import io
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import MinitorchError
from .library import Halves

STORAGES = {
    "DoubleStorage": "<f8", "FloatStorage": "<f4", "HalfStorage": "<f2", "BFloat16Storage": "<u2",
    "LongStorage": "<i8", "IntStorage": "<i4", "ShortStorage": "<i2", "CharStorage": "|i1",
    "ByteStorage": "|u1", "BoolStorage": "|b1",
}  # fmt: skip
"""Torch's kinds of storage, with NumPy's dtype of an element."""


class NotRead(MinitorchError, ValueError):
    """A file of torch's that holds more than tensors and plain data."""


@dataclass(frozen=True)
class Storage:
    """A kind of storage, until its bytes are asked for."""

    name: str


def is_torch_file(content: bytes) -> bool:
    """Tell whether these bytes are an archive that `torch.save` wrote."""
    if not content.startswith(b"PK\x03\x04"):
        return False
    try:
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    except zipfile.BadZipFile:
        return False
    return any(name.endswith("/data.pkl") for name in names)


def read(content: bytes, wrap: Callable[[np.ndarray], object]) -> object:
    """Return what `torch.save` was given, each tensor as `wrap` of its array.

    Raises:
        NotRead: the file holds something else than tensors, plain data and ordered dicts.
        ValueError, KeyError, OSError: it is damaged.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/data.pkl"))
            return _Reader(archive, name.removesuffix("data.pkl"), wrap).load()
    except (pickle.UnpicklingError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(str(error)) from error


class _Reader(pickle.Unpickler):
    def __init__(
        self, archive: zipfile.ZipFile, folder: str, wrap: Callable[[np.ndarray], object]
    ) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}data.pkl")))
        self._archive, self._folder, self._wrap = archive, folder, wrap
        self._storages: dict[str, np.ndarray] = {}

    def find_class(self, module: str, name: str) -> object:
        """Return what one of the few allowed names means."""
        if module == "torch" and name in STORAGES:
            return Storage(name)
        allowed = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch", "Size"): tuple,
            ("torch._utils", "_rebuild_tensor_v2"): self._tensor,
            ("torch._utils", "_rebuild_parameter"): _first,
        }
        if (module, name) not in allowed:
            raise NotRead(
                f"load: the file needs {module}.{name}, which could run code: only tensors, plain "
                "data and dicts are read. Save a state_dict() with torch, and load that."
            )
        return allowed[module, name]

    def persistent_load(self, key: Any) -> np.ndarray:
        """Return the numbers of a storage."""
        _, kind, name, _, count = key
        if name not in self._storages:
            data = self._archive.read(f"{self._folder}data/{name}")
            self._storages[name] = np.frombuffer(data, STORAGES[kind.name], count=count)
            if kind.name == "BFloat16Storage":
                self._storages[name] = self._storages[name].view(Halves)
        return self._storages[name]

    def _tensor(
        self,
        storage: np.ndarray,
        offset: int,
        shape: Sequence[int],
        strides: Sequence[int],
        *_: object,
    ) -> object:
        """Return the part of a storage that a tensor shows, in memory of its own."""
        shape, strides = tuple(shape), tuple(strides)
        last = offset + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
        if min((offset, *shape, *strides)) < 0 or (0 not in shape and last >= len(storage)):
            raise ValueError(f"a tensor of shape {shape} does not fit its storage")
        places = np.full(shape, offset)
        for axis, step in enumerate(strides):
            sizes = [1] * len(shape)
            sizes[axis] = shape[axis]
            places += np.arange(shape[axis]).reshape(sizes) * step
        return self._wrap(storage[places])


def _first(value: object, *_: object) -> object:
    return value
