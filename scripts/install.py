"""Install the package and all it needs into the environment of the Python that runs this.

PyTorch comes first. Where pip's index has only its CUDA build, a machine without a CUDA device
would load gigabytes that it cannot use, so there PyTorch's own index of CPU builds is asked; if it
does not answer soon, the build is what pip finds. `TORCH_INDEX` names another index, "" pip's own,
and "none" leaves PyTorch out. What will be loaded is said beforehand. Standard library only.
"""

import compileall
import csv
import ctypes
import json
import os
import re
import select
import shutil
import ssl
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
import urllib.request
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Lines of pip's that say what it does now, and how we say it.
_STEPS = {"Collecting": "looking for", "  Downloading": "loading", "Installing": "installing"}
QUICK_PIP = "pip>=25"  # Debian 12 has 23, which compares every file of 200 packages anew
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
ASK_S = 5  # an index that is there answers within one
LOOK_S = 0.2  # between two looks at what has come
TESTS = r"[/\\]tests[/\\]"
SIZES_S = 15  # for the sizes of all files together, asked 16 at a time


class InstallError(Exception):
    """What pip could not do, in its words."""


@dataclass(frozen=True)
class File:
    """A file that pip would install from."""

    name: str
    version: str
    url: str
    needs: tuple[str, ...] = ()  # what it requires, as pip takes it

    @property
    def pin(self) -> str:
        """The requirement that nothing else meets."""
        return f"{self.name}=={self.version}"


@dataclass(frozen=True)
class Pip:
    """A pip, and the file that gets all it says."""

    command: Sequence[str]
    log: Path

    def plan(self, *arguments: str) -> list[File]:
        """Return what `pip install` of these arguments would install; it installs nothing."""
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "report.json"
            self.install("--dry-run", "--report", str(report), *arguments)
            entries = json.loads(report.read_text(encoding="utf-8"))["install"]
        return [_file_of(about["metadata"], about["download_info"]) for about in entries]

    def install_files(self, files: Sequence[File]) -> None:
        """Install what was planned, from the same addresses: no index is asked a second time.

        Two pips share the work: one would load a file after the other, then unpack on one core.

        Raises:
            InstallError: neither so nor by names and versions.
        """
        with ThreadPoolExecutor(2) as pool:
            halves = [files[k::2] for k in range(2)]
            for future in [pool.submit(self._install_files, half) for half in halves if half]:
                future.result()

    def _install_files(self, files: Sequence[File]) -> None:
        pins = [file.pin for file in files]
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "files.html"
            links = "".join(f'<a href="{file.url}">{file.name}</a>' for file in files)
            page.write_text(f"<!DOCTYPE html>{links}", encoding="utf-8")
            try:
                self.install("--no-deps", "--no-index", "--find-links", str(page), *pins)
            except InstallError:  # one has to be built, or its address is for those who log in
                self.install("--no-deps", *pins)

    def install(self, *arguments: str) -> None:
        """Run `pip install` of these arguments.

        Raises:
            InstallError: it failed.
        """
        command = [*self.command, "install", "--disable-pip-version-check", "--no-compile"]
        lines: list[str] = []
        with (
            self.log.open("a", encoding="utf-8") as log,
            subprocess.Popen(
                [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as process,
        ):
            for line in process.stdout or ():
                log.write(line)
                lines.append(line.rstrip())
                step = next((words for mark, words in _STEPS.items() if line.startswith(mark)), "")
                if step and sys.stdout.isatty():
                    print(f"\r\033[Ksetup: {step} {_name_in(line)}", end="", flush=True)
        if sys.stdout.isatty():
            print("\r\033[K", end="", flush=True)
        if process.returncode:
            errors = [line for line in lines if line.startswith("ERROR")]
            raise InstallError("\n".join(errors or lines[-5:]))


def say(files: Sequence[File]) -> None:
    """Print how many packages are being loaded, and how much that is."""
    size = describe(sizes([file.url for file in files]))
    print(f"setup: {len(files)} packages, {size}", flush=True)


TESTS_ONLY = ("postgres", "ptxas", "test", "docs")  # the extras that a learner does without


def main() -> int:
    """Install into this environment, for a `learner` or for all; return the exit status.

    `compile FOLDER` is how it starts itself beside pip.
    """
    if sys.argv[1:2] == ["compile"]:
        compile_as_they_come(Path(sys.argv[2]))
        return 0
    left_out = TESTS_ONLY if sys.argv[1:] == ["learner"] else ()
    root = Path(__file__).resolve().parent.parent
    about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    project = about["project"]
    pip = Pip((sys.executable, "-m", "pip"), Path(sys.prefix) / "pip.log")
    pip.log.write_text("")
    try:
        with suppress(InstallError):  # the older one chooses as well, and takes twice as long
            pip.install(QUICK_PIP)
        torch = project["optional-dependencies"]["torch"]
        index = os.environ.get("TORCH_INDEX")
        needs = requirements(project, left_out) + about["build-system"]["requires"]
        build = None
        if index != "none":
            build = torch_build(pip, torch, index, has_device=has_cuda_device())
        if index == "none" or build:
            needs = [need for need in needs if need not in torch]
        with compile_beside(Path(sysconfig.get_path("purelib"))), ThreadPoolExecutor(1) as beside:
            torch_done = beside.submit(build.install, pip) if build else None
            files = pip.plan(*needs, *(build.file.needs if build else ()))
            if torch_done:
                torch_done.result()
            if files:
                beside.submit(say, files)
                pip.install_files(files)
            pip.install("--no-deps", "--no-build-isolation", "--editable", str(root))
    except InstallError as error:
        print(
            f"{error}\nsetup: pip could not install; all it said is in {pip.log}", file=sys.stderr
        )
        return 1
    return 0


@contextmanager
def compile_beside(folder: Path) -> Iterator[None]:
    """Compile the packages in `folder` as they come, and at the end on all cores what is left.

    pip would do so on one core, after it has unpacked everything: most of the time of a set-up.
    Packages' own tests are left out: a fifth of all modules, which nobody imports.
    """
    early = [sys.executable, __file__, "compile", str(folder)]
    with subprocess.Popen(early, stdin=subprocess.PIPE):  # ends when this pipe does
        yield
    command = [sys.executable, "-m", "compileall", "-qq", "-x", TESTS, "-j", "0", str(folder)]
    subprocess.run(command)  # some packages have files for other Pythons: no matter


def compile_as_they_come(folder: Path) -> None:
    """Compile each package in `folder` once it is whole, until standard input ends."""
    seen: set[Path] = set()
    modules: list[Path] = []
    while not select.select([sys.stdin], [], [], 0 if modules else LOOK_S)[0]:
        modules = _modules_of_next(folder, seen)
        for module in modules:
            compileall.compile_file(str(module), quiet=2)


def _modules_of_next(folder: Path, seen: set[Path]) -> list[Path]:
    """Return the modules of a package not `seen` yet; pip writes INSTALLER when all are there."""
    whole = {path.parent for path in folder.glob("*.dist-info/INSTALLER")} - seen
    if not whole:
        return []
    seen.add(info := min(whole))
    with suppress(OSError), (info / "RECORD").open(encoding="utf-8", newline="") as record:
        names = [row[0] for row in csv.reader(record) if row]
        return [folder / n for n in names if n.endswith(".py") and not re.search(TESTS, f"/{n}")]
    return []


def _file_of(about: dict[str, Any], download: dict[str, Any]) -> File:
    needs = tuple(about.get("requires_dist", ()))
    return File(about["name"], about["version"], _address(download), needs)


def _address(download: dict[str, Any]) -> str:
    """Return the address of a file, with the hash by which pip knows it again."""
    digest = download.get("archive_info", {}).get("hash")
    return f"{download['url']}#{digest}" if digest else str(download["url"])


def _name_in(line: str) -> str:
    """Return the name in a line of pip's, without its address; many at once are "packages"."""
    words = line.split()
    return words[1].rpartition("/")[2] if words[0] != "Installing" else "the packages"


def requirements(project: dict[str, Any], left_out: Collection[str] = ()) -> list[str]:
    """Return what the project and the extras of "all" require, but for some, and its own name."""
    extras: dict[str, list[str]] = project["optional-dependencies"]
    together = extras["all"][0].partition("[")[2].rstrip("]").split(",")
    chosen = [extras[extra] for extra in together if extra not in left_out]
    groups = [project["dependencies"], *chosen]
    return [need for group in groups for need in group if not need.startswith(project["name"])]


@dataclass(frozen=True)
class TorchBuild:
    """A build of PyTorch, and how pip gets this one and no other."""

    file: File
    options: Sequence[str]

    def install(self, pip: Pip) -> None:
        """Install it, without what it requires.

        Raises:
            InstallError: pip failed.
        """
        pip.install("--no-deps", *self.options, self.file.pin)


def torch_build(
    pip: Pip,
    torch: list[str],
    index: str | None,
    *,
    has_device: bool,
    cpu_index: str = CPU_INDEX,
) -> TorchBuild | None:
    """Return the build of PyTorch to install from an index of its own, and say its size.

    Args:
        pip: asks the index.
        torch: the requirement.
        index: the one that was asked for: "" is pip's own, None leaves the choice to us.
        has_device: whether a CUDA build is of use here.
        cpu_index: has CPU builds.

    Returns:
        None where it is there already, or comes with all others.

    Raises:
        InstallError: the index that was asked for has no such build.
    """
    if index is not None:
        where = ["--index-url", index] if index else []
        (file,) = pip.plan("--no-deps", "--ignore-installed", *where, *torch)
        print(f"setup: {file.pin} from {index or 'pip'}: {describe(sizes([file.url]))}", flush=True)
        return TorchBuild(file, ["--force-reinstall", *where])
    if has_device or sys.platform != "linux":
        return None
    for file in _cpu_builds(pip, torch, cpu_index):
        print(f"setup: no CUDA device, so {file.pin}: {describe(sizes([file.url]))}", flush=True)
        return TorchBuild(file, ["--index-url", cpu_index])
    return None


def _cpu_builds(pip: Pip, torch: list[str], index: str) -> list[File]:
    """Return the CPU build that the index has; none if PyTorch is installed already."""
    briefly = ["--timeout", str(ASK_S), "--retries", "0"]
    try:
        files = pip.plan("--no-deps", *briefly, "--index-url", index, *torch)
    except InstallError:
        print(f"setup: {index} does not answer: PyTorch is the build that pip finds", flush=True)
        return []
    return [file for file in files if file.version.endswith("+cpu")]


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


def sizes(urls: Sequence[str]) -> list[int | None]:
    """Return the bytes to load from each address: 0 for a file of this machine, None if unknown."""
    pool, tls = ThreadPoolExecutor(16), ssl.create_default_context()
    futures = [pool.submit(_size, url, tls) for url in urls]
    over, _ = wait(futures, timeout=SIZES_S)
    pool.shutdown(wait=False, cancel_futures=True)
    return [future.result() if future in over else None for future in futures]


def _size(url: str, tls: ssl.SSLContext) -> int | None:
    if url.startswith("file:"):
        return 0
    try:
        request = urllib.request.Request(url, method="HEAD")
        with urllib.request.urlopen(request, timeout=ASK_S, context=tls) as response:
            return int(response.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


def describe(sizes_bytes: Sequence[int | None]) -> str:
    """Return in words how much is to be loaded."""
    known, unknown = sum(filter(None, sizes_bytes)), sum(size is None for size in sizes_bytes)
    words = f"{known / 1e9:.1f} GB" if known >= 1e9 else f"{known / 1e6:.0f} MB"
    if unknown == len(sizes_bytes):
        return "of unknown size"
    return f"{words} to load" + (f", and {unknown} more of unknown size" if unknown else "")


if __name__ == "__main__":
    sys.exit(main())
