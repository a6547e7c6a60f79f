"""Parts of XLA's programs as machine code of our own: loops that the tier takes, each one call in the program.

What XLA calls is a handler of its foreign function interface (the C header `xla/ffi/api/c_api.h`, which jaxlib brings): a
function of one argument, the call frame, in which it finds the addresses of operands and results. It is written here as LLVM
text beside a kernel. A caller may also ask it which version of the interface it knows.

- The name of a handler is a digest of its text, of the processor and of all else that its code depends on, and stands in the
  program's text: so an executable that is on disk finds its handlers again, since whoever loads it has lowered the program, and
  registered them. XLA forgets no handler: there are at most `MAX_HANDLERS`, and loops after these are XLA's.
- The kernel's workspace, and the memory that its threads share, are one more result of the call, which nobody reads: XLA keeps
  it among its temporary memory, apart for each call that runs, and calls in a loop use it again.
- What is heavy, and can be divided, is divided among the threads of `pool.py`.
- XLA's threads flush denormal numbers to zero while they run a program, calls included.

A call takes 0.1 us in a loop of XLA's.
"""

from __future__ import annotations

import ctypes
import functools

from pullback.core.forks import lock_across_forks
from pullback.engine.backend import Part
from pullback.engine.jaxlib import jaxlib
from pullback.native import compile as compiling
from pullback.native import pool
from pullback.native.kernel import Kernel

MAX_HANDLERS = 4096
ALIGNMENT = 64  # of a workspace

# ---- the interface ----------------------------------------------------------------------------------------------------------

VERSION = (0, 3)  # of the interface: that of the first jaxlib that is supported; later ones take it
METADATA = 1  # the type of the extension that asks for the version

Pointer, Size, Int = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


class Extension(ctypes.Structure):
    _fields_ = (("struct_size", Size), ("type", Int), ("next", Pointer))


class Version(ctypes.Structure):
    _fields_ = (("struct_size", Size), ("extension_start", Pointer), ("major_version", Int), ("minor_version", Int))


class Metadata(ctypes.Structure):
    _fields_ = (("struct_size", Size), ("api_version", Version), ("traits", ctypes.c_uint32))


class MetadataExtension(ctypes.Structure):
    _fields_ = (("extension_base", Extension), ("metadata", Pointer))


class Values(ctypes.Structure):
    """XLA_FFI_Args, and XLA_FFI_Rets, which looks the same."""

    _fields_ = (
        ("struct_size", Size), ("extension_start", Pointer), ("size", ctypes.c_int64), ("types", Pointer), ("args", Pointer)
    )  # fmt: skip


class Buffer(ctypes.Structure):
    _fields_ = (("struct_size", Size), ("extension_start", Pointer), ("dtype", Int), ("data", Pointer))


class CallFrame(ctypes.Structure):
    _fields_ = (
        ("struct_size", Size), ("extension_start", Pointer), ("api", Pointer), ("ctx", Pointer), ("stage", Int),
        ("args", Values), ("rets", Values),
    )  # fmt: skip


# The address of the function that divides blocks among threads, if there is one; and what it asks now and then.
_SHARED = """
@share = global ptr null
define internal i32 @goes_on() {
ret i32 0
}
"""


def text(kernel: Kernel) -> str:
    """The module of a kernel with a function `handler` that XLA calls."""
    operands, results = len(kernel.inputs) + len(kernel.constants), len(kernel.outputs)
    lines: list[str] = []

    def new(value: str) -> str:
        lines.append(f"%h{len(lines)} = {value}")
        return f"%h{len(lines) - 1}"

    def at(pointer: str, offset: int) -> str:
        return new(f"getelementptr i8, ptr {pointer}, i64 {offset}")

    def read(pointer: str, offset: int, type: str = "ptr") -> str:
        return new(f"load {type}, ptr {at(pointer, offset)}")

    extension = read("%frame", CallFrame.extension_start.offset)
    lines += [f"%asks = icmp ne ptr {extension}, null", "br i1 %asks, label %asked, label %call", "asked:"]
    kind = read(extension, Extension.type.offset, "i32")
    lines += [f"%version = icmp eq i32 {kind}, {METADATA}", "br i1 %version, label %metadata, label %call", "metadata:"]
    metadata, version = read(extension, MetadataExtension.metadata.offset), Metadata.api_version.offset
    said = {Version.major_version.offset: VERSION[0], Version.minor_version.offset: VERSION[1]}
    for offset, number in {version + field: number for field, number in said.items()}.items():
        lines.append(f"store i32 {number}, ptr {at(metadata, offset)}")
    lines += [f"store i32 0, ptr {at(metadata, Metadata.traits.offset)}", "ret ptr null", "call:"]

    def addresses(values: int, count: int, more: int = 0) -> str:
        table = new(f"alloca [{count + more} x ptr]")
        buffers = read("%frame", values + Values.args.offset)
        for i in range(count):
            data = read(read(buffers, 8 * i), Buffer.data.offset)
            lines.append(f"store ptr {data}, ptr {at(table, 8 * i)}")
        return table

    given, made = addresses(CallFrame.args.offset, operands), addresses(CallFrame.rets.offset, results + 1, 1)
    address = new(f"ptrtoint ptr {read(made, 8 * results)} to i64")
    start = new(f"and i64 {new(f'add i64 {address}, {ALIGNMENT - 1}')}, {-ALIGNMENT}")
    workspace = new(f"inttoptr i64 {start} to ptr")
    begin = [f"store ptr {at(workspace, kernel.workspace)}, ptr {at(made, 8 * results)}"]
    begin.append(f"store i64 0, ptr {at(made, 8 * results + 8)}")
    lines += begin
    if kernel.divided:
        share, passed = new("load ptr, ptr @share"), f"ptr @kernel, ptr {made}, ptr {given}, ptr {workspace}"
        lines += [f"%several = icmp ne ptr {share}, null", "br i1 %several, label %divide, label %alone", "divide:"]
        code = new(f"call i32 {share}({passed}, i64 {kernel.workspace}, ptr @goes_on, i64 {kernel.blocks})")
        # another thread may have had no memory for a workspace of its own
        lines += [f"%done = icmp eq i32 {code}, 0", "br i1 %done, label %end, label %alone", "alone:", *begin]
    # with nobody to ask there is nothing that stops a kernel: it returns 0
    lines.append(f"call i32 @kernel(ptr {made}, ptr {given}, ptr {workspace}, ptr null, i64 0, i64 {kernel.blocks})")
    body = "\n".join([*lines, "br label %end", "end:", "ret ptr null"])
    return f"{kernel.source}\n{_SHARED}\ndefine ptr @handler(ptr %frame) {{\n{body}\n}}\n"


# ---- registered handlers ----------------------------------------------------------------------------------------------------

_names: set[str] = set()  # by which XLA knows handlers, or will
_handlers: dict[str, compiling.LoadedCode] = {}  # XLA may call them for ever
_lock = lock_across_forks()


def part(kernel: Kernel) -> Part | None:
    """A kernel as what XLA's programs can call once it is registered; None if there are as many already as there may be."""
    source = text(kernel)
    name = f"pullback_native_{compiling.key(source, compiling.host())}"
    with _lock:
        if name not in _names and len(_names) >= MAX_HANDLERS:
            return None
        _names.add(name)
    memory = kernel.workspace + kernel.shared
    return Part(
        name, functools.partial(_register, name, source, kernel.divided), kernel.constants, memory + ALIGNMENT if memory else 0
    )


def _register(name: str, source: str, divided: bool) -> None:
    with _lock:
        if name not in _handlers:
            code = compiling.loaded(source, ("handler", "share"))
            if divided:
                ctypes.c_uint64.from_address(code.addresses["share"]).value = pool.share()
            jaxlib().register_handler(name, code.addresses["handler"])
            _handlers[name] = code
