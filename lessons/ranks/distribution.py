"""Ways to let several ranks train, beside each other; and a tensor that processes share."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch.multiprocessing import set_sharing_strategy
from torch.multiprocessing.reductions import reduce_storage

from ddp_lab.launch.launcher import launch

Data: TypeAlias = tuple[torch.Tensor, torch.Tensor]  # images and labels
Average: TypeAlias = Callable[[Any, Any], Any]  # of a communicator and parameters
Handle: TypeAlias = tuple[Any, ...]  # what is sent in a shared tensor's place

BATCH, EPOCHS, RATE = 60, 20, 0.2
COPIES = ("copies, a learning rate each", "copies, a fold each")
IN_PARTS = ("parts, averaged at the end", "parts by digit, averaged at the end")
EVERY_STEP = "parts, gradients averaged"


def rows_of(option: str, labels: torch.Tensor, rank: int, size: int) -> NDArray[np.int64]:
    """Return which images this rank trains on."""
    rows: list[int] = list(range(len(labels)))
    if option == COPIES[1]:
        own = [row for row in rows if row % max(size, 5) != rank]  # the others are to validate
    elif option == IN_PARTS[1]:
        by_digit = np.argsort(labels.numpy(), kind="stable")
        own = np.array_split(by_digit, size)[rank].tolist()
    else:
        own = rows[rank::size] if option.startswith("parts") else rows
    return np.array(own)


def train_as(
    comm: Any, option: str, make: Callable[[], Any], data: Data, test: Data, average: Average
) -> tuple[int, float, float]:
    """Return how many bytes this rank holds, its seconds, and the share right on `test`.

    `average(comm, params)` is called after each backward pass of EVERY_STEP.
    """
    torch.set_num_threads(1)
    model, (x, y) = make(), data
    params = list(model.parameters())
    rows = rows_of(option, y, comm.rank, comm.size)
    rows = np.random.default_rng(0).permutation(rows) if option == IN_PARTS[1] else rows
    batch = BATCH // comm.size if option == EVERY_STEP else BATCH
    rate = RATE / 4**comm.rank if option == COPIES[0] else RATE
    began = perf_counter()
    for at in np.array_split(np.tile(rows, EPOCHS), EPOCHS * len(rows) // batch):
        torch.nn.functional.cross_entropy(model(x[at]), y[at]).backward()  # type: ignore[no-untyped-call]
        if option == EVERY_STEP:
            average(comm, params)
        with torch.no_grad():
            for param in params:
                param -= rate * param.grad
                param.grad = None
    if option in IN_PARTS:
        for param in params:
            param.data = comm.all_reduce(param.data, op="avg")
    right = (model(test[0]).argmax(1) == test[1]).double().mean().item()
    held = len(rows) * x[0].nbytes + sum(param.nbytes for param in params)
    return held, perf_counter() - began, right


def try_options(
    options: Sequence[str],
    ranks: int,
    make: Callable[[], Any],
    data: Data,
    test: Data,
    average: Average | None = None,
) -> None:
    """Print a row for each option: memory and messages of a rank, seconds, quality."""
    print(f"{'':<36}{'KiB a rank':>11}{'KiB sent':>10}{'s':>7}   right on unseen digits")
    for option in options:
        run = launch(train_as, ranks, option, make, data, test, average, record=True)
        held, seconds, right = zip(*run, strict=True)
        sent = max(traffic.bytes_sent for traffic in run.traffic)
        shares = " ".join(f"{share:.1%}" for share in dict.fromkeys(right))
        print(f"{option:<36}{held[0] / 2**10:>11,.0f}{sent / 2**10:>10,.0f}", end="")
        print(f"{max(seconds):>7.2f}   {shares}")


def share_tensor(tensor: torch.Tensor) -> Handle:
    """Move a tensor into memory that all processes see; return what to send in its place.

    It is shared by name: a file's descriptor could not be sent along with a function.
    """
    set_sharing_strategy("file_system")  # type: ignore[no-untyped-call]
    storage = tensor.share_memory_().untyped_storage()  # type: ignore[no-untyped-call]
    rebuild, where = reduce_storage(storage)  # type: ignore[no-untyped-call]
    return rebuild, where, tensor.dtype, tensor.shape


def shared_tensor(handle: Handle) -> torch.Tensor:
    """Return the tensor that `share_tensor` moved, which is contiguous, in another process."""
    rebuild, where, dtype, shape = handle
    return torch.empty(0, dtype=dtype).set_(rebuild(*where)).view(shape)
