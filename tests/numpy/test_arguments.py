"""No argument of a public function of pullback.numpy or pullback.nn is ignored: each is read, and refused if senseless."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from surface_tables import is_listed

import pullback as pb
import pullback.numpy as pnp

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: function
    for room, module in (("numpy", pnp), ("nn", pb.nn))
    for name, function in [(name, getattr(module, name)) for name in module.__all__]
    if inspect.isfunction(function)
    and function.__module__.startswith(("pullback.numpy", "pullback.nn"))
    and not is_listed(f"{room}.{name}")
}
# It says what it is given, so nothing is senseless.
WITHOUT_EFFECT = {("isscalar", "element")}


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_parameter_is_read(name: str) -> None:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(FUNCTIONS[name]))).body
    assert isinstance(tree, ast.FunctionDef)
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    arguments = tree.args
    own = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    assert not {one.arg for one in own if one is not None} - read


class Senseless:
    """Neither number nor array, index, name, dtype, device nor condition."""

    def __bool__(self) -> bool:
        raise TypeError("this is neither true nor false")


MATRIX = np.asarray([[0.5, -1.0, 2.0], [3.0, 0.25, 1.0], [1.0, 0.0, 4.0]], np.float32)
VECTOR = MATRIX[0]
REQUIRED: dict[str, Any] = {
    **dict.fromkeys(("x", "y", "a", "b", "m", "z", "arr", "ary", "A", "array", "a1", "a2", "x1", "x2", "object"), MATRIX),
    **dict.fromkeys(("element", "test_elements", "values", "from_"), MATRIX),
    **{name: [MATRIX, MATRIX] for name in ("tup", "arrays")},
    "v": VECTOR,
    "axis": 0,
    "axis1": 0,
    "axis2": 1,
    "shape": (3, 3),
    "indices_or_sections": 3,
    "indices": np.array([[0, 2, 1]]),
    "start": 0,
    "stop": 1,
    "fill_value": 1.0,
    "N": 3,
    "n": 3,
    "source": 0,
    "destination": 1,
    "pad_width": 1,
    "repeats": 2,
    "shift": 1,
    "reps": 2,
    "dtype": np.float32,
    "kind": "integral",
    "condlist": [MATRIX > 0],
    "choicelist": [MATRIX],
    "dimensions": (2, 3),
    "to": np.float32,
    "arg1": np.float32,
    "arg2": np.floating,
    "subscripts": "ij->i",
    "decimals": 1,
    "condition": np.asarray([True, False, True]),
    "operands": MATRIX,
    "args": MATRIX,
}
OVERRIDES: dict[str, dict[str, Any]] = {
    "one_hot": {"x": np.array([0, 2]), "num_classes": 3},
    "broadcast_shapes": {"args": (3, 3), "shapes": (3, 3)},
    "reshape": {"shape": (9,)},
    "where": {"x": MATRIX, "y": MATRIX},
    "dsplit": {"ary": MATRIX[None]},
    "promote_types": {"a": np.float32, "b": np.int32},
    "iinfo": {"int_type": np.int32},
    "rollaxis": {"axis": 1},
    "cross": {"a": VECTOR, "b": VECTOR},
    "full": {"fill_value": 1.0},
}
INTEGERS = ("bitwise", "shift", "invert", "gcd", "lcm")


def _valid(name: str) -> dict[str, Any]:
    found = {}
    for parameter in _parameters(FUNCTIONS[name]):
        needed = parameter.default is inspect.Parameter.empty and parameter.kind is not inspect.Parameter.VAR_KEYWORD
        if needed or parameter.name in OVERRIDES.get(name, {}):
            value = OVERRIDES.get(name, {}).get(parameter.name, REQUIRED.get(parameter.name, MATRIX))
            if any(part in name for part in INTEGERS) and isinstance(value, np.ndarray) and name != "compress":
                value = value.astype(np.int32)
            found[parameter.name] = value
    return found


def _call(name: str, given: dict[str, Any]) -> Any:
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in _parameters(FUNCTIONS[name]):
        if parameter.name not in given:
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY or (
            parameter.default is not inspect.Parameter.empty and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY
        ):
            named[parameter.name] = given[parameter.name]
        else:
            positional.append(given[parameter.name])
    return FUNCTIONS[name](*positional, **named)


CASES = [
    (name, parameter.name)
    for name, function in FUNCTIONS.items()
    for parameter in _parameters(function)
    if parameter.kind is not inspect.Parameter.VAR_KEYWORD and (name, parameter.name) not in WITHOUT_EFFECT
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_calls_that_the_wrong_values_go_into_are_right(name: str) -> None:
    _call(name, _valid(name))


@pytest.mark.parametrize(("name", "parameter"), CASES)
def test_a_senseless_argument_is_refused(name: str, parameter: str) -> None:
    given = {**_valid(name), parameter: Senseless()}
    with pytest.raises((TypeError, ValueError, IndexError, pb.errors.PullbackError)):
        _call(name, given)


def test_arguments_that_were_once_ignored() -> None:
    x = pnp.array([1.0, 2.0, 3.0])
    for make in (
        lambda device: pnp.zeros(2, device=device),
        lambda device: pnp.ones(2, device=device),
        lambda device: pnp.empty(2, device=device),
        lambda device: pnp.full(2, 1.0, device=device),
        lambda device: pnp.zeros_like(x, device=device),
        lambda device: pnp.empty_like(x, device=device),
        lambda device: pnp.arange(2, device=device),
        lambda device: pnp.linspace(0.0, 1.0, device=device),
        lambda device: pnp.eye(2, device=device),
        lambda device: pnp.asarray(x, device=device),
        lambda device: pnp.astype(x, "int32", device=device),
        lambda device: pnp.from_dlpack(x, device=device),
    ):
        with pytest.raises(ValueError, match=r"gpu:7.*pb\.device_put"):
            make("gpu:7")
        assert make(x.device).device == x.device == make("cpu").device
    with pytest.raises(TypeError, match="out"):
        pnp.take(x, 0, out=np.zeros(()))
    with pytest.raises(ValueError, match="precision"):
        pnp.dot(x, x, precision="nonsense")
    for precision in (
        None,
        "highest",
        "float32",
        ("default", "high"),
        pb.lax.Precision.HIGHEST if hasattr(pb.lax, "Precision") else "high",
    ):
        assert pnp.dot(x, x, precision=precision) == 14.0 == pnp.einsum("i,i", x, x, precision=precision, optimize=True)
    assert pnp.repeat(x, 2, total_repeat_length=4).tolist() == [1, 1, 2, 2]
    assert pnp.repeat(x, pnp.array([1, 2, 1]), total_repeat_length=6).tolist() == [1, 2, 2, 3, 3, 3]
    for name in ("float", "int", "bool", "complex"):
        kind = {"float": float, "int": int, "bool": bool, "complex": complex}[name]
        assert x.astype(name).dtype == x.astype(kind).dtype == pnp.zeros(1, name).dtype == pnp.asarray(x, name).dtype
    for order in ("K", "A", "nonsense"):
        with pytest.raises(ValueError, match="order"):
            pnp.reshape(x, (3, 1), order)
    with pytest.raises(ValueError, match="2030"):
        x.__array_namespace__(api_version="2030.12")


# ---- what would lose a part of a value ------------------------------------------------------------------------------------

REAL, WHOLE = np.ones(3, np.float32), np.ones(3, np.int32)
LOSING: dict[str, Callable[[], Any]] = {
    "pad, complex": lambda: pnp.pad(REAL, 1, constant_values=1j),
    "pad, fraction": lambda: pnp.pad(WHOLE, 1, constant_values=1.5),
    "pad, a pair": lambda: pnp.pad(WHOLE, 1, constant_values=(0, 1.5)),
    "pad, infinite": lambda: pnp.pad(WHOLE, 1, constant_values=np.inf),
    "pad, an array": lambda: pnp.pad(WHOLE, 1, constant_values=pnp.array(1.5)),
    "pad, a ramp": lambda: pnp.pad(REAL, 1, "linear_ramp", end_values=1j),
    "take": lambda: pnp.take(WHOLE, 7, mode="fill", fill_value=1.5),
    "at": lambda: pnp.array(REAL).at[7].get(mode="fill", fill_value=1j),
    "gather": lambda: pb.lax.gather(
        WHOLE, np.array([[7]]), pb.lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill", fill_value=0.5
    ),
    "set": lambda: pnp.array(WHOLE).at[0].set(1.5),
    "initial": lambda: pnp.sum(REAL, initial=1j),
    "linspace": lambda: pnp.linspace(0, 1j, 3, dtype="float32"),
}


FILLED: dict[str, Callable[[Any, Any], Any]] = {
    "take": lambda x, fill: pnp.take(x, np.array([7, 0]), mode="fill", fill_value=fill),
    "at": lambda x, fill: pnp.asarray(x).at[np.array([7, 0])].get(mode="fill", fill_value=fill),
    "gather": lambda x, fill: pb.lax.gather(
        x, np.array([[7], [0]]), pb.lax.GatherDimensionNumbers((), (0,), (0,)), (1,), mode="fill", fill_value=fill
    ),
}


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("what", FILLED)
def test_a_fill_value_is_a_number_or_a_0d_array(what: str, wrap: Any) -> None:
    filled = FILLED[what]
    for fill in (3, 3.0, np.float32(3), np.float64(3), np.int8(3), np.array(3), pnp.array(3.0), ml_dtypes.bfloat16(3)):
        np.testing.assert_array_equal(wrap(lambda x: filled(x, fill))(REAL), [3, 1])
    np.testing.assert_array_equal(wrap(lambda x: filled(x, np.complex64(2j)))(np.ones(3, np.complex64)), [2j, 1])
    with pytest.raises(OverflowError, match="300 does not fit into uint8"):
        wrap(lambda x: filled(x, 300))(np.ones(3, np.uint8))
    with pytest.raises(pb.errors.ShapeError, match=r"one number as fill_value, but got f64\[2\]"):
        wrap(lambda x: filled(x, np.ones(2)))(REAL)
    with pytest.raises(pb.errors.ConcretizationError, match="fill_value must be known"):
        wrap(pb.grad(lambda fill: pnp.sum(filled(REAL, fill))))(3.0)


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit], ids=["eager", "jit"])
@pytest.mark.parametrize("what", LOSING)
def test_a_value_that_the_dtype_cannot_hold_is_refused(what: str, wrap: Any) -> None:
    with pytest.raises(pb.errors.DtypeError, match=r"would lose part of it|not fit into (float32|int32); take"):
        wrap(LOSING[what])()


def test_a_value_of_another_kind_that_the_dtype_holds_exactly_is_taken() -> None:
    np.testing.assert_array_equal(pnp.pad(WHOLE, 1, constant_values=2.0), [2, 1, 1, 1, 2])
    np.testing.assert_array_equal(pnp.pad(REAL, 1, constant_values=3), [3, 1, 1, 1, 3])
    assert int(pnp.take(WHOLE, 7, mode="fill", fill_value=5.0)) == 5


def test_questions_about_a_type_take_one_without_values():
    type = pb.eval_shape(lambda x: x * 1j, pnp.zeros((2, 3)))
    assert pnp.shape(type) == (2, 3) and pnp.ndim(type) == 2 and pnp.size(type) == 6 and pnp.size(type, 0) == 2
    assert pnp.iscomplexobj(type) and not pnp.isrealobj(type)
    assert pnp.result_type(pb.ArrayType((), "float32", weak=True), pnp.float16) == pnp.float16
    assert pnp.zeros_like(type).type is type


def test_axes_may_be_a_range() -> None:
    x = pnp.ones((2, 3))
    assert pnp.expand_dims(x, range(2)).shape == (1, 1, 2, 3) and pnp.sum(x, axis=range(2)) == 6
    assert pnp.moveaxis(x, range(2), range(1, -1, -1)).shape == (3, 2)
    with pytest.raises(TypeError, match="sum takes an int as axis, but 'x' cannot be one"):
        pnp.sum(x, axis="x")
