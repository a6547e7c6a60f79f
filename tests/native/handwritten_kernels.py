"""Kernels written by hand, so that what calls them is tested by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import pullback as pb
from pullback.core.modes import current_mode
from pullback.native import compile as compiling
from pullback.native import entry
from pullback.native.kernel import Kernel

WHY_NOT = entry.unavailable()
needs_entry = pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))

LONG = 1e9  # a weight from which on the interpreter's lock is released
MISSED = "the long call"


def kernel_text(body: str, more: str = "") -> str:
    """A module whose kernel has `%x0`, `%x1`, `%x2` and `%y0`, `%y1`: where operands and results are."""
    pointers = ""
    for name, table, count in [("x", "%operands", 3), ("y", "%results", 2)]:
        for i in range(count):
            if f"%{name}{i}" in body:
                pointers += f"  %{name}{i}.at = getelementptr ptr, ptr {table}, i64 {i}\n"
                pointers += f"  %{name}{i} = load ptr, ptr %{name}{i}.at\n"
    head = "define i32 @kernel(ptr %results, ptr %operands, ptr %workspace, ptr %poll, i64 %begin, i64 %end) {\nentry:\n"
    return f"{more}\n{head}{pointers}{body}}}\n"


def loop(body: str, first: str, last: str) -> str:
    """Run `body` for each `%i`; it has no blocks of its own."""
    return f"""
  br label %head
head:
  %i = phi i64 [{first}, %entry], [%i.next, %body]
  %more = icmp ult i64 %i, {last}
  br i1 %more, label %body, label %out
body:
{body}
  %i.next = add i64 %i, 1
  br label %head
out:
  ret i32 0
"""


def elementwise(count: int, element: str, expression: str) -> str:
    """For each element `%v` of the operand, and `%w` of the second one if there is one, `%r`."""
    parts = f"  %a = getelementptr {element}, ptr %x0, i64 %i\n  %v = load {element}, ptr %a\n"
    if "%w" in expression:
        parts += f"  %b = getelementptr {element}, ptr %x1, i64 %i\n  %w = load {element}, ptr %b\n"
    parts += f"{expression}\n  %c = getelementptr {element}, ptr %y0, i64 %i\n  store {element} %r, ptr %c"
    return kernel_text(loop(parts, "0", str(count)))


def copying(type: Any, weight: float = 0.0) -> Kernel:
    """The identity, of any type: it copies bytes."""
    body = f"  call void @llvm.memcpy.p0.p0.i64(ptr %y0, ptr %x0, i64 {type.nbytes}, i1 false)\n  ret i32 0\n"
    return Kernel(kernel_text(body, "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)"), (type,), (type,), weight=weight)


def adding_one(count: int = 8, weight: float = 0.0) -> Kernel:
    type = pb.ArrayType((count,), "float32")
    return Kernel(elementwise(count, "float", "  %r = fadd float %v, 1.0"), (type,), (type,), weight=weight)


def sum_and_difference(count: int = 8) -> Kernel:
    type = pb.ArrayType((count,), "float32")
    step = """
  %a = getelementptr float, ptr %x0, i64 %i
  %b = getelementptr float, ptr %x1, i64 %i
  %v = load float, ptr %a
  %w = load float, ptr %b
  %s = fadd float %v, %w
  %d = fsub float %v, %w
  %c = getelementptr float, ptr %y0, i64 %i
  %e = getelementptr float, ptr %y1, i64 %i
  store float %s, ptr %c
  store float %d, ptr %e"""
    return Kernel(kernel_text(loop(step, "0", str(count))), (type, type), (type, type))


def endless(weight: float = LONG, blocks: int = 1) -> Kernel:
    """A loop that ends when it is told to, if ever."""
    body = """
  br label %head
head:
  %i = phi i64 [0, %entry], [%i.next, %head], [0, %ask]
  %i.next = add i64 %i, 1
  call void asm sideeffect "", ""()
  %asks = icmp eq i64 %i, 100000
  br i1 %asks, label %ask, label %head
ask:
  %rc = call i32 %poll()
  %stop = icmp ne i32 %rc, 0
  br i1 %stop, label %out, label %head
out:
  store float 0.0, ptr %y0
  ret i32 1
"""
    type = pb.ArrayType((), "float32")
    return Kernel(kernel_text(body), (type,), (type,), blocks=blocks, weight=weight)


def squares(blocks: int, workspace: int = 64, weight: float = LONG) -> Kernel:
    """Squares of whole numbers, a thousand in a block, by way of the workspace."""
    step = """
  %a = getelementptr i64, ptr %x0, i64 %i
  %v = load i64, ptr %a
  store volatile i64 %v, ptr %workspace
  %w = load volatile i64, ptr %workspace
  %r = mul i64 %w, %w
  %c = getelementptr i64, ptr %y0, i64 %i
  store i64 %r, ptr %c"""
    body = "  %first = mul i64 %begin, 1000\n  %last = mul i64 %end, 1000" + loop(step, "%first", "%last")
    type = pb.ArrayType((1000 * blocks,), "int64")
    return Kernel(kernel_text(body), (type,), (type,), workspace=workspace, blocks=blocks, weight=weight)


def at_once(work: Callable[[int], None], count: int = 8) -> None:
    """Call `work` of 0, 1, ... in as many threads, all at once; what one of them raises is raised."""
    barrier = threading.Barrier(count)

    def begin(i: int) -> None:
        barrier.wait()
        work(i)

    with ThreadPoolExecutor(count) as threads:
        list(threads.map(begin, range(count)))


def descriptor_of(kernel: Kernel, **options: Any) -> entry.Descriptor:
    return entry.Descriptor(kernel, compiling.loaded(kernel.source), current_mode(), **options)


def call_of(kernel: Kernel, long_call: Callable[..., Any] = lambda *args: MISSED) -> entry.Call:
    """The kernel as a function that returns a tuple."""
    return entry.Call(descriptor_of(kernel), long_call)


class Function(entry.NativeCallable):
    """A function that says of each long call what it was given."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return MISSED, args, kwargs

    _long_call = __call__


def function_of(*kernels: Kernel) -> Function:
    """A function with a descriptor for each kernel, which returns the one result."""
    made = Function()
    for kernel in kernels:
        entry.install(made, descriptor_of(kernel, makes_tuple=False, next=made._descriptor))
    return made
