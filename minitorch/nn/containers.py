"""Modules that hold modules: in a row, in a list, in a dict; and lists of parameters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from itertools import groupby
from typing import Any, ClassVar, TypeVar

from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor.tensor import Tensor

L = TypeVar("L", bound="_Listed")


class _Listed(Module):
    """What lists of modules and of parameters share: entries by number, named "0", "1", ..."""

    _store: ClassVar[str] = "_modules"

    def append(self: L, value: object) -> L:
        """Add a module, or parameter, at the end and return this container."""
        self.add_module(str(len(self)), value)  # type: ignore[arg-type]
        return self

    def extend(self: L, values: Iterable[object]) -> L:
        """Add modules, or parameters, at the end and return this container."""
        if not isinstance(values, Iterable):
            raise TypeError(
                f"{type(self).__name__}: got {type(values).__name__}, expected a list. Write "
                "brackets around it."
            )
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def insert(self, index: int, value: object) -> None:
        """Put a module, or parameter, in front of the one at `index`."""
        values = list(self)
        values.insert(index, value)
        self.__dict__[self._store].clear()
        self.extend(values)

    def pop(self, index: int = -1) -> Any:
        """Take out the entry at `index` and return it."""
        value = self[index]
        del self[index]
        return value

    def __delitem__(self, index: int | slice) -> None:
        values = list(self)
        del values[index]
        self.__dict__[self._store].clear()
        self.extend(values)

    def _key(self, index: Any) -> str:
        names = list(self.__dict__[self._store])
        try:
            key: str = names[index]
        except IndexError:
            raise IndexError(
                f"{type(self).__name__}: got index {index}, expected one below {len(names)}."
            ) from None
        return key

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])  # type: ignore[call-arg]
        return self.__dict__[self._store][self._key(index)]

    def __setitem__(self, index: int, value: object) -> None:
        setattr(self, self._key(index), value)

    def __len__(self) -> int:
        return len(self.__dict__[self._store])

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self.__dict__[self._store].values()))


class Sequential(_Listed):
    """Each module applied to the output of the one before; given one by one, or named in a dict."""

    def __init__(self, *modules: Module | Mapping[str, Module]) -> None:
        super().__init__()
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            named: Iterable[tuple[str, Any]] = modules[0].items()
        else:
            named = ((str(i), module) for i, module in enumerate(modules))
        for name, module in named:
            self.add_module(name, module)

    def forward(self, input: object) -> Any:
        for module in self._modules.values():
            input = module(input)  # type: ignore[misc]
        return input

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Sequential(dict(list(self._modules.items())[index]))  # type: ignore[arg-type]
        return super().__getitem__(index)

    def __add__(self, other: "Sequential") -> "Sequential":
        return Sequential(*self, *other)


class ModuleList(_Listed):
    """A list of modules whose parameters are found; it has no forward of its own."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    def __add__(self, other: Iterable[Module]) -> "ModuleList":
        return ModuleList([*self, *other])

    def _describe_modules(self) -> list[str]:
        """Neighbours that print alike are printed once."""
        lines, first = [], 0
        for text, group in groupby(map(repr, self)):
            last = first + len(list(group)) - 1
            places = f"({first}-{last}): {last - first + 1} x" if last > first else f"({first}):"
            lines.append(f"{places} {text}")
            first = last + 1
        return lines


class _Named(Module):
    """What a dict of modules and one of parameters share."""

    _store: ClassVar[str]

    def __init__(
        self, values: Mapping[str, object] | Iterable[tuple[str, object]] | None = None
    ) -> None:
        super().__init__()
        self.update(values or {})

    # Of Python's dicts: no base, or two modules of one content would be equal
    get: Callable[..., object] = Mapping.get
    pop: Callable[..., object] = MutableMapping.pop
    update: Callable[..., None] = MutableMapping.update

    def setdefault(self, name: str, default: object = None) -> object:
        """Return what has this name; `default` is put there first if there is nothing."""
        if name not in self:
            self[name] = default
        return self[name]

    def clear(self) -> None:
        """Take everything out."""
        self.__dict__[self._store].clear()

    def __setitem__(self, name: str, value: object) -> None:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[self._store][name]

    def __delitem__(self, name: str) -> None:
        del self.__dict__[self._store][name]

    def __contains__(self, name: object) -> bool:
        return name in self.__dict__[self._store]

    def __len__(self) -> int:
        return len(self.__dict__[self._store])

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__[self._store])

    def keys(self) -> Iterable[str]:
        """Return the names."""
        return self.__dict__[self._store].keys()  # type: ignore[no-any-return]

    def values(self) -> Iterable[Any]:
        """Return what is in it."""
        return self.__dict__[self._store].values()  # type: ignore[no-any-return]

    def items(self) -> Iterable[tuple[str, Any]]:
        """Return names, each with what it names."""
        return self.__dict__[self._store].items()  # type: ignore[no-any-return]


class ModuleDict(_Named):
    """A dict of modules whose parameters are found; it has no forward of its own."""

    _store = "_modules"

    def __setitem__(self, name: str, value: object) -> None:
        self.add_module(name, value)  # type: ignore[arg-type]


class ParameterDict(_Named):
    """A dict of parameters that are found; a tensor becomes one."""

    _store = "_parameters"

    def __setitem__(self, name: str, value: object) -> None:
        self.register_parameter(name, _as_parameter(value))


class ParameterList(_Listed):
    """A list of parameters that are found; a tensor becomes one."""

    _store = "_parameters"

    def __init__(self, values: Iterable[Tensor] | None = None) -> None:
        super().__init__()
        self.extend(() if values is None else values)

    def append(self: L, value: object) -> L:
        """Add a parameter at the end and return this list."""
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def __setitem__(self, index: int, value: object) -> None:
        super().__setitem__(index, _as_parameter(value))


def _as_parameter(value: object) -> Any:
    is_plain = isinstance(value, Tensor) and not isinstance(value, Parameter)
    return Parameter(value) if is_plain else value
