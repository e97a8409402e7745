"""The program of a container: one model in a process of its own.

    python -c '... main()' ADDRESS IDENTITY

It connects to the front, gets the model, says that it is ready, and answers batches one by one.
It ends with the front however that ends: its input is a socket that nobody writes to, and that
closes; and on Linux the kernel kills it.

May import: NumPy, wire; zmq inside functions.
"""

import ctypes
import inspect
import json
import os
import pickle
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from minitorch.serve.wire import BROKEN, HELLO, READY, RESULTS, Errors, pack_results, unpack_array

PR_SET_PDEATHSIG = 1
Model = Callable[[np.ndarray], Any]
Answer = Callable[..., list[bytes]]  # the frames that answer the frames of some work


def main(prepare: Callable[[Any], Answer] | None = None) -> None:
    """Serve one model until the front is gone; `prepare` makes what answers of what was sent."""
    end_with_the_front()
    import zmq

    address, identity = sys.argv[1:]
    dealer = zmq.Context().socket(zmq.DEALER)
    dealer.setsockopt(zmq.IDENTITY, bytes.fromhex(identity))
    dealer.connect(address)
    dealer.send(HELLO)
    data = dealer.recv()
    try:
        respond = (prepare or answers)(pickle.loads(data))
    except BaseException:
        dealer.send_multipart([BROKEN, traceback.format_exc().encode()])
        dealer.close(linger=1000)
        sys.exit(1)
    dealer.send(READY)
    while True:
        dealer.send_multipart([RESULTS, *respond(*dealer.recv_multipart())])


def end_with_the_front() -> None:
    """Have this process killed when the front ends, and when the front closes its socket."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the front's to handle
    if sys.platform == "linux":  # also while a model keeps threads from running
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    lifeline = os.dup(0)  # what the model starts must not hold it open
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(0)

    threading.Thread(target=watch, daemon=True).start()


def answers(sent: Any) -> Answer:
    """Return what answers batches: the model that was sent."""
    return partial(answer, as_model(sent))


def as_model(sent: Any) -> Model:
    """Return a function of a batch: of a factory, a module of torch or minitorch, an estimator.

    A factory takes no arguments and gives the model; what can be called with one is a model.
    """
    if is_factory(sent):
        sent = sent()
    for library in ("torch", "minitorch"):
        nn = sys.modules.get(f"{library}.nn")
        if nn is not None and isinstance(sent, nn.Module):
            return module_model(sys.modules[library], sent)
    model: Model | None = sent if callable(sent) else getattr(sent, "predict", None)
    if model is None:
        raise TypeError(f"the model is {type(sent).__name__}, expected something to call")
    return model


def is_factory(function: Any) -> bool:
    """Tell whether something can be called, and only without an argument."""

    def takes(*arguments: Any) -> bool:
        try:
            inspect.signature(function).bind(*arguments)
        except (TypeError, ValueError):  # compiled functions have no signature
            return False
        return True

    return takes() and (isinstance(function, type) or not takes(None))


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
        return pack_results([], dict.fromkeys(range(len(batch)), describe(error)), took_ms)


def evaluate(model: Model, batch: np.ndarray) -> tuple[Any, Errors]:
    """Return the results of those that have one, and the errors of the others by place.

    A batch that raises is halved until those are found that raise by themselves.
    """
    try:
        return as_results(model(batch.copy()), len(batch)), {}
    except Exception as error:
        if len(batch) == 1:
            return [], {0: describe(error, batch)}
    half = len(batch) // 2
    left, left_errors = evaluate(model, batch[:half])
    right, right_errors = evaluate(model, batch[half:])
    moved = {half + at: words for at, words in right_errors.items()}
    return [*left, *right], {**left_errors, **moved}


def as_results(results: object, count: int) -> Any:
    """Return an array or a list with one result for each query, or refuse what is none."""
    if hasattr(results, "detach"):
        results = results.detach().cpu()
    if hasattr(results, "numpy"):
        results = results.numpy()
    if not isinstance(results, np.ndarray | list | tuple):
        raise TypeError(f"the model returned {type(results).__name__}, expected an array or a list")
    n_results = 0 if getattr(results, "ndim", 1) == 0 else len(results)
    if n_results != count:
        raise ValueError(f"the model returned {n_results} results for a batch of {count}")
    return results


def describe(error: Exception, batch: np.ndarray | None = None) -> tuple[bool, str]:
    """Return whether an exception complains of the input, and its words; and what the model got."""
    words = f"{type(error).__name__}: {error}"
    by_kind = isinstance(error, ValueError | TypeError | IndexError | KeyError)
    blamed = by_kind or bool(re.search("shape|size|dimension", words))  # as torch says it
    if blamed and batch is not None:
        kind = "text" if batch.dtype.kind == "U" else str(batch.dtype)
        words += f" (the model got a batch of {kind} of shape {batch.shape})"
    return blamed, words
