"""The torch device "late": the processor behind streams and events that do their work late.

    machine = installed()
    machine.start(seed)
    x = torch.ones(3, device="late")        # queued; `x.cpu()` waits for the current stream
    assert not machine.faults

A tensor is a piece of memory of the processor that only tasks of a stream touch. What torch would
launch on a device is queued with the bytes that it reads and writes; shapes and strides of what
comes out are those that torch's own device "meta" tells. New memory holds no numbers (NaN, -1).
torch takes the device through its own seam for devices of other makers: `torch.get_device_module`
gives `Stream`, `Event` and their kin to whoever asks, and nothing of torch is replaced.
"""

import ctypes
import functools
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from tests.standins.stream_machine import Block, Event, Machine, Stream

aten = torch.ops.aten
UNWRITTEN = (aten.empty_like.default, aten.new_empty.default, aten.new_empty_strided.default)
RESIZING = (  # what torch makes of an empty tensor
    aten.arange.default, aten.arange.start, aten.arange.start_step,
    aten.eye.default, aten.eye.m, aten.linspace.default,
)  # fmt: skip
MACHINE = Machine()
PLACES: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()
HANDLES: dict[int, "Late"] = {}  # of memory that another rank opens
LOCK = threading.Lock()


class Late(Tensor):
    """A tensor of the device: `held` is its memory."""

    held: Tensor
    block: Block

    @staticmethod
    def __new__(cls, held: Tensor, block: Block) -> "Late":
        made: Late = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, held.shape, strides=held.stride(), storage_offset=held.storage_offset(),
            dtype=held.dtype, device="late:0",
        )  # fmt: skip
        made.held, made.block = held, block
        return made

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return call(op, args, kwargs or {})

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def record_stream(self, stream: Stream) -> None:  # type: ignore[override]
        if not MACHINE.ignores("record_stream"):
            self.block.recorded.add(stream.number)

    def __reduce_ex__(self, protocol: Any) -> Any:
        with LOCK:
            HANDLES[id(self)] = self
        return opened, (id(self),)


Late.__module__ = "torch"  # array libraries are told by it


def opened(handle: int) -> Late:
    """Return another tensor over the memory of a handle, which is not held any longer."""
    with LOCK:
        theirs = HANDLES.pop(handle)
    return Late(theirs.held.detach(), theirs.block)


# ── what torch asks of the device ───────────────────────────────────────────────────────────────


def call(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Queue an operator, and return what will hold its results."""
    if op is aten.record_stream.default:
        raise NotImplementedError("the device knows only streams of Python")
    if op is aten._local_scalar_dense.default:
        return to_host(args[0]).item()
    if op is aten._to_copy.default and _is_cpu(kwargs.get("device", args[0].device)):
        return to_host(args[0], kwargs.get("dtype"))
    if op is aten.copy_.default and not isinstance(args[0], Late):
        return args[0].copy_(to_host(args[1]))
    if _is_view(op):
        return _views(op, args, kwargs)
    args, kwargs = _mapped(_given, (args, kwargs))
    written = _written(op, args, kwargs)
    if written:
        tensors = _tensors((args, kwargs), Late)
        queue(op.name(), functools.partial(op, *_bare(args), **_bare(kwargs)), tensors, written)
        return _returned(op, args, kwargs, written)
    return _made(op, args, kwargs)


def _mapped(of: Callable[[Any], Any], tree: Any) -> Any:
    """Return arguments, or results, with each leaf as `of` gives it; pytree takes far longer."""
    kind = type(tree)
    if kind is tuple or kind is list:
        return kind([_mapped(of, x) for x in tree])
    return {k: _mapped(of, x) for k, x in tree.items()} if kind is dict else of(tree)


def _tensors(tree: Any, kind: type[Tensor] = Tensor) -> list[Any]:
    """Return the tensors of a kind among arguments or results."""
    found: list[Any] = []
    _mapped(lambda x: found.append(x) if isinstance(x, kind) else None, tree)
    return found


def _given(x: Any) -> Any:
    """Return a tensor of the processor as it is now: it is read before the call returns."""
    return x.clone() if isinstance(x, Tensor) and not isinstance(x, Late) else x


def _is_cpu(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cpu"


@functools.cache
def _is_view(op: Any) -> bool:
    infos = [r.alias_info for r in op._schema.returns]
    return any(info is not None and not info.is_write for info in infos)


def _views(op: Any, args: Any, kwargs: Any) -> Any:
    """Return other looks into the same memory; nothing is read."""
    block = args[0].block
    found = op(*_bare(args), **_bare(kwargs))
    return _mapped(lambda x: Late(x, block) if isinstance(x, Tensor) else x, found)


def _written(op: Any, args: Any, kwargs: Any) -> list[Late]:
    found: list[Any] = []
    for at, name in _writes(op):
        found += _tensors(args[at] if at < len(args) else kwargs.get(name), Late)
    return found


@functools.cache
def _writes(op: Any) -> list[tuple[int, str]]:
    """Return which arguments an operator writes: the place and the name of each."""
    infos = [(at, x.name, x.alias_info) for at, x in enumerate(op._schema.arguments)]
    return [(at, name) for at, name, info in infos if info is not None and info.is_write]


def _returned(op: Any, args: Any, kwargs: Any, written: list[Late]) -> Any:
    returns = op._schema.returns
    if len(returns) == 0:
        return None
    return written[0] if len(returns) == 1 else tuple(written)


def _bare(tree: Any) -> Any:
    """Return arguments for the processor: memory in place of tensors of the device."""

    def of(x: Any) -> Any:
        if isinstance(x, Late):
            return x.held
        return torch.device("cpu") if isinstance(x, torch.device) else x

    return _mapped(of, tree)


def _meta(tree: Any) -> Any:
    def of(x: Any) -> Any:
        if isinstance(x, Late):
            x = x.held
        if isinstance(x, Tensor):
            return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        return torch.device("meta") if isinstance(x, torch.device) else x

    return _mapped(of, tree)


TOLD: dict[Any, Any] = {}  # by operator and arguments: asking "meta" takes longer than to compute


def _told(op: Any, args: Any, kwargs: Any) -> Any:
    """Return what "meta" says of the results, None: their sizes depend on the numbers."""
    key = (op, torch.get_default_dtype(), _looks(args), _looks(kwargs))
    if key not in TOLD:
        try:
            TOLD[key] = op(*_meta(args), **_meta(kwargs))
        except (NotImplementedError, RuntimeError):
            TOLD[key] = None
    return TOLD[key]


def _looks(x: Any) -> Any:
    """Return what "meta" goes by, to be looked up; 1, 1.0 and True are not the same."""
    if isinstance(x, Tensor):
        return x.shape, x.stride(), x.dtype
    if isinstance(x, tuple | list):
        return type(x), *map(_looks, x)
    if isinstance(x, dict):
        return tuple((name, _looks(value)) for name, value in x.items())
    return type(x), x


def _made(op: Any, args: Any, kwargs: Any) -> Any:
    """Return new tensors that a task will fill."""
    bare = functools.partial(op, *_bare(args), **_bare(kwargs))
    inputs = _tensors((args, kwargs), Late)
    told = _told(op, args, kwargs)
    if told is None:
        queue(op.name(), lambda: None, inputs, [])
        MACHINE.current_stream().synchronize()
        told = bare()
    outputs = _mapped(
        lambda t: empty(t.shape, t.stride(), t.dtype) if isinstance(t, Tensor) else t, told
    )
    places = _tensors(outputs, Late)
    held = [x.held for x in places]

    def fill() -> None:
        results = _tensors(bare())
        for place, result in zip(held, results, strict=True):
            place.copy_(result)

    if op not in UNWRITTEN:
        queue(op.name(), fill, [*inputs, *places], places)
    return outputs


def empty(shape: Sequence[int], stride: Sequence[int] | None, dtype: torch.dtype) -> Late:
    """Return memory that nobody has written."""
    if stride is None:
        held = torch.empty(tuple(shape), dtype=dtype)
    else:
        held = torch.empty_strided(tuple(shape), tuple(stride), dtype=dtype)
    number = held.untyped_storage().nbytes()
    ctypes.memset(held.untyped_storage().data_ptr(), 1 if dtype == torch.bool else 0xFF, number)
    block = MACHINE.new_block(number)
    PLACES[held.untyped_storage().data_ptr()] = block
    return Late(held, block)


def queue(
    name: str, run: Callable[[], object], tensors: Sequence[Late], written: Sequence[Late]
) -> None:
    """Put a task on the current stream."""
    ids = set(map(id, written))
    touched = [(x.block, *_bytes(x.held), id(x) in ids) for x in tensors if x.held.numel()]

    def without_graph() -> None:
        with torch.no_grad():
            run()

    MACHINE.put(MACHINE.current_stream(), name, without_graph, touched)


def _bytes(held: Tensor) -> tuple[int, int]:
    reach = sum((n - 1) * abs(s) for n, s in zip(held.shape, held.stride(), strict=True))
    low, item = held.storage_offset(), held.element_size()
    return low * item, (low + reach + 1) * item


def to_host(x: Late, dtype: torch.dtype | None = None) -> Tensor:
    """Return a copy in the processor's memory, once the current stream has made it."""
    copy = torch.empty(x.shape, dtype=dtype or x.dtype)
    copy.view(torch.uint8).fill_(0xFF) if copy.dim() else copy
    queue("copy to the host", functools.partial(copy.copy_, x.held), [x], [])
    stream = MACHINE.current_stream()
    MACHINE.wait_for(stream.last, stream.clock)
    return copy


def _factory(op: Any) -> Callable[..., Any]:
    def made(shape: Any, stride: Any = None, dtype: Any = None, **_: Any) -> Late:
        return empty(shape, stride, dtype or torch.get_default_dtype())

    if op is aten.empty.memory_format:
        return lambda shape, dtype=None, **_: made(shape, None, dtype)
    return made


# ── its module ──────────────────────────────────────────────────────────────────────────────────


class Module:
    """What `torch.get_device_module("late")` gives."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.current_stream, self.stream = machine.current_stream, machine.stream
        self.synchronize = machine.synchronize
        self.Stream = functools.partial(Stream, machine)
        self.Event = functools.partial(Event, machine)

    @contextmanager
    def device(self, device: object) -> Iterator[None]:
        yield

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return False  # not to whoever asks for any accelerator

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def memory_allocated(self, device: object = None) -> int:
        return self.machine.held_bytes

    memory_reserved = memory_allocated

    def max_memory_allocated(self, device: object = None) -> int:
        return self.machine.peak_bytes

    def reset_peak_memory_stats(self, device: object = None) -> None:
        self.machine.peak_bytes = self.machine.held_bytes

    def memory_stats(self, device: object = None) -> dict[str, int]:
        return {
            "reserved_bytes.all.current": self.machine.held_bytes,
            "allocated_bytes.all.current": self.machine.held_bytes,
            "allocated_bytes.all.peak": self.machine.peak_bytes,
            "segment.all.allocated": 0,
        }

    def empty_cache(self) -> None:
        pass

    def is_bf16_supported(self) -> bool:
        return True

    def manual_seed_all(self, seed: int) -> None:
        pass

    def _is_in_bad_fork(self) -> bool:
        return False


class Guard(torch._C._acc.DeviceGuard):
    def type_(self) -> Any:
        return torch._C._autograd.DeviceType.PrivateUse1


class Hooks(torch._C._acc.PrivateUse1Hooks):
    def is_available(self) -> bool:
        return False

    def has_primary_context(self, index: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


LIBRARY: list[Any] = []


@functools.cache
def installed() -> Machine:
    """Make the device known to this process's torch; return what is behind it."""
    _look_up_operators()
    _setup_privateuseone_for_python_backend("late", Module(MACHINE), Hooks(), Guard())
    library = torch.library.Library("aten", "IMPL")
    for op in (aten.empty.memory_format, aten.empty_strided.default):
        library.impl(op, _factory(op), "PrivateUse1")
    left_out = aten.copy_.default, aten._to_copy.default  # of subclasses, in some places
    for op in (*left_out, *RESIZING):
        library.impl(op, functools.partial(_from_torch, op), "PrivateUse1")
    LIBRARY.append(library)
    return MACHINE


def _look_up_operators() -> None:
    """Make torch's Python objects of its operators now, in one thread.

    Two threads that are first at an operator make one each: torch (2.13) keeps the address of one
    and lets go of it for the other, and the next use of the operator is a segmentation fault.
    """
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        if namespace == "aten":
            packet, _, overload = name.partition(".")
            getattr(getattr(aten, packet), overload or "default")


def _from_torch(op: Any, *args: Any, **kwargs: Any) -> Any:
    return call(op, args, kwargs)
