"""Save and load tensors, and nested dicts and lists of them, in safetensors files.

A file is an 8-byte length, a JSON header and the raw bytes of every array: it holds data
and nothing that runs, so a file from a stranger is safe to open. Nothing here unpickles.
What is neither tensor nor array (the nesting, step counts, learning rates) is JSON in the header,
and so is a checksum of every array. Any other safetensors reader can read a flat state dict.

Source: the safetensors format, https://huggingface.co/docs/safetensors.
"""

import json
import math
import os
import secrets
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .arrays.library import Halves, on_host
from .arrays.torch_files import NotRead, is_torch_file, read
from .errors import MinitorchError
from .tensor.tensor import Tensor, tensor

KEY = "minitorch"
METADATA = "__metadata__"
VERSION = 1
PLAIN = (bool, int, float, str, type(None))
DEEPEST = 100
"""The nesting that is saved: well within what reads a file again wherever it is called from."""
CODES = {"BOOL": "|b1", "U8": "|u1", "I8": "|i1", "BF16": "bfloat16"}
CODES |= {f"{kind}{8 * n}": f"<{kind.lower()}{n}" for kind in "IUF" for n in (2, 4, 8)}
"""The format's names of dtypes, and NumPy's."""
NAMES = {code: name for name, code in CODES.items()}
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What Python raises when data is not built as the code that reads it expects."""


class DamagedFile(MinitorchError, ValueError):
    """A file that is not, or is no longer, what `save` wrote. `.path` names it."""

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"load: {path!r} is damaged or not ours: {what}. Restore it from a backup or save "
            "again."
        )
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
    content = _encode(arrays, {KEY: json.dumps(header)})
    if isinstance(f, str | os.PathLike):
        _replace(Path(f), content)
    else:
        f.write(content)


def load(
    f: str | os.PathLike[str] | BinaryIO, map_location: object = "cpu", *, weights_only: bool = True
) -> Any:
    """Return what `save` was given: tensors, on `map_location`, and NumPy arrays as they were.

    A safetensors file of another program gives a flat dict of tensors; of a file that `torch.save`
    wrote, tensors, plain data and dicts are read, and nothing in it is run.

    Args:
        f: a path, or a binary file open for reading.
        map_location: a device; None for the CPU.
        weights_only: makes no difference: a file holds nothing that could run.
    Raises:
        FileNotFoundError: there is no such file.
        DamagedFile: cut short, altered, or not a safetensors file; says which.
        NotRead: a file of torch's that holds more than that; names it.
    """
    if isinstance(f, str | os.PathLike):
        path, content = os.fspath(f), Path(f).read_bytes()
    else:
        path, content = str(getattr(f, "name", "<stream>")), f.read()
    place: Any = map_location or "cpu"
    if is_torch_file(content):
        try:
            return read(content, lambda array: tensor(array, device=place))
        except NotRead:
            raise
        except (*MALFORMED, OSError) as error:
            raise DamagedFile(path, f"torch's archive cannot be read ({error!r})") from error
    start = 8 + int.from_bytes(content[:8], "little")
    if content[8:9] != b"{" or start > len(content):
        raise DamagedFile(path, _describe_damage(content, start))
    try:
        return _read(content, start, place)
    except MALFORMED as error:
        raise DamagedFile(path, f"its header does not match its content ({error!r})") from error


def _describe(obj: object, where: tuple[object, ...], arrays: dict[str, np.ndarray]) -> object:
    """Return `obj` as JSON, each array replaced by the name under which `arrays` has it."""
    if isinstance(obj, PLAIN):
        return {"float": obj.hex()} if isinstance(obj, float) else obj
    if isinstance(obj, np.generic):
        return _describe(obj.item(), where, arrays)
    if isinstance(obj, Tensor | np.ndarray):
        kind = "tensor" if isinstance(obj, Tensor) else "array"
        kind = "leaf" if getattr(obj, "requires_grad", False) else kind
        return {kind: _keep(obj, where, arrays)}
    if len(where) >= DEEPEST:
        raise ValueError(
            f"save: cannot store {_place(where[:3])}: nested deeper than {DEEPEST}. "
            "Save it in parts; a list that contains itself cannot be saved."
        )
    if isinstance(obj, Mapping):
        pairs = []
        for key, value in obj.items():
            if not isinstance(key, str | int):
                raise TypeError(
                    f"save: cannot store a key of {_place(where) or 'the dict'}: got {key!r}, "
                    "expected str or int. Rename the key."
                )
            pairs.append([key, _describe(value, (*where, key), arrays)])
        return {"dict": pairs}
    if isinstance(obj, list | tuple):
        items = [_describe(value, (*where, i), arrays) for i, value in enumerate(obj)]
        return {"list" if type(obj) is list else "tuple": items}
    raise TypeError(
        f"save: cannot store {_place(where) or 'the object'}: got {type(obj).__name__}, expected "
        "tensors, numbers, strings, or dicts and lists of them. "
        "Save a model's state_dict(), not the model."
    )


def _keep(
    value: Tensor | np.ndarray, where: tuple[object, ...], arrays: dict[str, np.ndarray]
) -> str:
    array = on_host(value.array) if isinstance(value, Tensor) else value
    if not isinstance(array, Halves):
        array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    if _code(array) not in NAMES:
        raise TypeError(
            f"save: cannot store {_place(where) or 'the array'}: got dtype {array.dtype}, expected "
            "numbers or booleans. Convert it first."
        )
    name = _place(where).encode(errors="replace").decode() or "tensor"
    while name in arrays or name == METADATA:
        name += "#"
    arrays[name] = array
    return name


def _rebuild(structure: object, arrays: Mapping[str, np.ndarray], place: Any) -> object:
    if not isinstance(structure, dict):
        return structure
    ((kind, content),) = structure.items()
    if kind in ("tensor", "leaf"):
        return tensor(arrays[content], device=place, requires_grad=kind == "leaf")
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


# ── the format ──────────────────────────────────────────────────────────────────────────────────


def _code(array: np.ndarray) -> str:
    return "bfloat16" if isinstance(array, Halves) else array.dtype.str


def _encode(arrays: Mapping[str, np.ndarray], metadata: dict[str, str]) -> bytes:
    """Return a file: the length of the header, the header padded to 8 bytes, and the arrays."""
    header: dict[str, Any] = {METADATA: metadata}
    end = 0
    # The widest first, so that each array is aligned for its dtype.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].itemsize)
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {
            "dtype": NAMES[_code(array)],
            "shape": array.shape,
            "data_offsets": [begin, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *(a.tobytes() for _, a in ordered)])


def _read(content: bytes, start: int, place: Any) -> Any:
    """Return what a file holds whose arrays begin at `start`."""
    entries = json.loads(content[8:start])
    metadata = entries.pop(METADATA, None) or {}
    arrays = _views(entries, memoryview(content)[start:])
    if KEY not in metadata:
        return {name: tensor(array, device=place) for name, array in arrays.items()}
    header = json.loads(metadata[KEY])
    for name, expected in header["crc32"].items():
        if _checksum(arrays[name]) != expected:
            raise ValueError(f"the bytes of {name!r} are not those that were saved")
    return _rebuild(header["structure"], arrays, place)


def _views(entries: Mapping[str, Any], data: memoryview) -> dict[str, np.ndarray]:
    """Return the array of each entry of a header, in the memory of `data`."""
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


def _describe_damage(content: bytes, start: int) -> str:
    """Return what is wrong with a file that is not a length and a header of that length."""
    if content[8:9] in (b"{", b""):
        return f"it was cut short: got {len(content)} bytes, expected {start} or more"
    if content.startswith(b"\x80"):
        return "it is a pickle, which could run code; load it with torch and save its state_dict()"
    return "it is not a safetensors file"


def _replace(path: Path, content: bytes) -> None:
    """Put `content` at `path` through a temporary file beside it and one rename."""
    target = Path(os.path.realpath(path))
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
    if os.name == "posix":  # elsewhere directories cannot be opened, nor need to
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)  # the rename itself
        finally:
            os.close(descriptor)


def _place(where: tuple[object, ...]) -> str:
    return ".".join(map(str, where))


def _checksum(array: np.ndarray) -> int:
    return zlib.crc32(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
