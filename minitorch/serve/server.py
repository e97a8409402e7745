"""The front: applications over models, a deadline for every query, one answer to each.

    predict -> policy -> cache, or joined to an equal query in flight, or dispatcher -> container
            <- combined when all have answered, or at the deadline with what has arrived

May import: everything of minitorch.serve but http, load, simulation.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from random import Random
from typing import Any

from minitorch.errors import ArgumentError, DeadlineMissed, ModelFailed, ServeError, UnknownApp
from minitorch.serve.batching import Batching, controllers
from minitorch.serve.cache import MISS, Cache
from minitorch.serve.clock import Clock, LoopClock, Timer
from minitorch.serve.containers import Container, Hub
from minitorch.serve.dispatch import Dispatcher, Group, Query
from minitorch.serve.metering import Counts
from minitorch.serve.selection import POLICIES, Asked, Policy, Weights
from minitorch.serve.shipping import shipped
from minitorch.serve.wire import Errors, as_input

MARGIN_MS = 2.0  # an answer is sent off so much before the deadline, or a tenth of the goal
MOST_CONTEXTS = 10_000
MOST_RECORDS = 10_000  # predictions that can still be joined by feedback


@dataclass(frozen=True, slots=True)
class Prediction:
    """An answer.

    Attributes:
        value: what the models say, or the default.
        models: those whose answers it is made of.
        confidence: the share of the models asked that agree with it; 0 for the default.
        is_default: whether nothing had arrived.
        latency_ms: from asked to answered.
    """

    value: Any
    models: tuple[str, ...]
    confidence: float
    is_default: bool
    latency_ms: float


@dataclass(eq=False)
class Model:
    """A deployed model: a queue, its containers, what was counted."""

    name: str
    dispatcher: Dispatcher
    containers: list[Container] = field(default_factory=list)
    version: int = 0
    counts: Counts = field(default_factory=Counts)
    restarts: int = 0  # of versions before this one
    pending: dict[Hashable, "_Pending"] = field(default_factory=dict)
    shapes: set[tuple[int, ...]] = field(default_factory=set)  # inputs that it has answered
    deploying: asyncio.Lock = field(default_factory=asyncio.Lock)


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

    def finish(self, now_ms: float) -> None:
        """Answer with what has arrived, else with the default, else with the error."""
        if self.future.done():
            return
        app, took_ms = self.app, now_ms - self.asked_ms
        if self.values:
            try:
                value, share = app.policy.combine(self.weights, self.asked, self.values)
                models = tuple(self.values)
                self.future.set_result(Prediction(value, models, share, False, took_ms))
                return
            except Exception as error:  # models may answer anything
                self.error = ModelFailed(f"predict: {app.name}: answers do not combine: {error}.")
        if app.default is not None:
            self.future.set_result(Prediction(app.default, (), 0.0, True, took_ms))
        else:
            had_ms = round(self.due_ms - self.asked_ms, 3)
            late = DeadlineMissed(f"predict: {app.name}: no model has answered within {had_ms} ms.")
            self.future.set_exception(self.error or late)


@dataclass(slots=True, eq=False)
class _Pending:
    """A query in flight and all who asked for the same."""

    key: Hashable
    group: Group
    data: bytes
    asks: list[Ask]


class Server:
    """A prediction server: `async with Server() as server`, once.

    Args:
        slo_ms: the goal: every query is answered within it.
        batching: "aimd", "quantile", "none", or what makes a `Controller` of its goal in ms.
        delay_ms: how long a batch that is not full waits for more queries.
        cache_mib: the size of the cache of answers; 0 keeps none.
        clock: a `Clock`; the event loop's by default.
        hang_ms: a container that takes longer over a batch is killed; ten goals and 3 s at least.

    Raises:
        ArgumentError: a value that makes no sense.
    """

    def __init__(
        self,
        slo_ms: float = 20.0,
        batching: Batching = "aimd",
        delay_ms: float = 0.0,
        cache_mib: float = 32,
        clock: Clock | None = None,
        *,
        hang_ms: float | None = None,
    ) -> None:
        for what, value, least in (("slo_ms", slo_ms, 1e-3), ("delay_ms", delay_ms, 0.0),
                                   ("cache_mib", cache_mib, 0.0)):  # fmt: skip
            if not (isinstance(value, int | float) and least <= value < math.inf):
                raise ArgumentError(f"Server: {what}: got {value!r}, expected at least {least:g}.")
        self.slo_ms = slo_ms
        self._controllers = controllers("Server", batching)
        self._delay_ms = delay_ms
        self._cache = Cache(int(cache_mib * 2**20))
        self._clock = clock
        self._hang_ms = max(3_000.0, 10 * slo_ms) if hang_ms is None else hang_ms
        self._known: dict[str, Model] = {}  # also those whose first deploy has not ended yet
        self._models: dict[str, Model] = {}
        self._apps: dict[str, App] = {}
        self._containers: set[Container] = set()
        self._asks: deque[Ask] = deque()
        self._timer: Timer | None = None
        self._hub: Hub | None = None
        self._was_opened = False

    async def __aenter__(self) -> "Server":
        if self._was_opened:
            raise ServeError("Server: it has been opened before: make another.")
        self._hub = Hub()
        self._was_opened = True
        self._now = self._clock or LoopClock()
        return self

    async def __aexit__(self, *_: object) -> None:
        hub, self._hub = self._hub, None
        self._stop([*self._containers])
        if self._timer is not None:
            self._timer.cancel()
        for ask in self._asks:
            ask.error = ServeError("predict: the server was closed.")
            ask.finish(self._now.now_ms())
        self._asks.clear()
        if hub is not None:
            hub.close()

    # ---- models

    async def deploy(self, name: str, model: Any, replicas: int = 1) -> None:
        """Run a model in processes of its own, in place of one of that name, if there is one.

        It is `model(batch) -> results` and can be pickled, or a function without arguments that
        makes it. The old version answers until all replicas of the new one are ready.

        Raises:
            ArgumentError: no name, no replica, or a model that cannot be pickled.
            ModelFailed: it cannot be made in its container; what was there goes on.
        """
        hub = self._open("deploy")
        if not isinstance(name, str) or not name:
            raise ArgumentError(f"deploy: name: got {name!r}, expected text.")
        if not isinstance(replicas, int) or replicas < 1:
            raise ArgumentError(f"deploy: replicas: got {replicas!r}, expected at least 1.")
        data = shipped(model)
        if name not in self._known:
            queue = Dispatcher(self._now, hub.loop.call_soon, self._delay_ms)
            self._known[name] = Model(name, queue)
        into = self._known[name]
        async with into.deploying:
            self._open("deploy")  # still, after others of that name
            fresh: list[Container] = []
            try:
                for _ in range(replicas):
                    fresh.append(self._container(into, data, hub))
                await asyncio.gather(*(container.ready for container in fresh))
                self._open("deploy")
            except BaseException:
                self._stop(fresh)
                raise
            self._models[name] = into
            self._swap(into, fresh)

    def _container(self, model: Model, data: bytes, hub: Hub) -> Container:
        make = partial(self._controllers, self.slo_ms)
        done = partial(self._answer, model)
        container = Container(
            model.name, data, hub, self._now, model.dispatcher, make, self._hang_ms, done
        )
        self._containers.add(container)
        return container

    def _stop(self, containers: Sequence[Container]) -> None:
        for container in containers:
            container.stop()
            self._containers.discard(container)

    def _swap(self, model: Model, fresh: list[Container]) -> None:
        old, model.containers = model.containers, fresh
        model.version += 1
        model.shapes = set()
        for container in fresh:
            container.join()
        for container in old:
            model.restarts += container.restarts
            container.retire()
        self._containers -= {kept for kept in self._containers if kept.has_ended}

    def _open(self, operation: str) -> Hub:
        if self._hub is None:
            raise ServeError(f"{operation}: the server is not open: use `async with Server()`.")
        return self._hub

    # ---- applications

    async def link(
        self, app: str, models: Sequence[str], policy: str = "first", default: Any = None
    ) -> None:
        """Make an application of models: what `predict` asks by its name.

        Args:
            models: names of deployed models.
            policy: "first", "exp3", "exp4" or "ensemble".
            default: the answer where no model has one; without it, `predict` raises.

        Raises:
            ArgumentError: an unknown policy, no models, one twice, or one that is not deployed.
        """
        self._open("link")
        names = (models,) if isinstance(models, str) else tuple(models)
        unknown = [name for name in names if name not in self._models]
        if not isinstance(app, str) or not app:
            raise ArgumentError(f"link: app: got {app!r}, expected text.")
        if not names or unknown or len(set(names)) < len(names):
            deployed = ", ".join(map(repr, self._models)) or "none"
            raise ArgumentError(
                f"link: models of {app!r}: got {list(names)}, expected at least one of those "
                f"deployed ({deployed}), each once."
            )
        if policy not in POLICIES:
            known = ", ".join(map(repr, POLICIES))
            raise ArgumentError(f"link: policy: got {policy!r}, expected one of {known}.")
        self._apps[app] = App(app, names, POLICIES[policy](), default)
        self._apps[app].weights_of(None)

    async def predict(self, app: str, x: Any, context: Hashable = None) -> Prediction:
        """Return the answer by the deadline: of what has arrived, else the default.

        Args:
            x: one input: numbers or text, as an array or nested lists.
            context: whose weights count, for policies that learn: a user, a region.

        Raises:
            UnknownApp: there is none of that name.
            ShapeError, DTypeError: x is no plain array.
            ModelFailed, ContainerDied, DeadlineMissed: no answer, and no default.
        """
        return await self.ask(app, x, context)

    def ask(self, app: str, x: Any, context: Hashable = None) -> "asyncio.Future[Prediction]":
        """Send a query and return its answer to come: `predict` without the coroutine."""
        return self.send(app, x, context).future

    def send(self, app: str, x: Any, context: Hashable = None) -> Ask:
        """Send a query; what comes back knows more than its answer."""
        hub = self._open("predict")
        to = self._app(app, context)
        array = as_input(x)
        data = array.tobytes()
        group = (array.dtype.str, array.shape)
        digest = blake2b(data, digest_size=16).digest()
        weights = to.weights_of(context)
        asked = to.policy.ask(weights, to.rng)
        now_ms = self._now.now_ms()
        due_ms = now_ms + self.slo_ms - min(MARGIN_MS, 0.1 * self.slo_ms)
        ask = Ask(to, weights, asked, hub.loop.create_future(), now_ms, due_ms, set(asked))
        if to.policy.learns:
            to.records.setdefault((digest, group, context), deque(maxlen=64)).append(ask)
            if len(to.records) > MOST_RECORDS:
                to.records.popitem(last=False)
        for name in ask.asked:
            self._query(self._models[name], (name, digest, group), group, data, ask)
        if not ask.future.done():
            self._asks.append(ask)
            if self._timer is None:
                self._timer = self._now.call_at(ask.due_ms, self._expire)
        return ask

    def _app(self, name: str, context: Hashable) -> App:
        app = self._apps.get(name) if isinstance(name, str) else None
        if app is None:
            known = ", ".join(map(repr, self._apps)) or "none"
            raise UnknownApp(f"predict: no app {name!r}. There are: {known}.")
        if context is not None and not isinstance(context, str | int | float):
            raise ArgumentError(
                f"predict: context: got {type(context).__name__}, expected text or a number."
            )
        return app

    def _query(
        self, model: Model, key: tuple[str, bytes, Any], group: Group, data: bytes, ask: Ask
    ) -> None:
        """Get one model's answer from the cache, from an equal query in flight, or from a batch."""
        kept = (*key, model.version)
        value = self._cache.get(kept)
        pending = model.pending.get(kept)
        if value is not MISS:
            model.counts.cache_hits += 1
            self._arrived(model, ask, value, None)
        elif pending is not None:
            model.counts.cache_hits += 1
            pending.asks.append(ask)
        else:
            pending = model.pending[kept] = _Pending(kept, group, data, [ask])
            self._submit(model, pending, ask.asked_ms, ask.due_ms)

    def _submit(self, model: Model, pending: _Pending, asked_ms: float, due_ms: float) -> None:
        answer = partial(self._resolve, model, pending)
        model.dispatcher.submit(Query(pending.data, pending.group, asked_ms, due_ms, answer))

    def _answer(self, model: Model, batch: list[Query], results: list[Any], errors: Errors) -> None:
        """Hand the results of a batch to its queries, and to each error its own."""
        model.counts.batches += 1
        model.counts.queries += len(batch)
        left = iter(results)
        for at, query in enumerate(batch):
            if at not in errors:
                query.answer(next(left), None)
                continue
            kind, words = errors[at]
            shape = query.group[1]
            strange = bool(model.shapes) and shape not in model.shapes
            said = f"predict: {model.name}: {words}"
            query.answer(None, ModelFailed(said, words.partition(":")[0], bool(kind) or strange))
        if results and len(model.shapes) < 64:
            model.shapes.add(batch[0].group[1])

    def _resolve(
        self, model: Model, pending: _Pending, value: Any, error: ServeError | None
    ) -> None:
        """Answer all who wait for a query; those who joined it late may have time for another."""
        now_ms = self._now.now_ms()
        if isinstance(error, DeadlineMissed):
            gone = [ask for ask in pending.asks if ask.due_ms <= now_ms + 1.0]
            still = [ask for ask in pending.asks if ask.due_ms > now_ms + 1.0]
            if still and gone:
                pending.asks = still
                for ask in gone:
                    self._arrived(model, ask, None, error)
                again = partial(self._submit, model, pending, still[0].asked_ms, still[0].due_ms)
                self._open("predict").loop.call_soon(again)  # the dispatcher is in the middle
                return
        model.pending.pop(pending.key, None)
        if error is None:
            self._cache.put(pending.key, value)
            if not pending.asks[0].future.done():
                model.counts.served += 1
        for ask in pending.asks:
            self._arrived(model, ask, value, error)

    def _arrived(self, model: Model, ask: Ask, value: Any, error: ServeError | None) -> None:
        now_ms = self._now.now_ms()
        if error is None:
            ask.values[model.name] = value
        if model.name not in ask.waits:
            return
        ask.waits.discard(model.name)
        if error is None:
            model.counts.latency_ms.append(now_ms - ask.asked_ms)
        else:
            ask.error = error
            model.counts.late += isinstance(error, DeadlineMissed)
            model.counts.failed += not isinstance(error, DeadlineMissed)
        if not ask.waits and (ask.values or type(error) is not DeadlineMissed):
            ask.finish(now_ms)  # who is late is told at the deadline: told at once, they come again

    def _expire(self) -> None:
        """At the deadline, answer with what has arrived."""
        now_ms = self._now.now_ms()
        while self._asks and (self._asks[0].future.done() or self._asks[0].due_ms <= now_ms):
            ask = self._asks.popleft()
            if not ask.future.done():
                for name in ask.waits:
                    self._models[name].counts.late += 1
                ask.waits = set()
                ask.finish(now_ms)
        self._timer = self._now.call_at(self._asks[0].due_ms, self._expire) if self._asks else None

    # ---- feedback

    async def feedback(self, app: str, x: Any, label: Any, context: Hashable = None) -> None:
        """Tell what the right answer would have been; the policy learns from what was predicted.

        A prediction is joined once, the oldest of equal ones first; where there is none that is
        remembered, the models are asked now.

        Raises:
            UnknownApp, ShapeError, DTypeError: as `predict`.
        """
        self._open("feedback")
        to = self._app(app, context)
        array = as_input(x)
        if not to.policy.learns:
            return
        digest = blake2b(array.tobytes(), digest_size=16).digest()
        key = (digest, (array.dtype.str, array.shape), context)
        if key not in to.records:
            self.send(app, x, context)
        asks = to.records[key]
        ask = asks.popleft()
        if not asks:
            del to.records[key]
        await asyncio.wait([ask.future])
        if ask.future.cancelled():  # nobody has waited for it: the next one, or a fresh one
            await self.feedback(app, x, label, context)
        elif ask.values or ask.future.exception() is not None:
            to.policy.learn(ask.weights, ask.asked, ask.values, label)

    # ---- what can be seen

    def metrics(self) -> dict[str, Any]:
        """Return what was counted: for each model, and for each app its weights by context."""
        models = {}
        for model in self._models.values():
            restarts = model.restarts + sum(container.restarts for container in model.containers)
            models[model.name] = model.counts.as_dict(restarts)
        apps = {
            app.name: {"weights": {context: dict(w) for context, w in app.weights.items()}}
            for app in self._apps.values()
        }
        return {"models": models, "apps": apps}

    def unhealthy(self) -> list[str]:
        """Return the models of which no container serves."""
        return [
            model.name
            for model in self._models.values()
            if not any(container.is_serving for container in model.containers)
        ]
