"""Mixed precision: `autocast` and `GradScaler`, which change nothing here.

On a GPU products in bfloat16 are faster. Here they are computed in float32 whatever they are stored
in, so a program under `autocast` runs in float32: no slower, and more exact.
"""

from contextlib import ContextDecorator
from typing import Any

from .arrays import DeviceLike, DTypeLike, as_dtype
from .errors import ArgumentError


class autocast(ContextDecorator):
    """A context, or decorator, in which everything stays as it is."""

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: DTypeLike = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> None:
        if str(device_type) not in ("cpu", "cuda"):
            raise ArgumentError(f"autocast: got {device_type!r}, expected 'cpu' or 'cuda'.")
        if dtype is not None and as_dtype(dtype).kind != "f":
            raise ArgumentError(f"autocast: got {dtype}, expected a floating dtype.")

    def __enter__(self) -> "autocast":
        return self

    def __exit__(self, *error: object) -> None:
        return None


class GradScaler:
    """Torch's scaler of losses, as it is where it is not enabled: it changes nothing.

    It keeps gradients in float16 from vanishing; here `autocast` leaves them in float32.
    """

    def __init__(
        self,
        device: DeviceLike = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        pass

    def is_enabled(self) -> bool:
        """Tell that losses are not scaled."""
        return False

    def get_scale(self) -> float:
        """Return what losses are multiplied by."""
        return 1.0

    def scale(self, outputs: Any) -> Any:
        """Return a loss as it is."""
        return outputs

    def unscale_(self, optimizer: Any) -> None:
        """Leave the gradients as they are."""

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Take the optimizer's step."""
        return optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | None = None) -> None:
        """Leave the scale as it is."""

    def state_dict(self) -> dict[str, Any]:
        """Return that there is nothing to keep."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state, which changes nothing."""


__all__ = ["GradScaler", "autocast"]
