"""Random numbers: one generator a device, seeded by `manual_seed`.

On the CPU numbers come from NumPy's PCG64; on CUDA from the generator of the array library.
"""

import importlib
import math
import os
import threading
from typing import Any

import numpy as np

from . import allocator
from .library import CPU, Array, Device, DType, cast, device, namespace_on, native_device


class Generator:
    """A stream of random numbers on one device."""

    def __init__(self, place: object = "cpu") -> None:
        self.device = device(place)
        self._on_host = namespace_on(self.device) is np
        self._lock = threading.Lock()
        self._seed = 0
        self.manual_seed(int.from_bytes(os.urandom(4), "little"))

    def manual_seed(self, seed: int) -> "Generator":
        """Start the stream anew at `seed`; return the generator."""
        self._seed = int(seed)
        self._host = np.random.Generator(np.random.PCG64(self._seed % 2**64))
        self._native: Any = None
        if not self._on_host:
            torch = importlib.import_module("torch")
            self._native = torch.Generator(device=native_device(self.device))
            self._native.manual_seed(self._seed % 2**63)
        return self

    def initial_seed(self) -> int:
        """Return the seed that the stream was started with."""
        return self._seed

    def get_state(self) -> Any:
        """Return the state of the stream, for `set_state`."""
        return self._host.bit_generator.state if self._native is None else self._native.get_state()

    def set_state(self, state: Any) -> "Generator":
        """Put the stream back to a state from `get_state`; return the generator."""
        if self._native is None:
            self._host.bit_generator.state = state
        else:
            self._native.set_state(state)
        return self

    def uniform(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return numbers evenly spread in [0, 1)."""
        return self._draw("random", "rand", shape, dtype)

    def normal(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return numbers of the normal distribution with mean 0 and variance 1."""
        return self._draw("standard_normal", "randn", shape, dtype)

    def _draw(self, host: str, native: str, shape: tuple[int, ...], dtype: DType) -> Array:
        """Draw by NumPy's method `host`, or by torch's function `native`."""
        with self._lock:
            if self._native is None:
                wide = np.float64 if dtype.itemsize >= 8 else np.float32
                draw, large = getattr(self._host, host), math.prod(shape) * 4 > allocator.LARGE
                into = {"out": allocator.cpu.empty(shape, np.dtype(wide))} if large else {}
                return cast(draw(shape, dtype=wide, **into), dtype)
            torch = importlib.import_module("torch")
            drawn: Array = getattr(torch, native)(
                shape,
                generator=self._native,
                dtype=getattr(torch, dtype.name),
                device=native_device(self.device),
            )
            return drawn

    def integers(self, low: int, high: int, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return integers in [low, high)."""
        with self._lock:
            numbers = self._host.integers(low, high, shape, dtype=np.int64)
        return self._place(cast(numbers, dtype))

    def permutation(self, count: int) -> Array:
        """Return 0 to count - 1 in random order."""
        with self._lock:
            return self._place(self._host.permutation(count))

    def _place(self, numbers: Array) -> Array:
        if self._native is None:
            return numbers
        return namespace_on(self.device).asarray(numbers, device=native_device(self.device))


_defaults: dict[tuple[str, bool], Generator] = {}
_seed: list[int] = []


def default_generator(place: Device = CPU) -> Generator:
    """Return the generator that a device uses unless one is given."""
    key = (str(place), namespace_on(place) is np)
    generator = _defaults.get(key)
    if generator is None:
        generator = _defaults[key] = Generator(place)
        if _seed:
            generator.manual_seed(_seed[0])
    return generator


def manual_seed(seed: int) -> Generator:
    """Start the random numbers of every device anew at `seed`; return the CPU's generator."""
    _seed[:] = [int(seed)]
    for generator in _defaults.values():
        generator.manual_seed(seed)
    return default_generator()


def get_rng_state() -> object:
    """Return the state of the CPU's random numbers, for `set_rng_state`."""
    return default_generator().get_state()


def set_rng_state(new_state: object) -> None:
    """Put the CPU's random numbers back to a state from `get_rng_state`."""
    default_generator().set_state(new_state)


def initial_seed() -> int:
    """Return the seed that the CPU's random numbers were started with."""
    return default_generator().initial_seed()
