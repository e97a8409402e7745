"""The stand-in for a device: it computes what torch does, late, and tells every wait that lacks."""

from collections.abc import Callable

import pytest
import torch

from tests.standins.late_device import installed
from tests.standins.stream_machine import Machine


@pytest.fixture
def machine() -> Machine:
    machine = installed()
    machine.start(0)
    return machine


PROGRAMS: list[Callable[[torch.Tensor], torch.Tensor]] = [
    lambda x: (x * 2 + 1).relu().sum(1),
    lambda x: x.t() @ x,
    lambda x: torch.cat([x, x[1:]])[::2].cumsum(0),
    lambda x: x[x > 0],
    lambda x: x.clone().index_add_(0, torch.tensor([0, 0], device=x.device), x[:2]),
    lambda x: torch.stack(x.split(2)).amax(0),
    lambda x: x.topk(2).indices,
    lambda x: x.to(torch.bfloat16).float(),
    lambda x: torch.linalg.qr(x).Q,
    lambda x: torch.autograd.grad(x.requires_grad_().tanh().square().sum(), x)[0],
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_computes_what_torch_does(
    program: Callable[[torch.Tensor], torch.Tensor], machine: Machine
) -> None:
    x = torch.linspace(-1, 1, 12).sin().reshape(4, 3)
    with torch.autograd.set_multithreading_enabled(False):
        there = program(x.to("late"))
    assert there.device.type == "late"
    torch.testing.assert_close(there.cpu(), program(x))
    assert not machine.faults


def test_it_is_late(machine: Machine) -> None:
    x = torch.ones(3, device="late") + 1
    assert machine.undone()
    assert x.held.isnan().all()  # type: ignore[attr-defined]
    assert x.tolist() == [2.0] * 3
    assert not machine.undone()


def test_a_read_on_another_stream_needs_an_event(machine: Machine) -> None:
    late = torch.get_device_module("late")
    for waits in (True, False):
        machine.start(0)
        x, event, other = torch.ones(3, device="late") + 1, late.Event(), late.Stream()
        event.record()
        with late.stream(other):
            if waits:
                event.wait()
            y = x * 2
            assert (y.tolist() == [4.0] * 3) == waits
        assert bool(machine.faults) != waits
    assert "reads what aten::add.Tensor on stream" in machine.faults[0]


def test_a_write_needs_the_reads_before_it_done(machine: Machine) -> None:
    late = torch.get_device_module("late")
    for waits in (True, False):
        machine.start(0)
        x, other = torch.ones(3, device="late"), late.Stream()
        late.synchronize()
        with late.stream(other):
            y = x * 2
        if waits:
            late.current_stream().wait_stream(other)
        x.zero_()
        assert bool(machine.faults) != waits
        del y


def test_parts_of_one_buffer_do_not_wait_for_each_other(machine: Machine) -> None:
    late = torch.get_device_module("late")
    x = torch.ones(4, device="late")
    late.synchronize()
    x[:2] += 1
    with late.stream(late.Stream()):
        x[2:] += 1
    assert not machine.faults
    x[1:3] += 1
    assert machine.faults


def test_memory_that_another_stream_uses_must_be_recorded(machine: Machine) -> None:
    late = torch.get_device_module("late")
    for records in (True, False):
        machine.start(0)
        x, other = torch.ones(3, device="late"), late.Stream()
        late.synchronize()
        with late.stream(other):
            y = x * 2
        if records:
            x.record_stream(other)
        del x
        torch.empty(3, device="late")
        assert bool(machine.faults) != records
        del y


def test_nobody_else_takes_it_for_an_accelerator(machine: Machine) -> None:
    assert torch.accelerator.is_available() == torch.cuda.is_available()
