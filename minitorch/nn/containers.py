"""Modules that hold modules: in a row, in a list, in a dict; and lists of parameters."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, ClassVar, TypeVar

from minitorch.nn.module import M, Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor.tensor import Tensor

L = TypeVar("L", bound="_Listed")


class _Listed(Module):
    """What modules in a row and in a list share: children by number, named "0", "1", ..."""

    def append(self: M, module: Module) -> M:
        """Add a module at the end and return this container."""
        self.add_module(str(len(self._modules)), module)
        return self

    def extend(self: L, modules: Iterable[Module]) -> L:
        """Add modules at the end and return this container."""
        for module in modules:
            self.append(module)
        return self

    __iadd__ = extend

    def insert(self, index: int, module: Module) -> None:
        """Put a module in front of the one at `index`."""
        modules = list(self)
        modules.insert(index, module)
        self._modules.clear()
        self.extend(modules)

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self)
        del modules[index]
        self._modules.clear()
        self.extend(modules)

    def _key(self, index: Any) -> str:
        names = list(self._modules)
        try:
            key: str = names[index]
        except IndexError:
            raise IndexError(
                f"{type(self).__name__}: got index {index}, expected one below {len(names)}."
            ) from None
        return key

    def __getitem__(self, index: int | slice) -> Any:
        return self._modules[self._key(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        self._modules[self._key(index)] = module

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._modules.values()))


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

    def forward(self, x: object) -> Any:
        for module in self._modules.values():
            x = module(x)  # type: ignore[misc]
        return x

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Sequential(dict(list(self._modules.items())[index]))  # type: ignore[arg-type]
        return super().__getitem__(index)


class ModuleList(_Listed):
    """A list of modules whose parameters are found; it has no forward of its own."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return ModuleList(list(self)[index])
        return super().__getitem__(index)

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

    def __init__(self, values: Mapping[str, object] | None = None) -> None:
        super().__init__()
        self.update(values or {})

    def update(self, values: Mapping[str, object]) -> None:
        """Add values by name."""
        for name, value in values.items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
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

    def __setitem__(self, name: str, value: Module) -> None:
        self.add_module(name, value)


class ParameterDict(_Named):
    """A dict of parameters that are found; a tensor becomes one."""

    _store = "_parameters"

    def __setitem__(self, name: str, value: Tensor) -> None:
        self.register_parameter(name, value if isinstance(value, Parameter) else Parameter(value))


class ParameterList(Module):
    """A list of parameters that are found."""

    def __init__(self, parameters: Iterable[Parameter] = ()) -> None:
        super().__init__()
        for param in parameters:
            self.append(param)

    def append(self, param: Parameter) -> "ParameterList":
        """Add a parameter at the end and return this list."""
        self.register_parameter(str(len(self)), param)
        return self

    def __getitem__(self, index: int) -> Any:
        return list(self._parameters.values())[index]

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._parameters.values()))
