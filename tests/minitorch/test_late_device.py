"""minitorch's device "cuda" over a stand-in that is late: nothing is read before it is done."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import minitorch
import minitorch.graph as tf
from minitorch.arrays.library import use_library
from minitorch.compile import Program, Step
from minitorch.compile.gpu import cuda_driver
from minitorch.errors import DeviceError
from tests.minitorch import test_nn_training
from tests.minitorch.compile.test_cuda_driver import OnProcessor
from tests.standins.late_device import MACHINE, PLACES, installed
from tests.standins.stream_machine import Machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    """The stand-in behind minitorch's "cuda"; all threads share a stream, as on CUDA."""
    machine = installed()
    machine.start(0)
    machine.shares_default = True
    use_library("cuda", "torch", native="late")
    yield machine
    use_library("cuda", "torch")
    machine.shares_default = False


def test_every_operator_agrees_with_torch_and_waits(
    op_db: list[Any], agreement: Any, machine: Machine
) -> None:
    agreement.PLACE = "cuda"
    try:
        for op in op_db:
            score = agreement.run(op, limit=1)
            assert score is None or not score.failures, op.name
            assert not machine.faults, op.name
    finally:
        agreement.PLACE = "cpu"


def test_training_follows_the_curve_of_the_cpu(machine: Machine) -> None:
    test_nn_training.test_training_on_cuda_follows_the_curve_of_the_cpu("cuda")
    assert not machine.faults


def test_what_reads_a_tensor_waits_for_it(machine: Machine) -> None:
    x = minitorch.ones(3).cuda()
    y = x * 2
    assert machine.undone()
    assert (y.is_cuda, str(y.device), y.type()) == (True, "cuda:0", "torch.cuda.FloatTensor")
    assert y.tolist() == [2.0] * 3
    assert (y + 1).cpu().numpy().tolist() == [3.0] * 3
    assert (y.sum().item(), bool((y > 1).all())) == (6.0, True)
    assert str(y) == "tensor([2., 2., 2.], device='cuda:0')"
    assert y.pin_memory().to("cuda", non_blocking=True).tolist() == [2.0] * 3
    net = minitorch.nn.Linear(3, 1).cuda()
    assert net(y).device == net.weight.device == "cuda:0"
    y + 1
    minitorch.cuda.synchronize()
    assert not machine.undone()
    assert not machine.faults


def test_a_number_without_axes_gets_to_the_device(machine: Machine) -> None:
    assert minitorch.tensor(np.array(1.5), device="cuda").item() == 1.5
    halves = minitorch.ones(2, dtype=minitorch.bfloat16, device="cuda")
    assert halves.float().numpy().tolist() == halves.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("place", ["cpu", "cuda"])
def test_gradients_of_equal_indices_add_up(place: str, machine: Machine) -> None:
    x = minitorch.ones(4, 3, device=place).requires_grad_()
    (x.T[:, [0, 0, 2]] * 2).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[4.0] * 3, [0.0] * 3, [2.0] * 3, [0.0] * 3]
    assert not machine.faults


@pytest.mark.parametrize("name", ["cuda:7", "nonsense"])
def test_a_device_that_is_not_there_is_refused(name: str, machine: Machine) -> None:
    with pytest.raises(DeviceError, match=name):
        minitorch.ones(2, device=name)


def test_what_cuda_is_asked_is_answered(machine: Machine) -> None:
    assert minitorch.cuda.is_available()
    assert minitorch.accelerator.current_accelerator() == "cuda"
    assert minitorch.cuda.is_bf16_supported()
    minitorch.cuda.reset_peak_memory_stats()
    before = minitorch.cuda.memory_allocated()
    x = minitorch.zeros(1000, device="cuda")
    assert minitorch.cuda.memory_allocated() - before >= 4000
    assert minitorch.cuda.memory_stats()["peak_allocated"] >= 4000
    assert minitorch.cuda.max_memory_allocated() >= minitorch.cuda.memory_reserved()
    minitorch.cuda.empty_cache()
    assert minitorch.cuda.amp is minitorch.amp
    del x


@pytest.mark.parametrize("name", ["CUDAGraph", "graph", "make_graphed_callables"])
def test_cuda_graphs_of_a_step_are_refused_in_one_line(name: str, machine: Machine) -> None:
    with pytest.raises(AttributeError, match=r"CUDA graphs are not taken: .* minitorch\.compile"):
        getattr(minitorch.cuda, name)
    step = minitorch.compile(lambda x: x * 2 + 1)
    assert step(minitorch.ones(3, device="cuda")).tolist() == [3.0] * 3
    assert not machine.faults


class LateDriver(OnProcessor):
    """Launches on the stream that it is told, reading every tensor and writing the last."""

    kind = "late"
    another_stream = False

    def launch(
        self, function: Any, device: int, shape: tuple[int, int], arguments: Any, stream: int
    ) -> None:
        blocks, values = shape[0] * shape[1], []
        for i in range(len(arguments)):
            values.append(ctypes.c_uint64.from_address(arguments[i]).value)
        kept, pointers = cuda_driver.pack_arguments(values)
        touched = [(PLACES[at], 0, 1 << 40, False) for at in values[1:]]
        touched[-1] = (*touched[-1][:3], True)

        def run() -> None:
            function.call(0, blocks, ctypes.addressof(pointers))
            del kept[:]

        on = MACHINE.streams[stream]
        if self.another_stream:
            on = torch.get_device_module("late").Stream()
        MACHINE.put(on, "launch", run, touched)


CHAIN = Program("float32", ("float",) * 2, (Step("mul", (0, 1)), Step("tanh", (-1,))))


@pytest.mark.parametrize("on_another", [False, True])
def test_a_launched_kernel_takes_its_turn_on_the_stream(on_another: bool, machine: Machine) -> None:
    driver = LateDriver()
    driver.another_stream = on_another
    x = torch.linspace(-1, 1, 300)
    with cuda_driver.use(driver):  # type: ignore[arg-type]
        there = x.to("late") + 1
        found = cuda_driver.run_on_device(CHAIN, [there, there])
        assert found is not None
        right = torch.allclose(found.cpu(), torch.tanh((x + 1) * (x + 1)))
        assert right or on_another
    assert bool(machine.faults) == on_another


def test_a_session_launches_kernels_among_operators(machine: Machine) -> None:
    x, w = (tf.placeholder(tf.float32, (64, 64)) for _ in range(2))
    z = tf.matmul(tf.nn.relu(x * w + 0.5), tf.sin(x) * w)
    a, b = (np.random.default_rng(i).normal(size=(64, 64)).astype(np.float32) for i in (0, 1))
    driver = LateDriver()
    launcher = cuda_driver.use(driver)  # type: ignore[arg-type]
    with launcher, tf.Session(optimize=True, device="cuda") as session:
        found = session.run(z, {x: a, w: b})
    want = np.maximum(a * b + 0.5, 0) @ (np.sin(a) * b)
    np.testing.assert_allclose(torch.as_tensor(found).cpu().numpy(), want, rtol=1e-3, atol=1e-3)
    assert driver.launches or driver.loaded
    assert not machine.faults
