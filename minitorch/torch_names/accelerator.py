"""The accelerator of this machine, whatever its kind: CUDA, or none."""

from minitorch.arrays.library import Device

from .cuda import device_count, is_available, synchronize


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the kind of accelerator, as a device without index; None where there is none."""
    return Device("cuda") if is_available() else None


__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]
