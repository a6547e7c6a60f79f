"""Each public function in the tables beside this file, in each dtype, under each transformation: see cases.py."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cases import Case, Entry
from surface_tables import ELSEWHERE, HERE, TABLE, function_of, is_listed

import pullback as pb
from pullback.core.dtypes import DTYPES
from pullback.testing.values import TOLERANCES

# Namespaces whose every function is in a table here. (Of numpy, lax and nn, older functions are in tests/numpy.)
WHOLE = ("random", "numpy.linalg", "numpy.fft", "lax.linalg", "scipy", "image", "flatten_util", "nn.initializers")


def calls(wanted: Callable[[Entry], Any]) -> Any:
    chosen = [(name, i) for name, entry in TABLE.items() if wanted(entry) for i in range(len(entry.cases))]
    return pytest.mark.parametrize("name, i", [pytest.param(name, i, id=f"{name}-{i}") for name, i in chosen])


def is_float(x: Any) -> bool:
    return isinstance(x, np.ndarray) and x.dtype.kind in "fcV"  # V: bfloat16


def mapped(change: Callable[[Any], Any], tree: Any) -> Any:
    """A tree of arguments with its floating-point NumPy arrays changed."""
    if isinstance(tree, (list, tuple)) and not hasattr(tree, "_fields"):
        return type(tree)([mapped(change, each) for each in tree])
    if isinstance(tree, dict):
        return {key: mapped(change, each) for key, each in tree.items()}
    return change(tree) if is_float(tree) else tree


def as_dtype(call: Case, dtype: str) -> Case:
    """The call with its floating-point arrays in a dtype, or what is nearest to it: a complex array stays complex."""
    complex_dtype = "complex128" if dtype in ("float64", "complex128") else "complex64"

    def change(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return x.astype(DTYPES[complex_dtype if x.dtype.kind == "c" else dtype])

    return Case(mapped(change, call.args), mapped(change, call.kwargs))


def wide(x: Any) -> Any:
    """A floating-point array in double precision: what references compute on."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def leaves(tree: Any) -> list[Any]:
    return [each for leaf in tree for each in leaves(leaf)] if isinstance(tree, (list, tuple)) else [tree]


def arrays(call: Case) -> Iterator[Any]:
    for tree in (*call.args, *call.kwargs.values()):
        yield from [each for each in leaves(tree) if isinstance(each, np.ndarray)]


def expected_dtypes(entry: Entry, call: Case) -> list[Any]:
    """Those of the reference; if no operand has 64 bits, its 64-bit results count as 32-bit ones."""
    assert entry.reference is not None
    with np.errstate(all="ignore"):
        found = [np.asarray(each).dtype for each in leaves(entry.reference(*call.args, **call.kwargs))]
    narrow = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
    if any(array.dtype.name in narrow for array in arrays(call)):
        return found
    return [np.dtype(narrow.get(each.name, each)) for each in found]


VALUES = [
    (name, i, dtype)
    for name, entry in TABLE.items()
    if entry.reference is not None
    for i, call in enumerate(entry.cases)
    for dtype in (entry.dtypes if any(map(is_float, arrays(call))) else entry.dtypes[:1])
]


@pytest.mark.parametrize("name, i, dtype", [pytest.param(*each, id="-".join(map(str, each))) for each in VALUES])
def test_a_value_is_what_the_reference_says(name: str, i: int, dtype: str) -> None:
    entry = TABLE[name]
    assert entry.reference is not None
    call = as_dtype(entry.cases[i], dtype)
    found = leaves(function_of(name)(*call.args, **call.kwargs))
    with np.errstate(all="ignore"):
        expected = leaves(entry.reference(*mapped(wide, call.args), **mapped(wide, call.kwargs)))
    assert len(found) == len(expected)
    for got, true in zip(found, map(np.asarray, expected)):
        assert np.shape(got) == true.shape
        values = np.asarray(got)
        loose = (entry.rtol or {}).get(dtype) or max(TOLERANCES.get(each, 1e-7) for each in (dtype, values.dtype.name))
        with np.errstate(all="ignore"):
            size = np.abs(true[np.isfinite(true)]).max(initial=1e-3) if true.dtype.kind in "fc" else 1.0
            to = np.complex128 if "c" in (values.dtype.kind, true.dtype.kind) else np.float64
            np.testing.assert_allclose(values.astype(to), true.astype(to), rtol=loose, atol=loose * size)
    if entry.same_dtype and dtype not in ("bfloat16", "float16"):
        assert [np.asarray(got).dtype for got in found] == expected_dtypes(entry, call)


def as_function(entry: Entry, name: str, i: int, wrt: tuple[int, ...] | None = None) -> tuple[Any, list[Any]]:
    """The call as a function of its positional array arguments, or of those that are differentiated; and these."""
    call = as_dtype(entry.cases[i], "float64" if wrt is not None else entry.dtypes[0])
    which = [
        at
        for at, arg in enumerate(call.args)
        if (wrt is None or at in wrt) and leaves(arg) and all(isinstance(leaf, np.ndarray) for leaf in leaves(arg))
    ]

    def f(*given: Any) -> Any:
        args = list(call.args)
        for at, value in zip(which, given, strict=True):
            args[at] = value
        return function_of(name)(*args, **call.kwargs)

    return f, [call.args[at] for at in which]


@calls(lambda entry: entry.jit)
def test_compiled_it_has_the_type_and_values_that_it_has_eagerly(name: str, i: int) -> None:
    f, args = as_function(TABLE[name], name, i)
    eager, compiled = pb.tree.leaves(f(*args)), pb.tree.leaves(pb.jit(f)(*args))
    assert [pb.numpy.asarray(one).type for one in eager] == [pb.numpy.asarray(one).type for one in compiled]
    for one, other in zip(eager, compiled, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        loose = (TABLE[name].rtol or {}).get(TABLE[name].dtypes[0]) or TOLERANCES.get(one.dtype.name, 0)
        np.testing.assert_allclose(
            other, one, rtol=loose, atol=loose * max(1.0, np.abs(one[np.isfinite(one)]).max(initial=0)) if loose else 0
        )


@calls(lambda entry: entry.vmap)
def test_batched_it_is_a_loop(name: str, i: int) -> None:
    f, args = as_function(TABLE[name], name, i)
    if not args:
        return
    batch = [pb.tree.map(lambda x: np.stack([x, x[::-1] if x.ndim else x]), arg) for arg in args]
    for flags in {tuple(0 for _ in args), (0, *[None for _ in args[1:]])}:
        given = [many if flag == 0 else one for many, one, flag in zip(batch, args, flags)]
        found = pb.tree.leaves(pb.vmap(f, in_axes=flags)(*given))
        rows = [
            pb.tree.leaves(f(*[pb.tree.map(lambda x, k=k: x[k], x) if flag == 0 else x for x, flag in zip(given, flags)]))
            for k in range(2)
        ]
        for got, *one in zip(found, *rows, strict=True):
            loop = np.stack([np.asarray(each) for each in one])
            loose = (TABLE[name].rtol or {}).get(TABLE[name].dtypes[0]) or TOLERANCES.get(loop.dtype.name, 0)
            size = np.abs(loop[np.isfinite(loop)]).max(initial=1) if loop.dtype.kind in "fc" else 0
            np.testing.assert_allclose(np.asarray(got), loop, rtol=loose, atol=loose * size)
            assert got.dtype == loop.dtype


@calls(lambda entry: entry.wrt)
def test_derivatives_are_those_of_finite_differences(name: str, i: int) -> None:
    entry = TABLE[name]
    f, args = as_function(entry, name, i, entry.wrt)
    if args and all(leaf.size for arg in args for leaf in leaves(arg)):
        pb.testing.check_gradients(f, args, order=entry.order, modes=entry.modes)


@calls(lambda entry: entry.wrt)
def test_it_is_as_weak_as_its_operands(name: str, i: int) -> None:
    entry = TABLE[name]
    f, args = as_function(entry, name, i)
    if any(is_float(leaf) for each in entry.cases[i].kwargs.values() for leaf in leaves(each)):
        return
    weak = [pb.tree.map(lambda x: pb.numpy.full(x.shape, 0.5) * 2 if is_float(x) else x, arg) for arg in args]
    if all(not is_float(leaf) for arg in weak for leaf in leaves(arg)) and entry.dtypes[0] == "float32":
        out = pb.tree.leaves(pb.eval_shape(f, *weak) if entry.jit else f(*weak))
        assert all(one.dtype.kind not in "fc" or one.weak_type == entry.weak for one in out)


class Senseless:
    """Neither number nor array, index, name, dtype, device nor condition."""

    def __bool__(self) -> bool:
        raise TypeError("this is neither true nor false")


@calls(lambda entry: True)
def test_a_senseless_argument_is_refused(name: str, i: int) -> None:
    entry = TABLE[name]
    call = as_dtype(entry.cases[i], entry.dtypes[0])
    for at in [each for each in (*range(len(call.args)), *call.kwargs) if each not in entry.anything]:
        args = [Senseless() if at == k else arg for k, arg in enumerate(call.args)]
        kwargs = {key: Senseless() if at == key else value for key, value in call.kwargs.items()}
        with pytest.raises((TypeError, ValueError, IndexError, pb.errors.PullbackError)):
            function_of(name)(*args, **kwargs)


def public_functions(path: str) -> Iterator[str]:
    module = function_of(path)
    for name in module.__all__:
        found = getattr(module, name)
        if isinstance(found, types.ModuleType):
            yield from public_functions(f"{path}.{name}")
        elif inspect.isfunction(found) and not found.__name__.startswith("_"):
            yield f"{path}.{name}"


@pytest.mark.parametrize("path", WHOLE)
def test_every_function_of_a_namespace_is_in_a_table(path: str) -> None:
    try:
        function_of(path)
    except AttributeError:
        pytest.skip("not there yet")
    missing = [name for name in public_functions(path) if not is_listed(name)]
    assert not missing, f"add {missing} to a table"


def test_what_is_tested_elsewhere_is_named_there() -> None:
    for name, file in ELSEWHERE.items():
        assert name.rpartition(".")[2] in (HERE.parent.parent / file).read_text(), f"{name} is not in {file}"
