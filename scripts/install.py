"""Install the package and all it needs into the environment of the Python that runs this.

uv resolves, loads and unpacks 200 packages at once; pip, which every Python has, brings uv, and
its configuration says where packages are. PyTorch comes first. Where the index has only its CUDA
build, a machine without a CUDA device would load gigabytes that it cannot use, so there PyTorch's
own index of CPU builds is asked; if it does not answer soon, the build is what the index has.
`TORCH_INDEX` names another index, "" the usual one, and "none" leaves PyTorch out. uv shows each
large file with its size while it loads. Standard library only.
"""

import ast
import ctypes
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path

UV = "uv>=0.9"
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
BRIEFLY = {"UV_HTTP_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}  # an index that is there answers sooner
TESTS = r"[/\\]tests[/\\]"
TESTS_ONLY = ("postgres", "ptxas", "test", "docs")  # the extras that a learner does without
# What pip calls an option in its configuration: what uv calls it in the environment.
_OPTIONS = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "cert": "SSL_CERT_FILE",
}
_EVERY_INDEX = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # pip's meaning of several indexes


class InstallError(Exception):
    """What could not be installed; why is said already."""


def main() -> int:
    """Install into this environment, for a `learner` or for all; return the exit status."""
    left_out = TESTS_ONLY if sys.argv[1:] == ["learner"] else ()
    root = Path(__file__).resolve().parent.parent
    about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    extras = about["project"]["optional-dependencies"]
    index = os.environ.get("TORCH_INDEX")
    if index == "none":
        left_out = (*left_out, "torch")
    try:
        _run([sys.executable, "-m", "pip", "install", "-qq", UV], os.environ)
        uv = Uv([sys.executable, "-m", "uv"], sys.executable, uv_environment(os.environ))
        if index != "none":
            install_torch(uv, extras["torch"], index, has_device=has_cuda_device())
        uv.install("--editable", f"{root}[{','.join(chosen_extras(extras, left_out))}]")
    except InstallError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    # One core would take most of the set-up; what other Pythons' files say is no matter.
    # Packages' own tests are a fifth of all modules, and nobody imports them.
    command = [sys.executable, "-m", "compileall", "-qq", "-x", TESTS, "-j", "0"]
    subprocess.run([*command, sysconfig.get_path("purelib")])
    return 0


class Uv:
    """A uv, the Python that it installs for, and its environment variables."""

    def __init__(self, command: list[str], python: str, environment: Mapping[str, str]) -> None:
        self.environment = dict(environment)
        self._command = [*command, "pip", "install", "--python", python]

    def install(self, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        """Run `uv pip install` of these arguments; a person sees what it loads.

        Raises:
            InstallError: it failed, and has said why.
        """
        quiet = [] if sys.stderr.isatty() else ["--quiet"]
        variables = self.environment if environment is None else environment
        _run([*self._command, *quiet, *arguments], variables)


def uv_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for uv: pip's configuration by uv's names, where these are not set."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    options: dict[str, str] = {}
    lines = [line.partition("=") for line in done.stdout.splitlines()]  # global.index-url='...'
    for section in ("global", "install", ":env:"):  # what is said last holds
        for name, _, value in lines:
            if name.startswith(f"{section}.") and (option := name.rpartition(".")[2]) in _OPTIONS:
                options[_OPTIONS[option]] = ast.literal_eval(value)
    if "UV_FIND_LINKS" in options:
        options["UV_FIND_LINKS"] = ",".join(options["UV_FIND_LINKS"].split())
    return {**_EVERY_INDEX, **options, **environment}


def install_torch(
    uv: Uv, torch: list[str], index: str | None, *, has_device: bool, cpu_index: str = CPU_INDEX
) -> None:
    """Install the build of PyTorch of an index of its own, where there is reason to.

    Args:
        uv: installs it.
        torch: the requirement.
        index: the one that was asked for: "" is the usual one, None leaves the choice to us.
        has_device: whether a CUDA build is of use here.
        cpu_index: has CPU builds.

    Raises:
        InstallError: the index that was asked for has no such build.
    """
    alone = {k: v for k, v in uv.environment.items() if k not in ("UV_INDEX", "UV_FIND_LINKS")}
    if index is not None:
        environment = {**alone, "UV_DEFAULT_INDEX": index} if index else uv.environment
        print(f"setup: PyTorch from {index or 'the usual index'}", flush=True)
        uv.install("--no-deps", "--reinstall", *torch, environment=environment)
    elif not has_device and sys.platform == "linux":
        environment = {**alone, "UV_DEFAULT_INDEX": cpu_index}
        try:
            uv.install("--dry-run", "-qq", "--no-deps", *torch, environment=environment | BRIEFLY)
        except InstallError:
            print(f"setup: {cpu_index} does not answer: PyTorch is the build that the index has")
        else:
            print("setup: no CUDA device, so PyTorch's CPU build will do", flush=True)
            uv.install("--no-deps", *torch, environment=environment)


def chosen_extras(extras: Mapping[str, list[str]], left_out: Collection[str] = ()) -> list[str]:
    """Return the names of the extras in "all", but for some."""
    names = extras["all"][0].partition("[")[2].rstrip("]").split(",")
    return [name for name in names if name not in left_out]


def has_cuda_device() -> bool:
    """Tell whether this machine has a CUDA device: by its file, its tool or its driver."""
    if Path("/dev/nvidia0").exists():
        return True
    if shutil.which("nvidia-smi"):
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True)
        return listed.returncode == 0 and "GPU" in listed.stdout
    count = ctypes.c_int(0)
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except (OSError, AttributeError):
        return False
    return not failed and count.value > 0


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    if subprocess.run(command, env=environment).returncode:
        arguments = " ".join(command[2:])
        raise InstallError(f"this failed, for the reason above: {arguments}")


if __name__ == "__main__":
    sys.exit(main())
