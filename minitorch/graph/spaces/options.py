"""Settings of TensorFlow's sessions that programs pass along; here hardly any has an effect."""

from __future__ import annotations

from typing import Any


class Settings:
    """Holds whatever it is given, by name."""

    def __init__(self, **settings: Any) -> None:
        vars(self).update(settings)

    def __getattr__(self, name: str) -> Settings:
        if name.startswith("_"):
            raise AttributeError(name)
        found = Settings()
        setattr(self, name, found)
        return found


class ConfigProto(Settings):
    """What a session may use of the machine."""


class GPUOptions(Settings):
    """What a session may use of a GPU."""


class OptimizerOptions(Settings):
    """How TensorFlow was to rewrite graphs; here `Session(optimize=)` says whether to."""


class RunOptions(Settings):
    """What a run was to record; here `profile` does."""

    NO_TRACE, SOFTWARE_TRACE, HARDWARE_TRACE, FULL_TRACE = range(4)


class RunMetadata(Settings):
    """Where a run put what it had recorded."""


def waiting_limit_s(config: Any) -> float | None:
    """Return how long a run may wait for a queue, as a ConfigProto says; None for no limit."""
    found = vars(config).get("operation_timeout_in_ms") if isinstance(config, Settings) else None
    return found / 1000 if isinstance(found, int | float) and found > 0 else None
