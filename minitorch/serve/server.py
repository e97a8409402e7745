"""The front: applications over models, a deadline for every query, one answer to each.

    predict -> policy -> cache, or joined to an equal query in flight, or dispatcher -> container
            <- combined when all have answered, or at the deadline with what has arrived

May import: asks, batching, cache, clock, containers, dispatch, errors, generation, replicas,
wire.
"""

import asyncio
import math
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from itertools import count
from numbers import Integral
from typing import Any

from minitorch.errors import ArgumentError, DeadlineMissed, ServeError, UnknownApp
from minitorch.serve.asks import App, Ask, Prediction, check_context, check_name, link_models
from minitorch.serve.batching import Batching, controllers
from minitorch.serve.cache import MISS, Cache
from minitorch.serve.clock import Clock, LoopClock, Timer
from minitorch.serve.containers import Hub, check_model, pickle_model
from minitorch.serve.dispatch import Dispatcher, Group, Query
from minitorch.serve.generation.engine import Engine, GeneratorCounts
from minitorch.serve.generation.reply import Stream, request, texts_of
from minitorch.serve.generation.scheduler import Scheduler
from minitorch.serve.replicas import Model, Replica
from minitorch.serve.wire import digest_input

MARGIN_MS = 2.0  # an answer is sent off so much before the deadline, or a tenth of the goal
Key = tuple[str, int, bytes, Group]  # of an answer: model, version, digest of the input, group
MOST_RECORDS = 10_000  # predictions that can still be joined by feedback


class Server:
    """A prediction server: `async with Server() as server`, once.

    Args:
        slo_ms: the goal: every query is answered within it.
        batching: "aimd", "quantile", "none", or what makes a `Controller` of its goal in ms.
        delay_ms: how long a batch that is not full waits for more queries.
        cache_mib: the size of the cache of answers; 0 keeps none.
        clock: a `Clock`; the event loop's by default.
        hang_ms: a container that takes longer over a batch is killed; ten goals and 3 s at least;
            for a generator's iteration a minute.
    """

    def __init__(
        self, slo_ms: float = 20.0, batching: Batching = "aimd", delay_ms: float = 0.0,
        cache_mib: float = 32, clock: Clock | None = None, *, hang_ms: float | None = None,
    ) -> None:  # fmt: skip
        for name, value, least in (("slo_ms", slo_ms, 1e-3), ("delay_ms", delay_ms, 0.0),
                                   ("cache_mib", cache_mib, 0.0)):  # fmt: skip
            if not (isinstance(value, int | float) and least <= value < math.inf):
                raise ArgumentError(f"Server: {name}: got {value!r}, expected at least {least:g}.")
        self.slo_ms = slo_ms
        self._controllers = controllers("Server", batching)
        self._delay_ms = delay_ms
        self._cache = Cache(int(cache_mib * 2**20))
        self._clock = clock
        self._hang_ms = max(3_000.0, 10 * slo_ms) if hang_ms is None else hang_ms
        self._generator_hang_ms = hang_ms
        self._known: dict[str, Model] = {}  # also those whose first deploy has not ended yet
        self._models: dict[str, Model] = {}
        self._generators: dict[str, Engine] = {}
        self._numbers = count()  # of requests to generate
        self._apps: dict[str, App] = {}
        self._pending: dict[Key, list[Ask]] = {}  # in flight, and all who ask for the same
        self._asks: deque[Ask] = deque()  # by their deadline
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
        self.close()

    def close(self) -> None:
        """End all containers, and tell all who wait; leaving `async with` does the same."""
        hub, self._hub = self._hub, None
        if self._timer is not None:
            self._timer.cancel()
        for ask in self._asks:
            ask.error = ServeError("predict: the server was closed.")
            ask.finish(self._now.now_ms())
        self._asks.clear()
        if hub is not None:
            hub.close()

    async def deploy(self, name: str, model: object, replicas: int = 1) -> None:
        """Run a model in processes of its own, in place of one of that name, if there is one.

        It is `model(batch) -> results` and can be pickled, or a function without arguments that
        makes it. The old version answers until all replicas of the new one are ready.

        Raises:
            ArgumentError: no name, no replica, or a model that cannot be called or pickled.
            ModelFailed: it cannot be made in its container; what was there goes on.
        """
        hub = self._open("deploy")
        check_name("deploy", name, self._generators)
        if not isinstance(replicas, Integral) or replicas < 1:
            raise ArgumentError(f"deploy: replicas: got {replicas!r}, expected at least 1.")
        check_model(name, model)
        data = pickle_model(model)
        queue = Dispatcher(self._now, hub.loop.call_soon, self._delay_ms)
        make = partial(self._controllers, self.slo_ms)
        into = self._known.setdefault(name, Model(name, queue, make, self._hang_ms))
        async with into.deploying:
            self._open("deploy")  # still, after others of that name
            fresh = [Replica(into, data, hub) for _ in range(replicas)]
            try:
                await asyncio.gather(*(container.ready for container in fresh))
                self._open("deploy")
            except BaseException:
                for container in fresh:
                    container.stop()
                raise
            self._models[name] = into
            into.replace(fresh)

    async def deploy_generator(
        self, name: str, make: object, *, slots: int = 16, cache_tokens: int = 16_384,
        batching: str = "continuous", words: Iterable[str] | None = None,
    ) -> None:  # fmt: skip
        """Run what generates tokens in a process of its own, in place of one of that name.

        The old version ends when the replies are done that it has begun, or has waiting.

        Args:
            make: a function without arguments that can be pickled; it runs in the container and
                gives an object with `start(slot, tokens) -> logits (V,)`, which puts a prompt into
                the cache of a slot, `step(slots, tokens) -> logits (len(slots), V)`, and
                `free(slot)`.
            slots: how many requests generate at a time.
            cache_tokens: how many tokens they may hold together, prompts and new ones.
            batching: "continuous" or "static".
            words: the text of each token. With them the app has a page to type on, over HTTP.
        Raises:
            ArgumentError: an argument that cannot be, or a function that cannot be pickled.
            ModelFailed: it cannot be made in its container; what was there goes on.
        """
        hub = self._open("deploy_generator")
        check_name("deploy_generator", name, self._known)
        scheduler = Scheduler[Any](slots, cache_tokens, batching)
        texts = texts_of(words)
        old = self._generators.get(name)
        counts = old.counts if old else GeneratorCounts()
        hang_ms = self._generator_hang_ms
        engine = Engine(name, pickle_model(make), hub, self._now, counts, scheduler, hang_ms)
        try:
            await engine.ready
            self._open("deploy_generator")
        except BaseException:
            engine.stop()
            raise
        old = self._generators.get(name)
        self._generators[name], engine.words = engine, texts
        if old is not None:
            old.retire()

    def _open(self, operation: str) -> Hub:
        if self._hub is None:
            raise ServeError(f"{operation}: the server is not open: use `async with Server()`.")
        return self._hub

    async def link(
        self, app: str, models: Sequence[str], policy: str = "first", default: object = None
    ) -> None:
        """Make an application of models: what `predict` asks by its name.

        Args:
            models: names of deployed models; or of one generator, for `generate`.
            policy: "first", "exp3", "exp4" or "ensemble".
            default: the answer where no model has one; without it, `predict` raises.
        """
        self._open("link")
        names = (models,) if isinstance(models, str) else tuple(models)
        if not isinstance(app, str) or not app:
            raise ArgumentError(f"link: app: got {app!r}, expected text.")
        self._apps[app] = link_models(app, names, policy, default, self._models, self._generators)

    async def predict(self, app: str, x: object, context: Hashable = None) -> Prediction:
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

    def generate(
        self, app: str, tokens: Iterable[int], *, max_tokens: int, temperature: float = 0.0,
        top_k: int | None = None, seed: int | None = None, stop: Iterable[int] = (),
        deadline_ms: float | None = None, first_token_deadline_ms: float | None = None,
    ) -> Stream:  # fmt: skip
        """Return the tokens of a reply as they come: an async iterator of ints.

        They are the same for a seed whatever else runs, so far as the logits are. A stream that is
        closed or dropped ends its request.

        Args:
            tokens: the prompt, at least one.
            max_tokens: how many to generate at most; prompt and these must fit the cache.
            temperature: of sampling; 0 takes the largest logit, the first of equals.
            top_k: only so many of the largest can be drawn.
            seed: of the draws; None takes a random one.
            stop: tokens that end the reply; they are not part of it.
            deadline_ms: when the reply ends, counted from now, whatever has come by then.
            first_token_deadline_ms: the same, where no token has come by then.
        Raises, here:
            UnknownApp: there is none of that name.
            ArgumentError: an argument that cannot be, or that never fits the cache.
        Raises, in reading:
            ArgumentError: a token outside the vocabulary.
            ModelFailed, ContainerDied: the model raised, or its process ended with the request.
        """
        self._open("generate")
        engine = self._engine(app)
        if engine is None:
            raise ArgumentError(f"generate: {app!r} predicts. Ask it with `predict`.")
        return engine.submit(request(
            next(self._numbers), tokens, max_tokens=max_tokens, temperature=temperature,
            top_k=top_k, seed=seed, stop=stop, deadline_ms=deadline_ms,
            first_token_deadline_ms=first_token_deadline_ms,
        ))  # fmt: skip

    def _engine(self, app: str) -> Engine | None:
        return self._generators.get(self._app(app, None, "generate").models[0])

    def words(self, app: str) -> list[str]:
        """Return the text of each token of an app that generates.

        Raises:
            UnknownApp: there is none of that name.
            ArgumentError: it does not generate, or was deployed without words.
        """
        engine = self._engine(app)
        if engine is None or engine.words is None:
            raise ArgumentError(
                f"words: {app!r} has no words: give them to `deploy_generator`, one for each token."
            )
        return engine.words

    def ask(self, app: str, x: object, context: Hashable = None) -> "asyncio.Future[Prediction]":
        """Send a query and return its answer to come: `predict` without the coroutine."""
        return self.send(app, x, context).future

    def send(self, app: str, x: object, context: Hashable = None) -> Ask:
        """Send a query; what comes back knows more than its answer."""
        hub = self._open("predict")
        to = self._app(app, context)
        data, group, digest = digest_input(x)
        weights = to.weights_of(context)
        models = to.policy.ask(weights, to.rng)
        now_ms = self._now.now_ms()
        due_ms = now_ms + self.slo_ms - min(MARGIN_MS, 0.1 * self.slo_ms)
        ask = Ask(to, weights, models, hub.loop.create_future(), now_ms, due_ms, set(models))
        if to.policy.learns:
            to.records.setdefault((digest, group, context), deque(maxlen=64)).append(ask)
            if len(to.records) > MOST_RECORDS:
                to.records.popitem(last=False)
        for name in ask.asked:
            self._get_answer(self._models[name], digest, group, data, ask)
        if not ask.future.done():
            self._asks.append(ask)
            if self._timer is None:
                self._timer = self._now.call_at(ask.due_ms, self._expire)
        return ask

    def _app(self, name: str, context: Hashable, operation: str = "predict") -> App:
        app = self._apps.get(str(name))
        if app is None:
            raise UnknownApp(f"{operation}: no app {name!r}. There are: {[*self._apps]}.")
        check_context(operation, context)
        if operation != "generate" and app.models[0] in self._generators:
            raise ArgumentError(f"{operation}: {name!r} generates. Ask it with `generate`.")
        return app

    def _get_answer(self, model: Model, digest: bytes, group: Group, data: bytes, ask: Ask) -> None:
        """Get one model's answer from the cache, from an equal query in flight, or from a batch."""
        key = (model.name, model.version, digest, group)
        value = self._cache.get(key)
        if value is not MISS:
            model.counts.cache_hits += 1
            self._receive(model, ask, value, None)
        elif key in self._pending:
            model.counts.cache_hits += 1
            self._pending[key].append(ask)
        else:
            self._submit(model, key, data, [ask])

    def _submit(self, model: Model, key: Key, data: bytes, asks: list[Ask]) -> None:
        self._pending[key] = asks
        answer = partial(self._resolve, model, key, data)
        first = asks[0]
        model.dispatcher.submit(Query(data, key[-1], first.asked_ms, first.due_ms, answer))

    def _resolve(
        self, model: Model, key: Key, data: bytes, value: object, error: ServeError | None
    ) -> None:
        """Answer all who wait for a query; those who joined it late may have time for another."""
        asks = self._pending.pop(key)
        if isinstance(error, DeadlineMissed):
            soon_ms = self._now.now_ms() + 1.0
            still = [ask for ask in asks if ask.due_ms > soon_ms]
            if len(still) < len(asks):
                asks = [ask for ask in asks if ask.due_ms <= soon_ms]
                if still:  # later, for the dispatcher is in the middle
                    self._pending[key] = still
                    again = partial(self._submit, model, key, data, still)
                    self._open("predict").loop.call_soon(again)
        elif error is None:
            self._cache.put(key, value)
            model.counts.served += not asks[0].future.done()
        for ask in asks:
            self._receive(model, ask, value, error)

    def _receive(self, model: Model, ask: Ask, value: object, error: ServeError | None) -> None:
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
                ask.gone = tuple(name for name in ask.waits if not self._models[name].is_serving())
                ask.waits = set()
                ask.finish(now_ms)
        self._timer = self._now.call_at(self._asks[0].due_ms, self._expire) if self._asks else None

    async def feedback(self, app: str, x: object, label: object, context: Hashable = None) -> None:
        """Tell what the right answer would have been; the policy learns from what was predicted.

        A prediction is joined once, the oldest of equal ones first; where there is none that is
        remembered, the models are asked now.
        """
        self._open("feedback")
        to = self._app(app, context, "feedback")
        _, group, digest = digest_input(x)
        if not to.policy.learns:
            return
        key = (digest, group, context)
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

    def metrics(self) -> dict[str, Any]:
        """Return what was counted: for each model, and for each app its weights by context."""
        apps = {
            name: {"weights": {context: dict(w) for context, w in app.weights.items()}}
            for name, app in self._apps.items()
        }
        models = {name: model.counts.as_dict() for name, model in self._models.items()}
        generators = {name: engine.metrics() for name, engine in self._generators.items()}
        return {"models": models | generators, "apps": apps}

    def unhealthy(self) -> list[str]:
        """Return the models of which no container serves."""
        models, generators = self._models.items(), self._generators.items()
        down = [name for name, model in models if not any(c.is_serving for c in model.containers)]
        return down + [name for name, engine in generators if not engine.is_serving]
