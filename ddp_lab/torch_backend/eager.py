"""Functions that `torch.compile` must call and not look into. May import: torch."""

from collections.abc import Callable
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])

_frames: Any = torch._C._dynamo.eval_frame
_SKIP, _DEFAULT = _frames._FrameAction.SKIP, _frames._FrameAction.DEFAULT


def eager(fn: F, *, also_callees: bool = True) -> F:
    """Return `fn`, to be run as it is even where a compiler traces its caller.

    What it calls in turn is traced again unless `also_callees`.

    It says so as `torch.compiler.disable` does, which would import the compiler: that takes a
    second. A wrapper that calls it later would be traced itself, for seconds.
    """
    callees = _SKIP if also_callees else _DEFAULT
    _frames.set_code_exec_strategy(fn.__code__, _frames._FrameExecStrategy(_SKIP, callees))
    fn._torchdynamo_disable = True  # type: ignore[attr-defined]
    return fn
