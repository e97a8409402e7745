"""Save and load tensors, and nested dicts and lists of them, in safetensors files.

A file is an 8-byte length, a JSON header and the raw bytes of every array: it holds data
and nothing that runs, so a file from a stranger is safe to open. Nothing here unpickles.
What is not a tensor (the nesting, step counts, learning rates) is JSON in the header, and so
is a checksum of every array. A flat state dict can be read by any other safetensors reader.

Source: the safetensors format, https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from minitorch.errors import MinitorchError
from minitorch.extras import missing
from minitorch.tensor import Tensor, tensor

KEY = "minitorch"
VERSION = 1
PLAIN = (bool, int, float, str, type(None))


class DamagedFile(MinitorchError, ValueError):
    """A file that is not, or is no longer, what `save` wrote. `.path` names it."""

    def __init__(self, message: str, path: str) -> None:
        super().__init__(message)
        self.path = path


def save(obj: object, f: str | os.PathLike[str] | BinaryIO) -> None:
    """Write `obj` to `f`, all or nothing.

    A path is replaced only once the new file is on disk whole: a crash in the middle leaves
    the old file as it was.

    Args:
        obj: a tensor, an array, or dicts, lists and tuples of them with numbers, strings,
            booleans and None between; a `state_dict()` is such a thing.
        f: a path, or a binary file open for writing.
    Raises:
        TypeError: something in `obj` is neither a tensor nor plain data; says where.
    """
    arrays: dict[str, np.ndarray] = {}
    structure = _describe(obj, "", arrays)
    header = {
        "version": VERSION,
        "structure": structure,
        "crc32": {name: _checksum(array) for name, array in arrays.items()},
    }
    content = _package().numpy.save(arrays, metadata={KEY: json.dumps(header)})
    if isinstance(f, str | os.PathLike):
        _replace(Path(f), content)
    else:
        f.write(content)


def load(f: str | os.PathLike[str] | BinaryIO, *, map_location: str = "cpu") -> Any:
    """Return what `save` was given, its tensors on `map_location`.

    A safetensors file of another program gives a flat dict of tensors.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedFile: cut short, altered, or not a safetensors file; says which.
    """
    if isinstance(f, str | os.PathLike):
        path = os.fspath(f)
        try:
            content = Path(f).read_bytes()
        except FileNotFoundError as error:
            message = f"load: there is no file {path!r}. Check the path, or save first."
            raise FileNotFoundError(message) from error
    else:
        path, content = getattr(f, "name", "<stream>"), f.read()
    arrays, header = _open(content, str(path))
    tensors = {name: tensor(array).to(map_location) for name, array in arrays.items()}
    if header is None:
        return tensors
    try:
        return _rebuild(header["structure"], tensors)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(str(path), f"its header does not match its tensors ({error!r})") from error


def _describe(obj: object, where: str, arrays: dict[str, np.ndarray]) -> object:
    """Return `obj` as JSON, each tensor replaced by the name under which `arrays` has it."""
    if isinstance(obj, PLAIN):
        return {"float": obj.hex()} if isinstance(obj, float) else obj
    if isinstance(obj, np.generic):
        return _describe(obj.item(), where, arrays)
    if isinstance(obj, Tensor | np.ndarray):
        return {"tensor": _keep(obj, where, arrays)}
    if isinstance(obj, Mapping):
        pairs = [
            [_describe_key(key, where), _describe(value, _join(where, key), arrays)]
            for key, value in obj.items()
        ]
        return {"dict": pairs}
    if isinstance(obj, list | tuple):
        items = [_describe(value, _join(where, i), arrays) for i, value in enumerate(obj)]
        return {type(obj).__name__ if type(obj) in (list, tuple) else "tuple": items}
    raise TypeError(
        f"save: cannot store {where or 'the object'}: got {type(obj).__name__}, expected tensors, "
        "numbers, strings, or dicts and lists of them. Save a model's state_dict(), not the model."
    )


def _describe_key(key: object, where: str) -> object:
    if isinstance(key, str | int):
        return key
    raise TypeError(
        f"save: cannot store a key of {where or 'the dict'}: got {key!r}, expected str or int. "
        "Rename the key."
    )


def _keep(value: Tensor | np.ndarray, where: str, arrays: dict[str, np.ndarray]) -> str:
    array = value.detach().numpy() if isinstance(value, Tensor) else value
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"save: cannot store {where or 'the array'}: got dtype {array.dtype}, expected numbers "
            "or booleans. Convert it first."
        )
    name = base = where or "tensor"
    count = 1
    while name in arrays:
        count += 1
        name = f"{base}#{count}"
    arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
    return name


def _rebuild(structure: object, tensors: Mapping[str, Tensor]) -> object:
    if not isinstance(structure, dict):
        return structure
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "float":
        return float.fromhex(content)
    if kind == "dict":
        return {key: _rebuild(value, tensors) for key, value in content}
    items = [_rebuild(value, tensors) for value in content]
    if kind not in ("list", "tuple"):
        raise ValueError(f"unknown kind {kind!r}")
    return items if kind == "list" else tuple(items)


def _open(content: bytes, path: str) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """Return the arrays and our own header, None in a file of another program."""
    if content.startswith((b"PK\x03\x04", b"\x80")):
        raise _damaged(path, "it looks like a pickle (torch.save), which could run code if opened")
    package = _package()
    try:
        arrays = package.numpy.load(content)
        header_bytes = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + header_bytes]).get("__metadata__") or {}
        header = json.loads(metadata[KEY]) if KEY in metadata else None
    except (package.SafetensorError, ValueError, KeyError, AttributeError) as error:
        raise _damaged(path, f"it cannot be read as safetensors ({error})") from error
    for name, expected in (header or {}).get("crc32", {}).items():
        if name not in arrays or _checksum(arrays[name]) != expected:
            raise _damaged(path, f"the bytes of {name!r} are not those that were saved")
    return arrays, header


def _replace(path: Path, content: bytes) -> None:
    """Put `content` at `path` through a temporary file beside it and one rename."""
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"save: there is no directory {str(target.parent)!r}. Make it, or check the path."
        )
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(target.parent)


def _sync_directory(directory: Path) -> None:
    """Make the rename itself durable; where directories cannot be opened it already is."""
    if os.name != "posix":
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _join(where: str, key: object) -> str:
    return f"{where}.{key}" if where else str(key)


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def _damaged(path: str, what: str) -> DamagedFile:
    return DamagedFile(
        f"load: {path!r} is damaged or not ours: {what}. Restore it from a backup or save again.",
        path,
    )


def _package() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError as error:
        raise ImportError(missing("save and load", "lab", error)) from error
    return safetensors
