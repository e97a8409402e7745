"""Module: a function with parameters, made of other modules.

A module keeps three dicts, its parameters, its buffers and its children; everything here (names,
state, moving, printing) is a walk over them. Source of the interface: `torch.nn.Module`.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from minitorch.arrays.library import DeviceLike, DTypeLike, as_dtype
from minitorch.errors import ArgumentError, DTypeError
from minitorch.nn.hooks import call_with_hooks
from minitorch.nn.parameter import Parameter
from minitorch.nn.state_dicts import IncompatibleKeys, check_state, compare_keys, entry_of
from minitorch.tensor.conversions import place_and_dtype
from minitorch.tensor.hooks import Handle, add_hook
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor, tensor

M = TypeVar("M", bound="Module")
STORES = ("_parameters", "_modules", "_buffers")


def _to(target: str) -> Callable[[M], M]:
    """Return the method that moves a module to a device, or converts it to a floating dtype."""

    def method(self: M) -> M:
        return self.to(target)

    method.__doc__ = f"Return this module after `to({target!r})`."
    return method


class Module:
    """Base of every layer and model: set parameters and modules as attributes, write `forward`."""

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: "dict[str, Module | None]"

    def __init__(self) -> None:
        own = self.__dict__
        own["training"] = True
        own["_unsaved"] = set()  # names of buffers that state_dict leaves out
        for name in (*STORES, "_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            own[name] = {}

    # ── calling ─────────────────────────────────────────────────────────────────────────────────

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output; a subclass writes it, users call the module itself."""
        raise NotImplementedError(f"{type(self).__name__} has no forward. Define forward(self, x).")

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Return `forward` of the arguments, with the hooks around it."""
        own = self.__dict__
        try:
            hooked = own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
        except KeyError:
            raise _not_initialised(self) from None
        if not hooked:
            return self.forward(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def register_forward_pre_hook(self, hook: Callable[..., object]) -> Handle:
        """Call `hook(module, args)` before each forward; what it returns replaces the arguments."""
        return add_hook(self.__dict__["_forward_pre_hooks"], hook)

    def register_forward_hook(self, hook: Callable[..., object]) -> Handle:
        """Call `hook(module, args, output)` after each forward; its result replaces the output."""
        return add_hook(self.__dict__["_forward_hooks"], hook)

    def register_full_backward_hook(self, hook: Callable[..., object]) -> Handle:
        """Call `hook(module, grad_input, grad_output)` in backward; it may replace the first.

        Both are tuples: a gradient, or None, for each positional argument and for each output.
        """
        return add_hook(self.__dict__["_backward_hooks"], hook)

    # ── attributes ──────────────────────────────────────────────────────────────────────────────

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for store in STORES:
            if store in own and name in own[store]:
                return own[store][name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, Parameter):
            self._claim(name, "_parameters")[name] = value
        elif isinstance(value, Module):
            self._claim(name, "_modules")[name] = value
        else:
            self._set_plain(name, value)

    def _claim(self, name: str, store: str) -> dict[str, object]:
        """Return a store, after `name` has been taken out of every other place."""
        own = self.__dict__
        if store not in own:
            raise _not_initialised(self)
        own.pop(name, None)
        for other in STORES:
            if other != store:
                own[other].pop(name, None)
        return cast("dict[str, Any]", own[store])

    def _set_plain(self, name: str, value: object) -> None:
        """Set what is neither parameter nor module; a registered name keeps its kind."""
        own = self.__dict__
        for store, kind in (("_parameters", Parameter), ("_modules", Module), ("_buffers", Tensor)):
            if name in own.get(store, ()):
                if value is not None and not isinstance(value, kind):
                    raise TypeError(
                        f"{type(self).__name__}.{name}: got {type(value).__name__}, expected "
                        f"{kind.__name__} or None. Delete the attribute first to change its kind."
                    )
                own[store][name] = value
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for store in STORES:
            if self.__dict__[store].pop(name, self) is not self:
                self.__dict__["_unsaved"].discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        stored = (key for store in STORES for key in self.__dict__.get(store, ()))
        return sorted({*super().__dir__(), *stored})

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter by name; None keeps the name with nothing in it."""
        self._check_name(name, param, Parameter, "_parameters")
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is state but is not trained; `persistent` puts it in the state_dict."""
        self._check_name(name, tensor, Tensor, "_buffers")
        self._buffers[name] = tensor
        if not persistent:
            self.__dict__["_unsaved"].add(name)

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a child by name."""
        self._check_name(name, module, Module, "_modules")
        self._modules[name] = module

    register_module = add_module

    def _check_name(self, name: str, value: object, kind: type, store: str) -> None:
        where = f"{type(self).__name__}: cannot register {name!r}"
        if "_parameters" not in self.__dict__:
            raise _not_initialised(self)
        if not isinstance(name, str):
            raise TypeError(f"{where}: got a name of type {type(name).__name__}, expected str.")
        if "." in name or not name:
            raise KeyError(f"{where}: a name must not be empty nor hold a dot.")
        if hasattr(self, name) and name not in self.__dict__[store]:
            raise KeyError(f"{where}: the attribute exists already.")
        if value is not None and not isinstance(value, kind):
            got, expected = type(value).__name__, kind.__name__
            if any(base.__name__ == expected for base in type(value).__mro__):  # another library's
                got = f"{type(value).__module__.partition('.')[0]}'s {got}"
                expected = f"minitorch's {expected}"
            raise TypeError(f"{where}: got {got}, expected {expected} or None.")

    # ── walks ───────────────────────────────────────────────────────────────────────────────────

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> "Iterator[tuple[str, Module]]":
        """Yield this module and all below it with dotted names, parents first, each once."""
        memo = set() if memo is None else memo
        if remove_duplicate:
            if id(self) in memo:
                return
            memo.add(id(self))
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(memo, _join_names(prefix, name), remove_duplicate)

    def modules(self) -> "Iterator[Module]":
        """Yield this module and all below it, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> "Iterator[tuple[str, Module]]":
        """Yield the direct children with their names, each once."""
        seen: set[int] = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def children(self) -> "Iterator[Module]":
        """Yield the direct children, each once."""
        return (child for _, child in self.named_children())

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield the parameters with dotted names, a shared one once."""
        return self._named_tensors("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, a shared one once."""
        return (param for _, param in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield the buffers with dotted names, a shared one once."""
        return self._named_tensors("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers, a shared one once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    def _named_tensors(
        self, store: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        parts = self.named_modules(None, prefix, remove_duplicate) if recurse else [(prefix, self)]
        for path, part in parts:
            for name, value in part.__dict__[store].items():
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield _join_names(path, name), value

    def get_submodule(self, target: str) -> "Module":
        """Return the module with this dotted name, this one for the empty name."""
        module: Any = self
        for name in target.split(".") if target else ():
            module = module._modules.get(name)
            if module is None:
                raise AttributeError(
                    f"{type(self).__name__}: there is no module {target!r}: {name!r} is missing. "
                    "named_modules() lists them."
                )
        return module  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter with this dotted name."""
        return cast(Parameter, entry_of(self, "_parameters", target))

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer with this dotted name."""
        return entry_of(self, "_buffers", target)

    # ── changes to all ──────────────────────────────────────────────────────────────────────────

    def apply(self: M, fn: "Callable[[Module], object]") -> M:
        """Call `fn` with every module, children first, and return this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def train(self: M, mode: bool = True) -> M:
        """Put every module in training mode, or out of it, and return this one."""
        if not isinstance(mode, bool):
            raise ArgumentError(f"train: got mode {mode!r}, expected True or False.")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Put every module in evaluation mode and return this one."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Make every parameter collect gradients, or stop it."""
        for param in self.parameters():
            param.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or fill it with zeros."""
        for param in self.parameters():
            if param.grad is not None:
                param.grad = None if set_to_none else param.grad.detach() * 0

    def to(
        self: M,
        *targets: Any,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        non_blocking: bool = False,
    ) -> M:
        """Move to a device, convert to a floating dtype, or both, in place; return this module.

        Takes what `Tensor.to` takes. Parameters stay the same objects, so an optimizer keeps them.
        Integer and boolean buffers change device and keep their dtype.

        Raises:
            DTypeError: the dtype is not a floating one.
        """
        device, dtype = place_and_dtype(targets, device, dtype)
        if dtype is not None and as_dtype(dtype).kind != "f":
            raise DTypeError(
                f"Module.to: got {dtype}, expected a floating dtype: only those can be trained."
            )
        for part in self.modules():
            for value in (*part._parameters.values(), *part._buffers.values()):
                if value is not None:
                    _convert(value, device, dtype)
        return self

    float, double = _to("float32"), _to("float64")
    bfloat16, half, cpu = _to("bfloat16"), _to("float16"), _to("cpu")

    def cuda(self: M, device: int | str | None = None) -> M:
        """Move to a CUDA device, the first one unless told."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    # ── state ───────────────────────────────────────────────────────────────────────────────────

    def state_dict(self, *, prefix: str = "") -> dict[str, Tensor]:
        """Return parameters and saved buffers by dotted name; the tensors share memory with us."""
        return {prefix + name: value.detach() for name, value in self._saved_tensors()}

    def load_state_dict(
        self, state_dict: Mapping[str, object], strict: bool = True
    ) -> IncompatibleKeys:
        """Copy `state_dict` into the parameters and buffers, all or nothing.

        Args:
            state_dict: tensors or arrays by dotted name.
            strict: missing and unexpected keys are errors; otherwise they are returned.
        Raises:
            StateDictMismatch: a RuntimeError that lists every missing and unexpected key and every
                difference in shape; nothing has been copied.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(
                f"load_state_dict: got {type(state_dict).__name__}, expected a dict of tensors by "
                "name, as state_dict() gives it."
            )
        own = dict(self._saved_tensors())
        keys = compare_keys(own, state_dict)
        check_state(type(self).__name__, own, state_dict, keys if strict else None)
        with no_grad():
            for key, target in own.items():
                if key in state_dict:
                    source = state_dict[key]
                    target.copy_(source if isinstance(source, Tensor) else tensor(source))
        return keys

    def _saved_tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Yield parameters and saved buffers, module by module, a shared one under each name."""
        for path, part in self.named_modules(remove_duplicate=False):
            for name, param in part._parameters.items():
                if param is not None:
                    yield _join_names(path, name), param
            for name, buffer in part._buffers.items():
                if buffer is not None and name not in part.__dict__["_unsaved"]:
                    yield _join_names(path, name), buffer

    # ── printing ────────────────────────────────────────────────────────────────────────────────

    def extra_repr(self) -> str:
        """Return what stands between the parentheses; a subclass writes it."""
        return ""

    def _get_name(self) -> str:
        return type(self).__name__

    def _describe_modules(self) -> list[str]:
        return [f"({name}): {module!r}" for name, module in self._modules.items()]

    def __repr__(self) -> str:
        extra = self.extra_repr()
        lines = [*extra.splitlines(), *self._describe_modules()]
        if not self._modules and len(lines) < 2:
            return f"{self._get_name()}({extra})"
        inside = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {inside}\n)"


def _not_initialised(module: Module) -> AttributeError:
    return AttributeError(
        f"{type(module).__name__}: its __init__ has not called super().__init__(). "
        "Call it before setting parameters or modules."
    )


def _join_names(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _convert(tensor: Tensor, device: DeviceLike, dtype: DTypeLike) -> None:
    wanted = dtype if tensor.dtype.kind == "f" else None
    tensor.data = tensor.detach().to(device=device, dtype=wanted)
    if tensor.grad is not None:
        tensor.grad = tensor.grad.detach().to(device=device, dtype=wanted)
