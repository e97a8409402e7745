"""State dicts as bytes: arrays, tensors, numbers and text in lists and dicts; never pickle.

The bytes are those of an `.npz` file: the arrays by number, and a tree in JSON that says where
each of them belongs.

May import: NumPy, arrays, errors, reduction, transport.
"""

import io
import json
import zipfile
from typing import Any

import numpy as np

from ddp_lab.arrays import outside, to_numpy
from ddp_lab.errors import InvalidArgument
from ddp_lab.reduction import BFLOAT16
from ddp_lab.transport.base import NDArray

PLAIN = (bool, int, float, str, type(None))
TREE = "tree"


def dumps(tree: Any) -> bytes:
    """Return a tree of plain data and arrays as bytes.

    Tensors of other libraries are kept as the arrays behind them (`detach().numpy()`).

    Raises:
        InvalidArgument: something in it is neither; says where.
    """
    arrays: list[NDArray] = []
    text = json.dumps(_encode(tree, arrays, ""))
    named: Any = {f"a{number}": array for number, array in enumerate(arrays)}
    named[TREE] = np.frombuffer(text.encode(), np.uint8)
    file = io.BytesIO()
    np.savez(file, **named)
    return file.getvalue()


def loads(data: bytes) -> Any:
    """Return what `dumps` was given; tensors of torch as such, on the CPU.

    Raises:
        InvalidArgument: these are no such bytes.
    """
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return _decode(json.loads(arrays.pop(TREE).tobytes()), arrays)
    except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidArgument(
            f"load: not a snapshot: got {len(data)} bytes that do not read ({error}). "
            "Point to a file that save has written."
        ) from error


def _encode(value: Any, arrays: list[NDArray], where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, dict):
        return {"dict": [_item(key, v, arrays, where) for key, v in value.items()]}
    if isinstance(value, list | tuple):
        items = [_encode(v, arrays, f"{where}[{k}]") for k, v in enumerate(value)]
        return {"list" if isinstance(value, list) else "tuple": items}
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise _unknown(value, where)
    return _array(value, arrays, where)


def _item(key: Any, value: Any, arrays: list[NDArray], where: str) -> list[Any]:
    if not isinstance(key, PLAIN):
        raise _unknown(key, f"a key of {where or 'the state'}")
    return [key, _encode(value, arrays, f"{where}.{key}" if where else str(key))]


def _array(value: Any, arrays: list[NDArray], where: str) -> dict[str, Any]:
    if hasattr(value, "detach") and not type(value).__module__.startswith("torch"):
        value = value.detach().numpy()
    array, kind = to_numpy(value, f"save: {where}")
    is_short = array.dtype == BFLOAT16
    arrays.append(array.view(np.uint16) if is_short else array)
    return {"array": len(arrays) - 1, "kind": kind, "bfloat16": is_short}


def _unknown(value: Any, where: str) -> InvalidArgument:
    return InvalidArgument(
        f"save: {where or 'the state'} cannot be saved: got {type(value).__name__}, expected "
        "arrays, numbers, text, or lists and dicts of them. Leave it out, or convert it."
    )


def _decode(node: Any, arrays: dict[str, NDArray]) -> Any:
    if not isinstance(node, dict):
        return node
    if "dict" in node:
        return {key: _decode(value, arrays) for key, value in node["dict"]}
    if "array" in node:
        array = arrays[f"a{node['array']}"]
        return outside(array.view(BFLOAT16) if node["bfloat16"] else array, node["kind"])
    if "list" in node:
        return [_decode(value, arrays) for value in node["list"]]
    return tuple(_decode(value, arrays) for value in node["tuple"])
