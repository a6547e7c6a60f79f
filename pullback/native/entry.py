"""Objects that can be called at a tenth of a microsecond: descriptors of kernels, and the entry that reads them.

The entry (`vectorcall.ll`) knows where things lie in Python's objects, NumPy's and ours. That is found out once, by looking for
known values in the memory of known objects; where it is not as it has always been, there is no entry: `unavailable` says why.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pullback.core import axes, modes, tracing
from pullback.core.array import Array, host_of
from pullback.core.dtypes import entering
from pullback.core.errors import DonatedBufferError
from pullback.core.forks import lock_across_forks
from pullback.core.modes import Mode
from pullback.core.types import ArrayType
from pullback.engine.backend import placement
from pullback.native import compile as compiling
from pullback.native import pool
from pullback.native.compile import LoadedCode
from pullback.native.kernel import SECONDS_A_WEIGHT, Kernel
from pullback.native.shorthand import expanded, flushing

# Results of this size or more start at a multiple of 64 bytes, as `core.array.aligned_empty` makes them: XLA can share them.
SHARED_BYTES = 1 << 14
# Of results up to this size the last two arrays are used again, if the function's caller has dropped them.
KEPT_BYTES = 1 << 10
# Workspaces up to this size lie on the stack.
STACK_BYTES = 1 << 14

# A descriptor's words, and those of the records of its inputs and outputs.
DESCRIPTOR = (
    "owner", "next", "mode", "inputs", "outputs", "constants", "kernel", "workspace", "shared", "blocks",
    "releases", "makes_tuple", "share", "input_records", "output_records", "constant_pointers", "donations", "donated",
    "calls",
)  # fmt: skip
INPUT = ("type", "dtype", "scalar", "given_dtype", "given_scalar", "number", "conversion", "ndim", "shape")
OUTPUT = ("type", "dtype", "ndim", "shape", "bytes", "kept", "turn")

PYTHON = (
    "Py_DecRef", "PyObject_GetAttr", "PyObject_Vectorcall", "PyObject_CallOneArg", "PyContextVar_Get",
    "PyTuple_New", "PyTuple_SetItem", "PyType_GenericAlloc", "PyErr_Occurred", "PyErr_SetNone",
    "PyErr_CheckSignals", "PyErr_NoMemory", "PyGILState_Ensure", "PyGILState_Release", "PyEval_SaveThread",
    "PyEval_RestoreThread", "PyMem_RawMalloc", "PyMem_RawFree", "PyFloat_AsDouble", "PyLong_AsLongLongAndOverflow",
)  # fmt: skip
NUMPY = {"PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}  # places in NumPy's table of its C API, which are for ever
_OBJECTS = (
    "None", "True", "False", "Array", "ndarray", "bytes_dtype", "KeyboardInterrupt",
    "fetch", "delete", "long_name", "several", "staging", "staging_default", "mode", "mode_default", "axes",
)  # fmt: skip
TABLE = (*PYTHON, *NUMPY, *_OBJECTS)

# Which Python numbers become elements of a dtype, and the number of the conversion.
CONVERSIONS = {"float32": (float, 1), "float64": (float, 2), "int32": (int, 3), "int64": (int, 4), "bool": (bool, 5)}

WORD = 8
_Count = ctypes.c_int32 if sys.version_info >= (3, 12) else ctypes.c_int64  # of the references to an object
RELEASED_SECONDS = 20e-6  # other threads of Python's may run beside work that takes longer


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C API."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


# ---- where things lie -------------------------------------------------------------------------------------------------------


class _LayoutError(Exception):
    """Something does not lie where it has always lain; says what."""


def _words(thing: Any, count: int) -> list[int]:
    """The first words of an object's memory."""
    return list((ctypes.c_uint64 * count).from_address(id(thing)))


def _place(thing: Any, wanted: Any, count: int, what: str) -> int:
    """At what offset an object holds another one."""
    found = [i for i, word in enumerate(_words(thing, count)) if word == id(wanted)]
    if len(found) != 1:
        raise _LayoutError(f"{what} is not found in its object")
    return WORD * found[0]


def _weak_place(thing: Any) -> int:
    """At what offset an object holds its weak references; it may lie before the object."""
    offset: int = type(thing).__weakrefoffset__
    word = ctypes.c_uint64.from_address(id(thing) + offset)
    before, referring = word.value, weakref.ref(thing)
    _expect(before == 0 and word.value == id(referring), "the list of weak references to an object")
    return offset


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise _LayoutError(f"{what} does not lie where it has always lain")


def _locations() -> dict[str, int]:
    """Where things lie in objects. Raises `_LayoutError`."""
    _expect(_words(object(), 2)[1] == id(object) and object.__basicsize__ == 2 * WORD, "the class of an object")
    marks = {name: object() for name in ("type", "host", "buffer", "later")}
    array = Array(*[*marks.values()][:3])  # type: ignore[arg-type]
    array._later = marks["later"]
    size = Array.__basicsize__ // WORD
    found = {f"our_{name}": _place(array, mark, size, f"Array.{name}") for name, mark in marks.items()}
    found["our_weakrefs"] = _weak_place(array)
    example = np.zeros((3, 5), np.int16)
    words = _words(example, 9)
    where = {"array_data": 16, "array_ndim": 24, "array_shape": 32, "array_dtype": 56, "array_flags": 64}
    _expect(words[2] == example.ctypes.data and words[7] == id(example.dtype), "the memory of a NumPy array")
    _expect(words[3] & 0xFFFFFFFF == 2, "the rank of a NumPy array")
    _expect(list((ctypes.c_int64 * 2).from_address(words[4])) == [3, 5], "the shape of a NumPy array")
    flags = [ctypes.c_uint32.from_address(id(seen) + 64).value & 257 for seen in (example, example.T)]
    _expect(flags == [257, 256], "the flags of a NumPy array")
    where["array_weakrefs"] = _weak_place(example)
    types = {"dtype_order": 26, "dtype_number": 28, "dtype_numbers": np.dtype(np.object_).num}  # numbers come before objects
    for dtype in (example.dtype, np.dtype(np.complex128), np.dtype(np.bool_), example.dtype.newbyteorder(">")):
        order, number = ctypes.string_at(id(dtype) + 26, 1).decode(), ctypes.c_int32.from_address(id(dtype) + 28).value
        _expect(order == dtype.byteorder and number == dtype.num, "the number of a NumPy dtype")
    for partial in (tracing.innermost_staging, modes.current_mode):
        found["partial_args"] = _place(partial, partial.args, 6, "what a partial function binds")
    found["scalar_value"] = 2 * WORD
    counted = object()
    before, more = _Count.from_address(id(counted)).value, [counted] * 3
    _expect(
        _Count.from_address(id(counted)).value == before + len(more) and not hasattr(sys, "gettotalrefcount"),
        "the count of the references to an object",
    )
    pair = (object(), object())
    found["tuple_items"] = _place(pair, pair[0], 5, "an item of a tuple")
    return found | where | types | {"head": NativeCallable._head}


def scalar_class(dtype: np.dtype[Any]) -> type | None:
    """The class of a dtype's scalars, if they hold their elements where the entry looks for them."""
    one = np.ones((), dtype)[()]
    seen = ctypes.string_at(id(one) + 2 * WORD, dtype.itemsize)
    return type(one) if type(one).__basicsize__ >= 2 * WORD + dtype.itemsize and seen == one.tobytes() else None


# ---- what can be called ---------------------------------------------------------------------------------------------------


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.POINTER(_Slot)),
    ]


_DEFAULT, _BASETYPE, _HAVE_VECTORCALL = 1 << 18, 1 << 10, 1 << 11  # Py_TPFLAGS_...
_TP_CALL, _TP_MEMBERS = 50, 72  # Py_tp_...
_PY_SSIZE_T, _READONLY = 19, 1  # the type, and the flag, of a member


def _class_of(name: str, base: type, basicsize: int, slots: dict[int, Any], flags: int) -> Any:
    """A class with slots in C."""
    table = (_Slot * (len(slots) + 1))(*[_Slot(slot, ctypes.cast(value, ctypes.c_void_p)) for slot, value in slots.items()])
    spec = _Spec(name.encode(), basicsize, 0, _DEFAULT | flags, table)
    make = _function("PyType_FromSpecWithBases", ctypes.py_object, ctypes.POINTER(_Spec), ctypes.py_object)
    return make(ctypes.byref(spec), (base,))


def _callable() -> Any:
    """The class of objects with a `vectorcall` of their own and a word for it: what `NativeCallable` is made of."""
    size = object.__basicsize__
    members = (_Member * 2)(_Member(b"__vectorcalloffset__", _PY_SSIZE_T, size, _READONLY, None))
    return _class_of("pullback.native.entry.Words", object, size + 2 * WORD, {_TP_MEMBERS: members}, _BASETYPE)


if TYPE_CHECKING:
    _Words = object
else:
    _Words = _callable()


class NativeCallable(_Words):
    """What has two words, behind Python's, for the entry: its address, and that of a descriptor.

    Attributes:
        _descriptor: the first of the descriptors that are tried; None before there is one.
        _pointed: earlier ones, while they are replaced.
        _vectorcall, _head: where the words are.
    """

    if not TYPE_CHECKING:  # subclasses have a place for the descriptor
        __slots__ = ()
    _descriptor: Descriptor | None = None
    _pointed: Any = None
    _promoted_from: Any
    _vectorcall = object.__basicsize__
    _head = object.__basicsize__ + WORD

    _long_call: Any  # what is called where there is no descriptor for a call


_promoted: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()


def _promote(kind: type) -> Any:
    """The subclass of a class of Callables whose instances are called by their `vectorcall`, and not by `__call__`."""
    found = _promoted.get(kind)
    if found is None:
        name = f"{kind.__module__}.{kind.__name__}"
        call = ctypes.cast(ctypes.pythonapi.PyVectorcall_Call, ctypes.c_void_p).value
        found = _promoted[kind] = _class_of(name, kind, 0, {_TP_CALL: call}, _HAVE_VECTORCALL)
        found.__doc__, found._promoted_from = kind.__doc__, kind
    return found


def install(into: NativeCallable, descriptor: Descriptor) -> None:
    """Let calls of an object try this descriptor first. The next one that it names is the one that was first till now."""
    _write(into, descriptor, "vectorcall")


_changing = lock_across_forks()


def _write(into: NativeCallable, descriptor: Descriptor, function: str) -> None:
    address = _entry().addresses[function]
    with _changing:
        ctypes.c_uint64.from_address(id(into) + into._vectorcall).value = address
        _point(into, descriptor)
        if not hasattr(into, "_promoted_from"):
            into.__class__ = _promote(type(into))


def _point(one: NativeCallable, descriptor: Descriptor | None) -> None:
    """Change an object's descriptor, and then its word; where a signal's handler changed them meanwhile, the word follows.

    The handler may also raise between any two steps: what the word may still say then stays in `_pointed`.
    """
    one._pointed = one._descriptor, one._pointed
    one._descriptor = descriptor
    while True:
        now = one._descriptor
        ctypes.c_uint64.from_address(id(one) + one._head).value = 0 if now is None else now.address
        if one._descriptor is now:
            break
    one._pointed = None


def retire(one: NativeCallable) -> None:
    """Let calls of an object take the general path again."""
    with _changing:
        if one._descriptor is not None:
            _point(one, None)
            one.__class__ = plain_class(one)


def plain_class(one: NativeCallable) -> Any:
    """The class of an object, whether calls of it go to the entry or not."""
    return getattr(one, "_promoted_from", type(one))


class Call(NativeCallable):
    """A kernel as a function of its inputs, whatever there is around the call: it returns a tuple of Arrays.

    Arguments:
        long_call: what is called with other arguments than the kernel's.
    """

    def __init__(self, descriptor: Descriptor, long_call: Any) -> None:
        self._long_call = long_call
        _write(self, descriptor, "direct")

    def __call__(self, *args: Any) -> Any:
        """What its class does until it is promoted, which is when it is made."""
        return self._long_call(*args)


# ---- descriptors ------------------------------------------------------------------------------------------------------------


class Descriptor:
    """A kernel with all that the entry must know of it, as a table of words.

    Arguments:
        kernel: the kernel. code: what it was compiled to. mode: in which calls are made.
        makes_tuple: whether the result is a tuple of Arrays; else it is the one Array that there is.
        next: the descriptor to be tried if arguments are others.
        donated: which inputs are donated: Arrays in their places give up their memory; empty if none are.
        calls: the word, as a NumPy array, in which calls are counted; one of its own by default.
    """

    def __init__(
        self,
        kernel: Kernel,
        code: LoadedCode,
        mode: Mode,
        makes_tuple: bool = True,
        next: Descriptor | None = None,
        donated: tuple[bool, ...] = (),
        calls: np.ndarray[Any, np.dtype[np.uint64]] | None = None,
    ) -> None:
        self.kernel, self.code, self.mode, self.makes_tuple, self.next = kernel, code, mode, makes_tuple, next
        self.donated = donated
        places = [i for i, given in enumerate(donated) if given]
        self.length: int = 1 if next is None else next.length + 1
        self._alive: list[Any] = []
        releases = kernel.weight * SECONDS_A_WEIGHT >= RELEASED_SECONDS
        words = {
            "owner": id(self),
            "next": 0 if next is None else next.address,
            "mode": id(mode),
            "inputs": len(kernel.inputs),
            "outputs": len(kernel.outputs),
            "constants": len(kernel.constants),
            "kernel": code.addresses["kernel"],
            "workspace": kernel.workspace,
            "shared": kernel.shared,
            "blocks": kernel.blocks,
            "releases": releases,
            "makes_tuple": makes_tuple,
            "share": pool.share() if releases and kernel.divided else 0,
            "input_records": self._table([word for type in kernel.inputs for word in self._input(type)]),
            "output_records": self._table([word for type in kernel.outputs for word in self._output(type)]),
            "constant_pointers": self._table([self._owned(array) for array in kernel.constants]),
            "donations": len(places),
            "donated": self._table(places),
            "calls": self._owned(np.zeros(1, np.uint64) if calls is None else calls),
        }
        self.address: int = self._table([int(words[name]) for name in DESCRIPTOR])

    def _table(self, words: Sequence[int]) -> int:
        return self._owned(np.array(words, np.uint64))

    def _owned(self, array: np.ndarray[Any, Any]) -> int:
        """The address of an array's elements, which live as long as this."""
        array = np.require(array, requirements=["C", "ALIGNED"])
        self._alive.append(array)
        return array.ctypes.data

    def _input(self, type: ArrayType) -> list[int]:
        dtype = type.dtype
        scalar = 0 if type.shape else self._known(scalar_class(dtype))
        foreign = not type.weak and entering(dtype) is dtype  # else NumPy's arrays of this dtype are of another type
        weak = not type.shape and (type.weak or dtype == np.bool_)
        number, conversion = CONVERSIONS.get(dtype.name, (None, 0)) if weak else (None, 0)
        words = {
            "type": self._known(type),
            "dtype": self._known(dtype),
            "scalar": scalar,
            "given_dtype": self._known(dtype) if foreign else 0,
            "given_scalar": scalar if foreign else 0,
            "number": self._known(number),
            "conversion": conversion,
            "ndim": type.ndim,
            "shape": self._table(type.shape),
        }
        return [words[name] for name in INPUT]

    def _output(self, type: ArrayType) -> list[int]:
        words = {
            "type": self._known(type),
            "dtype": self._known(type.dtype),
            "ndim": type.ndim,
            "shape": self._table(type.shape),
            "bytes": type.nbytes,
            "kept": self._owned(np.full(2, None)) if type.nbytes <= KEPT_BYTES else 0,
            "turn": 0,
        }
        return [words[name] for name in OUTPUT]

    def _known(self, thing: Any) -> int:
        """The address of an object, which lives as long as this; 0 for None."""
        self._alive.append(thing)
        return 0 if thing is None else id(thing)


# ---- the entry --------------------------------------------------------------------------------------------------------------


def _fetch(array: Array) -> bool:
    """See to it that an Array has its values in NumPy memory, in C order; False if it has none any more."""
    try:
        host = host_of(array)
    except DonatedBufferError:  # the long call says which argument it is
        return False
    if host.__class__ is np.ndarray and not (host.flags.c_contiguous and host.flags.aligned):
        array._host = np.array(host, order="C")
    return True


def _numpy_functions() -> dict[str, int]:
    """The functions of NumPy's C API that the entry calls."""
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    address = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(capsule, None)
    return {name: ctypes.c_uint64.from_address(address + WORD * place).value for name, place in NUMPY.items()}


def _objects() -> dict[str, Any]:
    """The objects that the entry compares with, or calls."""
    return {
        "None": None,
        "True": True,
        "False": False,
        "Array": Array,
        "ndarray": np.ndarray,
        "bytes_dtype": np.dtype(np.uint8),
        "KeyboardInterrupt": KeyboardInterrupt,
        "fetch": _fetch,
        "delete": Array.delete,
        "long_name": sys.intern("_long_call"),
        "staging": tracing.staging.variable,
        "staging_default": tracing.innermost_staging,
        "mode": modes._mode,
        "mode_default": modes.current_mode,
        "axes": axes._named_axes,
    }


def entry_text(places: dict[str, int], triple: str) -> str:
    """The LLVM text of the entry, given where things lie in objects."""
    values: dict[str, Any] = dict(
        **places,
        **flushing(triple),
        table=len(TABLE),
        count=f"i{8 * ctypes.sizeof(_Count)}",
        input_bytes=8 * len(INPUT),
        output_bytes=8 * len(OUTPUT),
        shared_bytes=SHARED_BYTES,
        stack_bytes=STACK_BYTES,
    )
    return expanded("vectorcall.ll", TABLE, {"DESCRIPTOR": DESCRIPTOR, "INPUT": INPUT, "OUTPUT": OUTPUT}, values)


class _Entry:
    """The entry's machine code, with its table filled in. It is never unloaded: what a process does last may call it."""

    def __init__(self) -> None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        text = entry_text(_locations(), compiling.host().triple)
        self.code = compiling.loaded(text, ("vectorcall", "direct", "table"))
        self.addresses = self.code.addresses
        self.objects = _objects()
        functions = {name: ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in PYTHON}
        self.placement = placement
        several = id(placement) + _place(placement, placement.several, 3, "placement.several")
        known = functions | _numpy_functions() | {name: id(one) for name, one in self.objects.items()} | {"several": several}
        (ctypes.c_uint64 * len(TABLE)).from_address(self.addresses["table"])[:] = [known[name] or 0 for name in TABLE]


_lock = lock_across_forks()


@functools.cache
def _made() -> _Entry:
    return _Entry()


def _entry() -> _Entry:
    with _lock:
        return _made()


@functools.cache
def unavailable() -> str | None:
    """Why calls cannot go to machine code of ours in this process; None if they can."""
    why = compiling.unavailable()
    if why is None:
        try:
            _entry()
        except _LayoutError as error:
            return str(error)
        except (RuntimeError, OSError) as error:  # a system that lets nobody make machine code
            return f"LLVM cannot make machine code in this process ({error})"
    return why
