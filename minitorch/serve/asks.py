"""What is asked: applications, a call of predict until it is answered, and the answer.

May import: errors, selection, wire.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from minitorch.errors import ArgumentError, DeadlineMissed, ModelFailed, ServeError
from minitorch.serve.selection import POLICIES, Asked, Policy, Weights
from minitorch.serve.wire import callers_own

MOST_CONTEXTS = 10_000
LONGEST_CONTEXT = 256  # characters: so many are kept


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer."""

    value: Any  # what the models say, or the default; the caller's own, an array is read-only
    models: tuple[str, ...]  # those whose answers it is made of
    confidence: float  # the share of the models asked that agree with it; 0 for the default
    is_default: bool  # whether nothing had arrived
    latency_ms: float  # from asked to answered


@dataclass(eq=False)
class App:
    """An application: models, a policy, and the weights of each context."""

    name: str
    models: tuple[str, ...]
    policy: Policy
    default: Any
    rng: Random = field(default_factory=partial(Random, 0))
    weights: OrderedDict[Hashable, Weights] = field(default_factory=OrderedDict)
    records: "OrderedDict[Hashable, deque[Ask]]" = field(default_factory=OrderedDict)

    def weights_of(self, context: Hashable) -> Weights:
        """Return the weights of a context, equal at first; the longest unused are forgotten."""
        if context not in self.weights:
            self.weights[context] = dict.fromkeys(self.models, 1 / len(self.models))
            if len(self.weights) > MOST_CONTEXTS:
                self.weights.popitem(last=False)
        self.weights.move_to_end(context)
        return self.weights[context]


def check_name(operation: str, name: object, others: Collection[str]) -> None:
    """Raise ArgumentError where a model cannot be called so; `others` are of the other kind."""
    if not isinstance(name, str) or not name:
        raise ArgumentError(f"{operation}: name: got {name!r}, expected text.")
    if name in others:
        raise ArgumentError(
            f"{operation}: {name!r} is deployed as the other kind. Take another name."
        )


def check_context(operation: str, context: object) -> None:
    """Raise ArgumentError for what weights cannot be kept by."""
    if not isinstance(context, str | int | float | None):
        kind = type(context).__name__
        raise ArgumentError(f"{operation}: context: got {kind}, expected text or a number.")
    if isinstance(context, str) and len(context) > LONGEST_CONTEXT:
        raise ArgumentError(
            f"{operation}: context: got {len(context)} characters, expected {LONGEST_CONTEXT} at "
            "most. Send a short name, or a hash."
        )


def link_models(
    name: str, models: tuple[str, ...], policy: str, default: object,
    predictors: Collection[str], generators: Collection[str],
) -> App:  # fmt: skip
    """Return an application of models that are deployed; `Server.link` says what each must be."""
    deployed = [*predictors, *generators]
    if not models or len(set(models)) < len(models) or not set(models) <= set(deployed):
        expected = f"at least one of those deployed, {deployed}, each once"
        raise ArgumentError(f"link: models of {name!r}: got {[*models]}, expected {expected}.")
    if policy not in POLICIES:
        raise ArgumentError(f"link: policy: got {policy!r}, expected one of {[*POLICIES]}.")
    is_alone = len(models) == 1 and policy == "first" and default is None
    if set(models) & set(generators) and not is_alone:
        raise ArgumentError(
            f'link: {name!r}: a generator is linked alone, by policy "first" and without a '
            f"default: got {[*models]}, {policy!r}, {default!r}."
        )
    app = App(name, models, POLICIES[policy](), callers_own(default))
    app.weights_of(None)
    return app


@dataclass(slots=True, eq=False)
class Ask:
    """One call of predict, until it is answered, and afterwards what feedback joins."""

    app: App
    weights: Weights
    asked: Asked
    future: "asyncio.Future[Prediction]"
    asked_ms: float
    due_ms: float
    waits: set[str]
    values: dict[str, Any] = field(default_factory=dict)
    error: ServeError | None = None
    gone: tuple[str, ...] = ()  # models that had no process at the deadline

    def finish(self, now_ms: float) -> None:
        """Answer with what has arrived, else with the default, else with the error."""
        if self.future.done():
            return
        app, took_ms = self.app, now_ms - self.asked_ms
        if self.values:
            try:
                value, share = app.policy.combine(self.weights, self.asked, self.values)
                models = tuple(self.values)
                own = callers_own(value)
                self.future.set_result(Prediction(own, models, share, False, took_ms))
                return
            except Exception as error:  # models may answer anything
                self.error = ModelFailed(f"predict: {app.name}: answers do not combine: {error}.")
        if app.default is not None:
            default = callers_own(app.default)
            self.future.set_result(Prediction(default, (), 0.0, True, took_ms))
        else:
            within = f"within {self.due_ms - self.asked_ms:g} ms"
            advice = "Ask again later; more replicas, a larger slo_ms or a default help."
            if self.gone:
                advice = f"The process of {', '.join(self.gone)} has ended and starts again; does "
                advice += "the model end it (os._exit, a crash, memory)?"
            late = DeadlineMissed(f"predict: {app.name}: no model has answered {within}. {advice}")
            self.future.set_exception(self.error or late)
