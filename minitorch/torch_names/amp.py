"""Mixed precision: `autocast`, which changes nothing here, and `GradScaler`.

On a GPU products in bfloat16 are faster. Here they are computed in float32 whatever they are stored
in, so a program under `autocast` runs in float32: no slower, and more exact.
"""

from contextlib import ContextDecorator
from typing import Any

from minitorch.arrays.library import DeviceLike, DTypeLike, as_dtype
from minitorch.errors import ArgumentError
from minitorch.tensor.modes import no_grad

from . import cuda


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
    """Scales a loss, so that gradients in float16 do not vanish, and skips steps that overflow.

    The scale halves (`backoff_factor`) when a gradient is infinite or NaN, and doubles
    (`growth_factor`) after `growth_interval` steps without one.

    Source: Micikevicius et al., Mixed Precision Training, ICLR 2018.
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
        if growth_factor <= 1.0 or backoff_factor >= 1.0:
            raise ArgumentError(
                f"GradScaler: got growth_factor {growth_factor} and backoff_factor "
                f"{backoff_factor}, expected more than 1 and less than 1."
            )
        self._enabled = enabled and (str(device) == "cpu" or cuda.is_available())
        self._state: dict[str, Any] = {
            "scale": init_scale,
            "growth_factor": growth_factor,
            "backoff_factor": backoff_factor,
            "growth_interval": growth_interval,
            "_growth_tracker": 0,
        }
        self._overflows: dict[int, bool] = {}  # of the optimizers unscaled since `update`

    def is_enabled(self) -> bool:
        """Tell whether losses are scaled: not for CUDA where there is none."""
        return self._enabled

    def get_scale(self) -> float:
        """Return what losses are multiplied by."""
        return float(self._state["scale"]) if self._enabled else 1.0

    def scale(self, outputs: Any) -> Any:
        """Return a tensor, or each of several, times the scale."""
        if isinstance(outputs, list | tuple):
            return type(outputs)(self.scale(output) for output in outputs)
        return outputs * self._state["scale"] if self._enabled else outputs

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, before clipping say.

        Raises:
            RuntimeError: they have been, since the last `update`.
        """
        if not self._enabled:
            return
        if id(optimizer) in self._overflows:
            raise RuntimeError("GradScaler: unscale_ was called twice. Call update() in between.")
        params = [param for group in optimizer.param_groups for param in group["params"]]
        grads = [param.grad for param in params if param.grad is not None]
        with no_grad():
            for grad in grads:
                grad.mul_(1.0 / self._state["scale"])
        self._overflows[id(optimizer)] = not all(bool(grad.isfinite().all()) for grad in grads)

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """Unscale unless that was done, and take the optimizer's step if all is finite."""
        if self._enabled and id(optimizer) not in self._overflows:
            self.unscale_(optimizer)
        return None if self._overflows.get(id(optimizer)) else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | None = None) -> None:
        """Set the scale for the next step: to `new_scale`, or by what the gradients were."""
        state = self._state
        if not self._enabled:
            return
        if new_scale is not None:
            state["scale"] = float(new_scale)
        elif any(self._overflows.values()):
            state.update(scale=state["scale"] * state["backoff_factor"], _growth_tracker=0)
        elif state["_growth_tracker"] + 1 == state["growth_interval"]:
            state.update(scale=state["scale"] * state["growth_factor"], _growth_tracker=0)
        else:
            state["_growth_tracker"] += 1
        self._overflows.clear()

    def state_dict(self) -> dict[str, object]:
        """Return what `load_state_dict` takes; empty where nothing is scaled."""
        return dict(self._state) if self._enabled else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        if self._enabled:
            self._state.update(state_dict)


__all__ = ["GradScaler", "autocast"]
