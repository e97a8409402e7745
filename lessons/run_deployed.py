"""Run a module that `lessons.deployed` saved: without minitorch, and without a compiler.

    python run_deployed.py MODULE.npz INPUT.npy OUTPUT.npy

Machine code is linked into this process by llvmlite, and called through ctypes. A layer's function
takes the tiles to compute and a table of addresses and strides.
"""

import ctypes
import json
import struct
import sys
from typing import Any

import numpy as np

LINE = 64
SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)


def linked(code: bytes) -> tuple[Any, Any]:
    """Return (what keeps it alive, the function) of an object file."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine, SIGNATURE(engine.get_function_address("kernel"))


def run(path: str, x: Any) -> Any:
    """Return what the module computes of a batch."""
    saved = np.load(path)
    for k, layer in enumerate(json.loads(str(saved["layers"]))):
        _kept, call = linked(saved[f"code{k}"].tobytes())
        w, b = saved[f"weight{k}"], saved[f"bias{k}"]
        y = np.empty((len(x), w.shape[1]), x.dtype)
        buffers = [np.empty(n + LINE, np.uint8) for n in layer["buffer_bytes"]]
        packed = (-(-a.ctypes.data // LINE) * LINE for a in buffers)
        cells = (ctypes.c_int64 * 4)(*(array.ctypes.data for array in (x, w, y, b)))
        places = (ctypes.addressof(cells) + 8 * at for at in range(4))
        call(
            0, layer["tiles"], struct.pack("11q", *places, *x.strides, w.strides[0], *packed, 0, 0)
        )
        x = y
    return x


if __name__ == "__main__":
    module, given, result = sys.argv[1:]
    np.save(result, run(module, np.load(given)))
    print("minitorch was imported:", any(name.startswith("minitorch") for name in sys.modules))
