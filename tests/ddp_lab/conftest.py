"""What tests of ranks share.

Where the kernel lets nobody make network namespaces, the tests that need them are left out.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator

import pytest

from ddp_lab.collectives.registry import _REGISTRY, learners

AS_ROOT = ["unshare", "--net"]
AS_ANYBODY = ["unshare", "--user", "--map-root-user", "--net"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "netns: makes network namespaces")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    needing = [item for item in items if item.get_closest_marker("netns")]
    if needing and shutil.which("ip") and namespace_command() is None:
        config.hook.pytest_deselected(items=needing)
        items[:] = [item for item in items if item not in needing]


def namespace_command() -> list[str] | None:
    """Return the command that runs another in a network namespace, None if there is none."""
    for command in (AS_ROOT, AS_ANYBODY):
        if shutil.which("unshare"):
            tried = subprocess.run([*command, "true"], capture_output=True, timeout=100)
            if tried.returncode == 0:
                return command
    return None


@pytest.fixture
def in_namespace() -> list[str]:
    if shutil.which("ip") is None:
        pytest.skip("iproute2 is not installed: sudo apt-get install iproute2")
    command = namespace_command()
    assert command is not None
    return command


@pytest.fixture
def port() -> Iterator[str]:
    """Return a port of 127.0.0.1 for a rank to listen at, which nobody else is given meanwhile."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as who listens there does
        holder.bind(("127.0.0.1", 0))
        yield str(holder.getsockname()[1])


@pytest.fixture(autouse=True)
def learners_algorithms_are_forgotten() -> Iterator[None]:
    """Let no test see an algorithm that another has registered."""
    before = learners()
    yield
    for collective, name, fn in learners():
        if (collective, name, fn) not in before:
            del _REGISTRY[collective][name]
