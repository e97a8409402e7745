"""The program of a container: one model in a process of its own.

    python -c '... main()' ADDRESS IDENTITY FD PARENT

It connects to the front, gets the model, says that it is ready, and answers batches one by one.
It ends with the front however that ends: the kernel kills it (Linux), and a socket that both hold
and nobody writes to closes.

May import: wire; pyzmq and cloudpickle, inside functions; torch if the model has.
"""

import ctypes
import inspect
import json
import os
import pickle
import re
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.serve.wire import Errors, Kind, pack_results, unpack_array

PR_SET_PDEATHSIG = 1
Model = Callable[[np.ndarray], Any]


def main() -> None:
    """Serve one model until the front is gone."""
    address, identity, fd, parent = sys.argv[1:5]
    end_with_the_front(int(fd), int(parent))
    import zmq

    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.setsockopt(zmq.IDENTITY, bytes.fromhex(identity))
    dealer.connect(address)
    dealer.send(Kind.HELLO)
    data = dealer.recv()
    try:
        model = as_model(pickle.loads(data))
    except BaseException:
        dealer.send_multipart([Kind.BROKEN, traceback.format_exc().encode()])
        dealer.close(linger=1000)
        sys.exit(1)
    dealer.send(Kind.READY)
    while True:
        header, batch = dealer.recv_multipart()
        dealer.send_multipart([Kind.RESULTS, *answer(model, header, batch)])


def end_with_the_front(fd: int, parent: int) -> None:
    """Have this process killed when its parent ends, and when the parent closes its socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the front's to handle
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the call
        os._exit(1)
    lifeline = socket.socket(fileno=fd)

    def watch() -> None:
        lifeline.recv(1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def as_model(given: Any) -> Model:
    """Return a function of a batch: of a factory, a module of torch or minitorch, an estimator.

    A factory takes no arguments and gives the model; what can be called with one is a model.
    """
    if is_factory(given):
        given = given()
    for library in ("torch", "minitorch"):
        nn = sys.modules.get(f"{library}.nn")
        if nn is not None and isinstance(given, nn.Module):
            return module_model(sys.modules[library], given)
    if not callable(given) and callable(getattr(given, "predict", None)):
        predict: Model = given.predict
        return predict
    if not callable(given):
        raise TypeError(f"the model is {type(given).__name__}, expected something to call")
    model: Model = given
    return model


def is_factory(given: Any) -> bool:
    """Tell whether something can be called, and only without an argument."""
    if not callable(given):
        return False
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # compiled functions have none
        return False
    return _takes(signature, 0) and (isinstance(given, type) or not _takes(signature, 1))


def _takes(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


def module_model(library: Any, module: Any) -> Model:
    """Return a module in evaluation as a function of arrays; `library` is torch or minitorch.

    Real inputs are brought to the dtype of its parameters: those from JSON are float64.
    """
    module.eval()
    dtype = next((parameter.dtype for parameter in module.parameters()), None)

    def model(batch: np.ndarray) -> Any:
        x = library.from_numpy(batch)
        with library.no_grad():
            return module(x.to(dtype) if dtype is not None and batch.dtype.kind == "f" else x)

    return model


def answer(model: Model, header: bytes, data: bytes) -> list[bytes]:
    """Return the frames that answer a batch, whatever the model does with it."""
    batch = unpack_array(json.loads(header), data)
    began_s = time.perf_counter()
    results, errors = evaluate(model, batch)
    took_ms = (time.perf_counter() - began_s) * 1e3
    try:
        return pack_results(results, errors, took_ms)
    except Exception as error:
        everywhere = dict.fromkeys(range(len(batch)), described(error))
        return pack_results([], everywhere, took_ms)


def evaluate(model: Model, batch: np.ndarray) -> tuple[Any, Errors]:
    """Return the results of those that have one, and the errors of the others by place.

    A batch that raises is halved until those are found that raise by themselves.
    """
    try:
        return as_results(model(batch.copy()), len(batch)), {}
    except Exception as error:
        if len(batch) == 1:
            return [], {0: described(error)}
    half = len(batch) // 2
    left, left_errors = evaluate(model, batch[:half])
    right, right_errors = evaluate(model, batch[half:])
    moved = {half + at: words for at, words in right_errors.items()}
    return stacked([*left, *right]), {**left_errors, **moved}


def as_results(results: Any, count: int) -> Any:
    """Return an array or a list with one result for each query.

    Raises:
        TypeError, ValueError: it is neither, or has another length.
    """
    if hasattr(results, "detach"):
        results = results.detach().cpu()
    if hasattr(results, "numpy"):
        results = results.numpy()
    if not isinstance(results, np.ndarray | list | tuple):
        raise TypeError(f"the model returned {type(results).__name__}, expected an array or a list")
    got = 0 if getattr(results, "ndim", 1) == 0 else len(results)
    if got != count:
        raise ValueError(f"the model returned {got} results for a batch of {count}")
    return results if isinstance(results, np.ndarray) else stacked(results)


def stacked(results: Any) -> Any:
    """Return one array where all results are arrays or numbers of NumPy alike, else as given."""
    known = np.ndarray | np.generic
    alike = {(r.dtype, r.shape) if isinstance(r, known) else None for r in results}
    return np.stack(results) if len(alike) == 1 and None not in alike else results


def described(error: Exception) -> tuple[str, str]:
    """Return what about the input an exception complains of, if it does, and its words.

    torch says by a RuntimeError that shapes do not fit.
    """
    words = f"{type(error).__name__}: {error}"
    caller = (ValueError, TypeError, IndexError, KeyError)
    kind = next((known.__name__ for known in caller if isinstance(error, known)), "")
    return kind or ("ShapeError" if re.search("shape|size|dimension", words) else ""), words
