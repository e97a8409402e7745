"""The wait at the end of a backward pass, which torch's reducer does in C++ where nobody sees it.

The reducer waits there for all collectives that the pass has started. Whoever looks for circles of
waits must know, or would think that this thread can still send.

May import: torch, handle, board.
"""

import sys
import threading
from functools import partial
from typing import Any

import torch

from ddp_lab.handle import Handle
from ddp_lab.transport.board import dependent

_engine: Any = torch.autograd.Variable._execution_engine
_task_id: Any = torch._C._current_graph_task_id


class _Pass(threading.local):
    """The backward pass in which a thread is, and the collectives that it has started."""

    task_id = -1
    handles: list[Handle]


_pass = _Pass()


def note_start(handle: Handle) -> None:
    """Note a collective that the calling thread has started, if it is in a backward pass."""
    task_id = _task_id()
    if task_id < 0:
        return
    if task_id != _pass.task_id:
        _pass.task_id, _pass.handles = task_id, []
        _engine.queue_callback(partial(_begin_wait, _pass.handles))  # before the reducer queues
    _pass.handles.append(handle)


def _begin_wait(handles: list[Handle]) -> None:
    """Say that this thread waits for the collectives, until the pass is over or all have ended.

    Only C++ runs in it then: while Python does, another frame is the innermost.
    """
    thread, frame = threading.current_thread(), sys._getframe().f_back

    def has_ended() -> bool:
        is_in_pass = sys._current_frames().get(thread.ident or 0) is frame
        return not is_in_pass or all(handle.test() for handle in handles)

    dependent[thread] = has_ended
    _engine.queue_callback(lambda: dependent.pop(thread, None))  # after the reducer's wait
