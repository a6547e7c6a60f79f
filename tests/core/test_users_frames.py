"""The methods of objects that users hold end their tracebacks at the user's line, as public functions do (`test_source.py`)."""

from __future__ import annotations

import dataclasses
import functools
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.source import PACKAGE, SHOWN, api_boundary, is_boundary, tracebacks
from pullback.numpy.updates import METHODS, Place

X, Y = pnp.ones(3), pnp.ones(4)
REF = pb.new_ref(X)
ADAM = pb.optimizers.adam(1e-3)


def escaped() -> Any:
    kept: list[Any] = []
    pb.jit(lambda x: kept.append(x))(X)
    return kept[0]


MISTAKES: dict[str, Callable[[], Any]] = {
    "a fast function of an escaped value": lambda: pnp.sin(escaped()),
    "an operator of an escaped value": lambda: -escaped(),
    "a function that leaves NaN out": lambda: pnp.nanmax(X, axis=4),
    "a ufunc's method": lambda: pnp.add.at(X, 0, 1.0),
    "a ufunc of the user's": lambda: pnp.frompyfunc(lambda a, b: a, 2, 1).reduce(3),
    "mgrid": lambda: pnp.mgrid[3],
    "r_": lambda: pnp.r_["x,y", X],
    "a view": lambda: pnp.ones(3, "int8").view("int16"),
    "a write to a Ref": lambda: REF.__setitem__(0, Y),
    "a read of a Ref": lambda: REF[7],
    "x.at without an index": lambda: X.at.set(1.0),
    "x.at called": lambda: X.at(0),
    "x.at assigned to": lambda: X.at.__setitem__(0, 1.0),
    "a method that x.at[index] has not": lambda: X.at[0].assign(1.0),
    "checking": lambda: pb.checking(nan="raise"),
    "default_bits": lambda: pb.default_bits(16),
    "native_mode": lambda: pb.native_mode("sometimes"),
    "lower": lambda: pb.jit(lambda x: x + Y).lower(X),
    "explain": lambda: pb.jit(lambda x: x + Y).explain(X),
    "what was compiled": lambda: pb.jit(lambda x: x).lower(X).compile()(Y),
    "what was exported": lambda: pb.export.export(pb.jit(lambda x: x))(X).call(Y),
    "defvjp": lambda: pb.custom_vjp(lambda x: x).defvjp(3, 4),
    "defjvp": lambda: pb.custom_jvp(lambda x: x).defjvp(3),
    "defjvps": lambda: pb.custom_jvp(lambda x: x).defjvps(3),
    "def_vmap": lambda: pb.custom_vmap(lambda x: x).def_vmap(3),
    "closure_convert": lambda: pb.closure_convert(lambda x: x, X)[0](object()),
    "ravel_pytree's function": lambda: pb.flatten_util.ravel_pytree(X)[1](Y),
    "an optimizer's update": lambda: ADAM[1](0, {"w": X}, {"w": X}),
    "an optimizer's params": lambda: ADAM[2](X),
    "a mesh": lambda: pb.sharding.Mesh(np.array([1]), ("a", "b")),
    "a spec": lambda: pb.P(3),
    "a sharding": lambda: pb.NamedSharding(3, pb.P()),
    "finfo": lambda: pnp.finfo("int32"),
    "a rotation": lambda: pb.scipy.spatial.transform.Rotation.from_quat(X),
    "a density": lambda: pb.scipy.stats.gaussian_kde(X, bw_method="wide"),
    "a distribution": lambda: pb.scipy.stats.norm.cdf(object()),
    "an initializer": lambda: pb.nn.initializers.glorot_uniform()(pb.random.key(0), (3,)),
    "a failed check": lambda: pb.checks.checkify(lambda x: pb.checks.check(x > 2, "small"))(1.0)[0].throw(),
    "an operator of None": lambda: X + None,
    "an order of None": lambda: X < None,
    "eval_shape": lambda: pb.jit(lambda x: x + Y).eval_shape(X),
    "a view of costs": lambda: pb.cost(pnp.sin, X, backend=False).by("word"),
    "a view of a profile": lambda: pb.profile(pnp.sin, X, runs=1).by("word"),
    "a module that was not exported": lambda: pb.export.export(pb.jit(pnp.sin))(X).mlir_module("tpu"),
    "the bytes of one": lambda: pb.export.export(pb.jit(pnp.sin))(X).mlir_module_serialized("tpu"),
    "serialize": lambda: pb.export.export(pb.jit(pnp.sin))(X).serialize(-1),
    "a trace annotation": lambda: pb.profiler.TraceAnnotation(3),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_traceback_has_the_users_frames_only(name: str) -> None:
    with pytest.raises(Exception) as caught:
        MISTAKES[name]()
    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames.count(__file__) >= 2 and not any(file.startswith(PACKAGE) for file in frames), frames


@dataclasses.dataclass(frozen=True)
class Refused(Exception):
    reason: str


@pytest.mark.parametrize("shown", [*SHOWN])
def test_an_error_of_a_frozen_class_comes_through(shown: str) -> None:
    def f(x: Any) -> Any:
        try:
            raise KeyError("first")
        except KeyError:
            raise Refused("no") from (None if shown == "users" else ValueError("second"))

    with tracebacks.setting(shown), pytest.raises(Refused) as caught:
        pb.jit(f)(X)
    frames = [frame.filename for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert caught.value.reason == "no"
    assert any(file.startswith(PACKAGE) for file in frames) == (shown in ("all", "marked"))


def test_the_mark_of_a_boundary_is_not_copied() -> None:
    boundary = api_boundary(lambda: None)

    @functools.wraps(boundary)
    def around() -> None:
        boundary()

    assert is_boundary(boundary) and not is_boundary(around)


def test_the_methods_of_a_place_are_those_that_messages_list() -> None:
    assert set(METHODS) == {name for name in vars(Place) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: X.at.set(1.0), AttributeError, "index it first, x.at[index].set(...)"),
        (lambda: X.at(0), TypeError, "write x.at[index].set(values)"),
        (lambda: X.at[0].assign(1.0), AttributeError, "has no method 'assign'; those are get, set, add"),
        (lambda: ADAM[1](0, {"w": X}, {"w": X}), TypeError, "update(step, gradients, state) takes a state as init and update"),
        (lambda: X @ Y, pb.errors.ShapeError, "the last axis of the first has size 3, but the only one of the second 4"),
        (lambda: pnp.ones((2, 3)) @ pnp.ones((2, 3)), pb.errors.ShapeError, "size 3, but the last but one of the second 2"),
        (lambda: pb.export.export(pb.jit(lambda x: x))(X).call(Y), pb.errors.ShapeError, "args[0] is f32[4] where"),
        (lambda: pb.jit(lambda x, n: x[:n])(X, 2), TypeError, "a traced bound, of type ~i32[] (argument n) in jit of"),
        (
            lambda: pb.jit(lambda x, n: pb.lax.dynamic_slice(x, (0,), (n,)))(X, 2),
            pb.errors.TracerIntegerConversionError,
            "dynamic_slice was given a traced size of type ~i32[] (argument n)",
        ),
        (lambda: X.astype("flaot32"), pb.errors.DtypeError, "Did you mean 'float32'?"),
        (lambda: pnp.einsum("ij->i", X), pb.errors.ShapeError, "'ij' has 2 labels, but operand 0 has 1 axis."),
        (lambda: pb.jit(pnp.float32)(1), pb.errors.TracerArrayConversionError, "x.astype(dtype) instead of dtype(x)"),
        (lambda: pnp.finfo("int32"), ValueError, "finfo takes a floating-point or complex dtype, but got int32"),
    ],
    ids=range(13),
)
def test_what_such_an_error_says(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        call()
    assert words in str(caught.value)


def test_a_class_is_registered_once() -> None:
    class Pair:
        pass

    node = Pair, lambda pair: ((), None), lambda metadata, children: Pair()
    pb.tree.register_node(*node)
    with pytest.raises(ValueError, match=r"Pair is registered as a container already\. Register each class once\."):
        pb.tree.register_node(*node)
