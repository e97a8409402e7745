"""From LLVM IR to a function that can be called: llvmlite's compiler, one target machine an engine.

Engines live as long as the function made from them, and are never shared: two modules behind one
target machine have crashed. Compiling takes some ten milliseconds a kernel.

May import: errors, extras, code_cache; llvmlite, inside functions.
"""

import ctypes
import functools
import importlib
import importlib.util
import threading
from typing import Any

from ..errors import CompileError
from ..extras import describe_missing
from . import code_cache

SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
_lock = threading.Lock()  # LLVM's contexts are not made for several threads


@functools.cache
def available() -> bool:
    """Tell whether kernels can be compiled here: whether llvmlite is installed."""
    return importlib.util.find_spec("llvmlite") is not None


@functools.cache
def _llvm() -> Any:
    """Return llvmlite's binding, its native target ready."""
    try:
        llvm = importlib.import_module("llvmlite.binding")
    except ImportError as error:
        raise CompileError(describe_missing("compile", "compile", error)) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


class Function:
    """A compiled function `void(i64 lo, i64 hi, ptr table)`. Calls run without the GIL.

    Args:
        lasting: whether later processes may take it from the disk.
    Raises:
        CompileError: llvmlite is missing, or the text is not LLVM IR; says where.
    """

    def __init__(self, text: str, name: str = "kernel", lasting: bool = True) -> None:
        self._code = code_cache.load(text) if lasting else None
        if self._code is None:
            self._compile(text, name, lasting)
        if self._code is not None:
            self.call = SIGNATURE(self._code.address)

    def _compile(self, text: str, name: str, lasting: bool) -> None:
        llvm = _llvm()
        with _lock:
            if lasting and code_cache.directory() is not None:
                machine = target_machine(reloc="pic", codemodel="small")
                object_file = machine.emit_object(_optimise(llvm, text, machine))
                self._code = code_cache.keep(text, object_file, name)
                if self._code is not None:
                    return
            self._machine = target_machine()
            module = _optimise(llvm, text, self._machine)
            self._engine = llvm.create_mcjit_compiler(module, self._machine)
            self._engine.finalize_object()
            self.call = SIGNATURE(self.address(name))

    def address(self, name: str) -> int:
        """Return where a function of the module begins."""
        return int(self._engine.get_function_address(name))


def target_machine(triple: str = "", processor: str = "", **options: str) -> Any:
    """Return a new target machine: a processor of another kind, or this one with all it can do."""
    llvm = _llvm()
    if triple:
        return llvm.Target.from_triple(triple).create_target_machine(cpu=processor, opt=3)
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=3,
        **options,
    )


@functools.cache
def processor() -> str:
    """Return LLVM's name of this processor; "numpy" where there is no LLVM."""
    if not available():
        return "numpy"
    return str(_llvm().get_host_cpu_name())


@functools.cache
def vector_registers() -> tuple[int, int]:
    """Return how many vector registers this processor has, and of how many bits."""
    if not available():
        return 16, 128
    flags: Any = code_cache.processor_fields().get("flags", "").split()
    flags = flags or {name for name, has in _llvm().get_host_cpu_features().items() if has}
    if "avx512f" in flags:
        return 32, 512
    if "avx" in flags:
        return 16, 256
    return (32, 128) if "neon" in flags else (16, 128)


def assembly(text: str, triple: str = "", processor: str = "") -> str:
    """Return the assembly of a module, for this machine unless another is named.

    Raises:
        CompileError: llvmlite is missing or knows no such machine or processor.
    """
    llvm = _llvm()
    with _lock:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        try:
            machine = target_machine(triple, processor)
        except RuntimeError as error:
            raise CompileError(
                f"compile: no code for {triple} here: {error}. Install an llvmlite that has it."
            ) from error
        module = _optimise(llvm, text, machine)
        return str(machine.emit_assembly(module))


def machine_code(text: str) -> bytes:
    """Return an object file of a module, for this processor: what a linker takes."""
    llvm = _llvm()
    with _lock:
        machine = target_machine()
        return bytes(machine.emit_object(_optimise(llvm, text, machine)))


def _optimise(llvm: Any, text: str, machine: Any) -> Any:
    """Return a module after LLVM's own passes; vectors are explicit, so a level of 2 is enough."""
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise CompileError(f"compile: not LLVM IR: {error}. This is a mistake here.") from error
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return module
