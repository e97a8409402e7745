"""What a wrapped module still offers of its own: torch's names, with `module.` before its own.

May import: the standard library.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self

PREFIX = "module."


class Wrapper:
    """A part of `ArrayDistributedDataParallel`, for programs that take it for a module."""

    module: Any

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        training: bool = self.module.training
        return training

    def parameters(self) -> Iterator[Any]:
        """Yield the module's parameters."""
        yield from self.module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, parameter), names prefixed with `module.` as torch does."""
        for name, param in self.module.named_parameters():
            yield PREFIX + name, param

    def buffers(self) -> Iterator[Any]:
        """Yield the module's buffers."""
        yield from self.module.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, buffer), names prefixed with `module.` as torch does."""
        for name, buffer in self.module.named_buffers():
            yield PREFIX + name, buffer

    def state_dict(self) -> dict[str, Any]:
        """Return the module's state, names prefixed with `module.` as torch does."""
        return {PREFIX + name: value for name, value in self.module.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Any:
        """Load what `state_dict` returned; every rank loads the same.

        Raises:
            KeyError: a name does not begin with `module.`; load it into `.module`.
        """
        foreign = next((name for name in state if not name.startswith(PREFIX)), None)
        if foreign is not None:
            raise KeyError(
                f"load_state_dict: got {foreign!r}, expected names that begin with {PREFIX!r}. "
                "Load the state of a bare module with model.module.load_state_dict(state)."
            )
        bare = {name.removeprefix(PREFIX): value for name, value in state.items()}
        return self.module.load_state_dict(bare, strict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or fill it with zeros."""
        self.module.zero_grad(set_to_none)

    def train(self, mode: bool = True) -> Self:
        """Put the module in training mode."""
        self.module.train(mode)
        return self

    def eval(self) -> Self:
        """Put the module in evaluation mode."""
        self.module.eval()
        return self
