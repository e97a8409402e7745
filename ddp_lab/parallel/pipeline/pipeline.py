"""Pipeline-parallel training: each rank has some of the layers, micro-batches pass through them.

    rank 0   F0 F1 F2 F3          B0 B1 B2 B3
    rank 1      F0 F1 F2 F3    B0 B1 B2 B3

One micro-batch is naive model parallelism, in which one rank works at a time.

May import: NumPy, torch, agreement, communicator, errors, transport, this folder.
Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import DdpLabError, InvalidArgument, RankLost, RankTimeout, StageFailed
from ddp_lab.parallel.agreement import agree, exchange
from ddp_lab.parallel.pipeline.mail import Mail, PeerFailed
from ddp_lab.parallel.pipeline.schedules import Action, ActionSpan, orders_of
from ddp_lab.parallel.pipeline.stage import Stage, VersionedStage
from ddp_lab.transport.base import NDArray

PIPEDREAM = "pipedream"
LOSS_DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
Batch: TypeAlias = Tensor | NDArray


class Pipeline:
    """One rank's part of a pipeline.

        layers = split(model, comm.size)
        pipeline = Pipeline(comm, layers[comm.rank], microbatches=8, loss_fn=mse_loss)
        loss = pipeline.step(x, target)      # gradients are those of one process
        optimizer.step()

    Every rank makes one, with the same schedule and number of micro-batches.

    Args:
        comm: the ranks; stage s of the model lies on rank s % comm.size.
        chunks: this rank's module, or a list of them for the interleaved schedules. A module takes
            one tensor and returns one of floating point.
        schedule: a name that `schedule` knows, or a table as it returns.
        microbatches: how many parts a batch is cut into along its first axis.
        loss_fn: of (output, target): a mean over the rows. Used on the rank of the last stage.
        optimizer: this rank's, for the schedule "pipedream", which steps it right after each
            micro-batch's backward. That backward uses the weights of its forward, of which copies
            are kept; the others leave stepping to the caller.
        seconds: on a transport with a clock of its own (`sim`), what an action takes, by its kind;
            I and W take half a B each unless told otherwise.
    Attributes:
        timeline: this rank's actions of the last step, with seconds since the first rank began
            (ranks of one machine have one clock).
        idle_s: what this rank spent on nothing else in the last step.
        peak_activations: the most micro-batches that its stages kept activations of at a time.
        weight_versions: the most versions of its weights kept at a time, the newest included.
    Raises:
        InvalidArgument: on every rank, naming the one whose arguments are wrong.
        Mismatch: on every rank, naming two that differ, and in what.
    """

    def __init__(
        self,
        comm: Communicator,
        chunks: nn.Module | Sequence[nn.Module],
        *,
        schedule: str | Sequence[Sequence[str]] = "1f1b",
        microbatches: int,
        loss_fn: Callable[[Tensor, Tensor], Tensor] | None,
        optimizer: Any = None,
        seconds: Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(comm, Communicator):
            raise InvalidArgument(
                f"Pipeline: no communicator: got {comm!r}, expected a ddp_lab.Communicator. "
                "Pass it first: Pipeline(comm, module, ...)."
            )
        many = isinstance(chunks, list | tuple | nn.ModuleList)
        modules: list[Any] = [*chunks] if many else [chunks]  # type: ignore[misc]
        problem = None
        try:
            _check_modules(modules)
            orders = orders_of(schedule, comm.size, microbatches, len(modules))
            _check_arguments(comm, schedule, loss_fn, optimizer)
        except InvalidArgument as error:
            problem = str(error)
        facts = {"schedule": schedule, "microbatches": microbatches, "chunks": len(modules)}
        agree(comm, "Pipeline", facts, problem)
        self._comm = comm
        self._order = orders[comm.rank]
        self._last_stage = comm.size * len(modules) - 1
        self._microbatches = int(microbatches)
        self._loss_fn = loss_fn
        self._seconds = {"F": 0.0, "B": 0.0, **(seconds or {})}
        self._mail = Mail(comm, orders)
        self._stepping = schedule == PIPEDREAM
        numbered = zip(range(comm.rank, self._last_stage + 1, comm.size), modules, strict=True)
        self._stages = {
            number: VersionedStage(module, optimizer) if self._stepping else Stage(module)
            for number, module in numbered
        }
        self._parts: dict[str, tuple[Tensor, ...]] = {}
        self._rows = 0
        self._loss = 0.0
        self._loss_dtype = 0  # in LOSS_DTYPES
        self.timeline: tuple[ActionSpan, ...] = ()
        self.idle_s = 0.0
        self.peak_activations = 0

    @property
    def weight_versions(self) -> int:
        """The most versions of this rank's weights kept at a time in the last step."""
        return max(getattr(stage, "weight_versions", 1) for stage in self._stages.values())

    def step(self, x: Batch | None = None, target: Batch | None = None) -> Tensor:
        """Return the mean loss of a batch, on every rank; add its gradients to `.grad`.

        Micro-batches differ by a row where their number does not divide that of the rows, and
        count by their rows.

        Args:
            x: the batch, on rank 0, a tensor or a NumPy array; the others may pass None.
            target: what the loss compares with, on the rank of the last stage.
        Raises:
            StageFailed: a stage, or the loss function, raised; on every rank, naming it.
            InvalidArgument: a rank was given no batch, or one of another size; on every rank.
        """
        self.timeline = ()
        self.peak_activations, self._loss = 0, 0.0
        for stage in self._stages.values():
            stage.clear()
        self._mail.expect()
        began_at = self._comm.now()
        failure: Exception | None = None
        spans: list[ActionSpan] = []
        try:
            self._cut(x, target)
            for action in self._order:
                spans.append(self._do(action))
            self._mail.wait_for_sends()
        except (RankLost, RankTimeout):
            raise  # there is nobody left to tell
        except Exception as error:
            failure = error
            self._mail.notify_failure()
        mean, zero = self._close(began_at, failure)
        self.timeline = tuple(ActionSpan(a, begin - zero, end - zero) for a, begin, end in spans)
        busy_s = sum(span.ended_at - span.began_at for span in spans)
        self.idle_s = self._comm.now() - zero - busy_s
        return mean

    def _cut(self, x: Batch | None, target: Batch | None) -> None:
        """Cut the batch into micro-batches, on the ranks that use it."""
        self._parts = {}
        for name, batch, stage in (("x", x, 0), ("target", target, self._last_stage)):
            if stage not in self._stages:
                continue
            batch = torch.from_numpy(batch) if isinstance(batch, np.ndarray) else batch
            if not isinstance(batch, Tensor) or not batch.dim():
                raise InvalidArgument(
                    f"{name} is no batch: got {type(batch).__name__}, expected a tensor. "
                    f"Pass {name} on the rank of stage {stage}."
                )
            if len(batch) < self._microbatches:
                raise InvalidArgument(
                    f"{name} has too few rows: got {len(batch)}, expected one or more for each of "
                    f"{self._microbatches} micro-batches. Use fewer, or a larger batch."
                )
            self._parts[name] = torch.tensor_split(batch, self._microbatches)
            self._rows = len(batch)

    def _do(self, action: Action) -> ActionSpan:
        """Do one action: wait for what it needs, compute, send the result."""
        number, kind, m = action
        stage = self._stages[number]
        received: Tensor | None = None
        if kind == "F" and not number:
            received = self._parts["x"][m]
        elif kind != "W" and not (number == self._last_stage and kind != "F"):
            needed = Action(number - 1, "F", m) if kind == "F" else Action(number + 1, "I", m)
            received = self._mail.take(needed, needed.stage % self._comm.size)
        began_at = self._comm.now()
        try:
            result = self._compute(stage, action, received)
        except DdpLabError:
            raise
        except Exception as error:
            fact = "nothing" if received is None else f"{received.dtype} {tuple(received.shape)}"
            raise StageFailed(
                f"{action} failed, given {fact}: {type(error).__name__}: {error} "
                f"Look at the layers of stage {number}, and at what they are given.",
                self._comm.rank,
            ) from error
        self._comm.elapse(self._seconds.get(kind, self._seconds["B"] / 2))
        ended_at = self._comm.now()
        if result is not None:
            self._mail.send(action, result)
        activations = sum(stage.activations for stage in self._stages.values())
        self.peak_activations = max(self.peak_activations, activations)
        return ActionSpan(str(action), began_at, ended_at)

    def _compute(self, stage: Stage, action: Action, received: Tensor | None) -> Tensor | None:
        number, kind, m = action
        if kind == "W":
            stage.weight_half(m)
            return None
        if kind != "F":
            back = stage.backward if kind == "B" else stage.input_half
            x_grad = back(m, received)
            return None if not number else x_grad
        assert received is not None
        x = received.detach().requires_grad_(number > 0)
        if number < self._last_stage:
            return stage.forward(m, x, _check_output)
        weight = len(self._parts["target"][m]) / self._rows
        loss = stage.forward(m, x, lambda output: self._loss_of(output, m, weight))
        self._loss_dtype = LOSS_DTYPES.index(loss.dtype)
        self._loss += loss.item() * (weight if self._stepping else 1.0)
        return None

    def _loss_of(self, output: Tensor, m: int, weight: float) -> Tensor:
        """Return what a micro-batch adds to the mean loss; with PipeDream, its own loss."""
        target = self._parts["target"][m]
        if len(output) != len(target):
            raise InvalidArgument(
                f"the loss of micro-batch {m}: output and target differ in rows: got "
                f"{len(output)} and {len(target)}. Pass as many rows of target as of x."
            )
        assert self._loss_fn is not None
        loss = self._loss_fn(output, target)
        return loss if self._stepping else loss * weight

    def _close(self, began_at: float, failure: Exception | None) -> tuple[Tensor, float]:
        """Return the mean loss and when the first rank began.

        Raises:
            StageFailed, InvalidArgument: some rank has failed.
        """
        mine = np.array([self._loss, began_at, failure is not None, self._loss_dtype])
        rows = self._comm.all_gather(mine)
        if rows[:, 2].any():
            raise self._step_error(failure)
        loss = torch.tensor(rows[-1, 0], dtype=LOSS_DTYPES[int(rows[-1, 3])])
        return loss, float(rows[:, 1].min())

    def _step_error(self, failure: Exception | None) -> Exception:
        """Return what to raise after a step in which some rank failed: the same on every rank."""
        kind = InvalidArgument if isinstance(failure, InvalidArgument) else StageFailed
        own = "" if failure is None or isinstance(failure, PeerFailed) else str(failure)
        answers = exchange(self._comm.all_gather, f"{kind.__name__}\0{own}".encode())
        texts = [data.decode() for data in answers]
        rank = next(r for r, text in enumerate(texts) if not text.endswith("\0"))
        name, _, text = texts[rank].partition("\0")
        message = f"Pipeline.step: rank {rank}: {text}"
        refused = name == InvalidArgument.__name__
        error = InvalidArgument(message) if refused else StageFailed(message, rank)
        error.__cause__ = failure if own else RankLost(f"rank {rank} has failed", rank)
        return error


def _check_output(output: Any) -> Tensor:
    """Return a stage's output, one tensor that has gradients."""
    if not isinstance(output, Tensor) or not output.is_floating_point():
        kind = output.dtype if isinstance(output, Tensor) else type(output).__name__
        raise InvalidArgument(
            f"a stage returned no tensor of floating point: got {kind}. "
            "Cut the model where one tensor passes."
        )
    return output


def _check_modules(modules: Sequence[Any]) -> None:
    wrong = [module for module in modules if not isinstance(module, nn.Module)]
    if wrong or not modules:
        raise InvalidArgument(
            f"chunks are no modules: got {type(wrong[0]).__name__ if wrong else 'none'}, expected "
            "a torch module, or a list of them. Take one a rank from split(model, comm.size)."
        )


def _check_arguments(comm: Communicator, schedule: Any, loss_fn: Any, optimizer: Any) -> None:
    if comm.rank == comm.size - 1 and not callable(loss_fn):
        raise InvalidArgument(
            f"loss_fn is no function: got {loss_fn!r} on the rank of the last stage. "
            "Pass a function of (output, target)."
        )
    if (schedule == PIPEDREAM) != (optimizer is not None):
        raise InvalidArgument(
            f"optimizer={optimizer!r} does not go with schedule={schedule!r}: only "
            f"{PIPEDREAM!r} steps during the pipeline, and needs one. "
            f"Otherwise call optimizer.step() after Pipeline.step."
        )
    is_none = isinstance(optimizer, type) or not callable(getattr(optimizer, "step", None))
    if optimizer is not None and is_none:
        raise InvalidArgument(
            f"optimizer is none: got {optimizer!r:.80}, expected an object with step(). Pass for "
            "example torch.optim.SGD(stage.parameters(), lr=0.1)."
        )
