"""Save and load tensors, and nested dicts and lists of them, in safetensors files.

A file is an 8-byte length, a JSON header and the raw bytes of every array: it holds data
and nothing that runs, so a file from a stranger is safe to open. Nothing here unpickles.
What is neither tensor nor array (the nesting, step counts, learning rates) is JSON in the header,
and so is a checksum of every array. Any other safetensors reader can read a flat state dict.

Source: the safetensors format, https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import zlib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .arrays import Halves, on_host
from .errors import MinitorchError
from .tensor import Tensor, tensor

KEY = "minitorch"
METADATA = "__metadata__"
VERSION = 1
PLAIN = (bool, int, float, str, type(None))
DEEPEST = 100
"""The nesting that is saved: well within what reads a file again wherever it is called from."""
CODES = {
    "BOOL": "?",
    **{f"{kind}{8 * n}": f"<{kind.lower()}{n}" for kind in "IU" for n in (1, 2, 4, 8)},
    **{f"F{8 * n}": f"<f{n}" for n in (2, 4, 8)},
    "BF16": "bfloat16",
}
"""The format's names of dtypes, and NumPy's."""


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
        ValueError: `obj` is nested too deeply, or contains itself.
    """
    arrays: dict[str, np.ndarray] = {}
    structure = _describe(obj, (), arrays)
    header = {
        "version": VERSION,
        "structure": structure,
        "crc32": {name: _checksum(array) for name, array in arrays.items()},
    }
    content = _written(arrays, {KEY: json.dumps(header)})
    if isinstance(f, str | os.PathLike):
        _replace(Path(f), content)
    else:
        f.write(content)


def load(
    f: str | os.PathLike[str] | BinaryIO, map_location: object = "cpu", *, weights_only: bool = True
) -> Any:
    """Return what `save` was given: tensors, on `map_location`, and NumPy arrays as they were.

    A safetensors file of another program gives a flat dict of tensors.

    Args:
        f: a path, or a binary file open for reading.
        map_location: a device; None for the CPU.
        weights_only: makes no difference: a file holds nothing that could run.

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
    place = map_location or "cpu"
    if header is None:
        return {name: _as_tensor(array, place) for name, array in arrays.items()}
    try:
        for name, expected in header["crc32"].items():
            if name not in arrays or _checksum(arrays[name]) != expected:
                raise _damaged(str(path), f"the bytes of {name!r} are not those that were saved")
        return _rebuild(header["structure"], arrays, place)
    except DamagedFile:
        raise
    except (*_MALFORMED, RecursionError) as error:
        raise _damaged(str(path), f"its header does not match its tensors ({error!r})") from error


_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What Python raises when data is not built as the code that reads it expects."""


def _describe(obj: object, where: tuple[object, ...], arrays: dict[str, np.ndarray]) -> object:
    """Return `obj` as JSON, each array replaced by the name under which `arrays` has it."""
    if isinstance(obj, PLAIN):
        return {"float": obj.hex()} if isinstance(obj, float) else obj
    if isinstance(obj, np.generic):
        return _describe(obj.item(), where, arrays)
    if isinstance(obj, Tensor | np.ndarray):
        kind = "tensor" if isinstance(obj, Tensor) else "array"
        return {kind: _keep(obj, where, arrays)}
    if len(where) >= DEEPEST:
        raise ValueError(
            f"save: cannot store {_place(where[:3])}: nested deeper than {DEEPEST}. "
            "Save it in parts; a list that contains itself cannot be saved."
        )
    if isinstance(obj, Mapping):
        pairs = [
            [_describe_key(key, where), _describe(value, (*where, key), arrays)]
            for key, value in obj.items()
        ]
        return {"dict": pairs}
    if isinstance(obj, list | tuple):
        items = [_describe(value, (*where, i), arrays) for i, value in enumerate(obj)]
        return {"list" if type(obj) is list else "tuple": items}
    raise TypeError(
        f"save: cannot store {_place(where) or 'the object'}: got {type(obj).__name__}, expected "
        "tensors, numbers, strings, or dicts and lists of them. "
        "Save a model's state_dict(), not the model."
    )


def _describe_key(key: object, where: tuple[object, ...]) -> object:
    if isinstance(key, str | int):
        return key
    raise TypeError(
        f"save: cannot store a key of {_place(where) or 'the dict'}: got {key!r}, expected str or "
        "int. Rename the key."
    )


def _keep(
    value: Tensor | np.ndarray, where: tuple[object, ...], arrays: dict[str, np.ndarray]
) -> str:
    array = on_host(value.array) if isinstance(value, Tensor) else value
    if not isinstance(array, Halves):
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    if _code(array) not in _NAMES:
        raise TypeError(
            f"save: cannot store {_place(where) or 'the array'}: got dtype {array.dtype}, expected "
            "numbers or booleans. Convert it first."
        )
    name = base = _place(where).encode(errors="replace").decode() or "tensor"
    count = 1
    while name in arrays or name == METADATA:
        count += 1
        name = f"{base}#{count}"
    arrays[name] = array
    return name


def _rebuild(structure: object, arrays: Mapping[str, np.ndarray], place: object) -> object:
    if not isinstance(structure, dict):
        return structure
    ((kind, content),) = structure.items()
    if kind == "tensor":
        return _as_tensor(arrays[content], place)
    if kind == "array":
        return arrays[content].copy()
    if kind == "float":
        return float.fromhex(content)
    if kind == "dict":
        return {key: _rebuild(value, arrays, place) for key, value in content}
    items = [_rebuild(value, arrays, place) for value in content]
    if kind not in ("list", "tuple"):
        raise ValueError(f"unknown kind {kind!r}")
    return items if kind == "list" else tuple(items)


def _as_tensor(array: np.ndarray, place: Any) -> Tensor:
    return tensor(array, device=place)


# ── the format ──────────────────────────────────────────────────────────────────────────────────

_NAMES = {
    "bfloat16" if name == "BF16" else np.dtype(code).str.replace("|", "<"): name
    for name, code in CODES.items()
}


def _code(array: np.ndarray) -> str:
    return "bfloat16" if isinstance(array, Halves) else array.dtype.str.replace("|", "<")


def _written(arrays: Mapping[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """Return a file: the length of the header, the header padded to 8 bytes, and the arrays."""
    header: dict[str, Any] = {METADATA: metadata}
    end = 0
    # The widest first, so that each array is aligned for its dtype.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": _NAMES[_code(array)],
            "shape": array.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(a.tobytes() for _, a in ordered)])


def _open(content: bytes, path: str) -> tuple[dict[str, np.ndarray], dict[str, Any] | None]:
    """Return the arrays and our own header, None in a file of another program."""
    start = 8 + int.from_bytes(content[:8], "little")
    if content[8:9] != b"{" or start > len(content):
        raise _damaged(path, _what_it_is(content, start))
    try:
        entries = json.loads(content[8:start])
        metadata = entries.pop(METADATA, None) or {}
        arrays = _views(entries, memoryview(content)[start:])
        return arrays, json.loads(metadata[KEY]) if KEY in metadata else None
    except (*_MALFORMED, RecursionError) as error:
        raise _damaged(path, f"it cannot be read as safetensors ({error})") from error


def _views(entries: Mapping[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """Return the array of each entry of a header, in the memory of `data`.

    Raises:
        ValueError: the entries are not one behind the other, or are not all of `data`.
    """
    arrays, at = {}, 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1]["data_offsets"]):
        halves, shape = entry["dtype"] == "BF16", tuple(entry["shape"])
        dtype = np.dtype("<u2" if halves else CODES[entry["dtype"]])
        begin, end = entry["data_offsets"]
        if (
            begin != at
            or end != at + math.prod(shape) * dtype.itemsize
            or min(shape, default=0) < 0
        ):
            raise ValueError(f"the bytes {begin} to {end} of {name!r} do not fit")
        array = np.frombuffer(data[begin:end], dtype).reshape(shape)
        arrays[name] = array.view(Halves) if halves else array
        at = end
    if at != len(data):
        raise ValueError(f"got {len(data)} bytes of arrays, expected {at}")
    return arrays


def _what_it_is(content: bytes, start: int) -> str:
    """Return what is wrong with a file that is not a length and a header of that length."""
    if content.startswith(b"PK\x03\x04") or _is_pickle(content):
        return "it looks like a pickle (torch.save), which could run code if opened"
    if content[8:9] in (b"{", b""):
        return f"it was cut short: got {len(content)} bytes, expected {start} or more"
    return "it is not a safetensors file"


def _is_pickle(content: bytes) -> bool:
    """Tell whether `content` begins with a pickle's protocol and instructions; runs none."""
    from pickletools import genops

    try:
        return [op.name for op, _, _ in islice(genops(content[:1024]), 2)][:1] == ["PROTO"]
    except ValueError:
        return False


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


def _place(where: tuple[object, ...]) -> str:
    return ".".join(map(str, where))


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data.cast("B") if array.size else b"")


def _damaged(path: str, what: str) -> DamagedFile:
    return DamagedFile(
        f"load: {path!r} is damaged or not ours: {what}. Restore it from a backup or save again.",
        path,
    )
