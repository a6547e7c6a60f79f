"""pb.assert_program: what holds passes, what does not fails and says where, and what is misspelled is an error."""

import re

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.testing import CheckFailure

own = pb.Primitive("own", result_type=lambda x: x, evaluate=lambda x: x)
stranger = pb.Primitive("stranger", result_type=lambda x: x, evaluate=lambda x: x)


def loss(w, x):
    return pnp.sum(pnp.tanh(x @ w) ** 2)


def looping(x):
    def step(carry, y):
        return pnp.sin(carry) + y, carry

    return pb.lax.scan(step, 0.0, x)


def branching(x):
    return pb.lax.cond(x > 0.0, lambda x: pnp.exp(x), lambda x: pnp.log(-x), x)


W, X, V = pb.ArrayType((4,)), pb.ArrayType((8, 4)), pb.ArrayType((5,))
LOSS = (loss, (W, X))
twice = pb.jit(lambda x: pnp.cos(x))
PASSES = [
    (*LOSS, {"contains": "tanh"}),
    (*LOSS, {"contains": ["tanh", "dot_general f32[8]"], "lacks": ["sin", "* f64", "scan"]}),
    (*LOSS, {"contains": "reduce_* f32[]"}),
    (*LOSS, {"contains": "* f32[_]", "lacks": ["* f32[_,_]", "tanh f32[]", "tanh f32[_,...,_]"]}),
    (*LOSS, {"contains": "tanh f32[...,8]"}),
    (*LOSS, {"contains": "tanh *[8]", "lacks": "tanh ~f32[8]"}),
    (*LOSS, {"exactly": {"dot_general": 1, "tanh": 1, "equations": 4}}),
    (*LOSS, {"exactly": {"dot_general": 2, "tanh": 1}, "apply": "grad"}),
    (*LOSS, {"at_most": {"flops": 1000, "bytes": 1000, "largest": 128}, "at_least": {"flops": 64, "tanh": 1}}),
    (loss, (pb.ArrayType((3, 4)), pb.ArrayType((3, 8, 4))), {"exactly": {"dot_general": 2}, "apply": ["grad", "vmap"]}),
    (looping, (V,), {"exactly": {"sin": 1, "scan": 1}}),
    (pb.jit(looping), (V,), {"exactly": {"sin": 1, "call": 1}, "lacks": "cos"}),
    (branching, (1.0,), {"contains": ["exp", "log"]}),
    (pb.vmap(branching), (V,), {"lacks": "cond", "contains": "cond_as_select"}),
    (lambda x: twice(x) + twice(x + 1.0), (V,), {"exactly": {"cos": 2}}),
    (lambda x: pnp.sin(x) + pnp.sin(x), (V,), {"exactly": {"sin": 2}}),
    (lambda x: pnp.sin(x) + pnp.sin(x), (V,), {"exactly": {"sin": 1}, "simplify": True}),
    (pb.remat(lambda x: pnp.sin(pnp.sin(x))), (1.0,), {"contains": ["sin", "cos", "checkpoint*"], "apply": "grad"}),
    (lambda x: own(x), (V,), {"contains": ["own", own], "lacks": stranger, "exactly": {own: 1}}),
    (lambda x: x, (V,), {"exactly": {"equations": 0, "flops": 0, "bytes": 0, "largest": 20}}),
    (lambda x: x * 2.0, (pb.ArrayType((0, 3), "bfloat16"),), {"contains": "mul bf16[0,3]"}),
    (lambda k: pb.random.normal(k), (pb.random.key(0),), {"lacks": "* f64"}),
    (pb.xpr(*(loss, W, X)), None, {"contains": "tanh"}),
    (pb.xpr(*(loss, W, X)), None, {"contains": "sech_squared", "apply": "grad"}),
]


@pytest.mark.parametrize("f, args, asked", PASSES)
def test_what_holds(f, args, asked):
    program = pb.assert_program(f, args, **asked)
    assert isinstance(program, pb.Program)


LINE = r"# .*test_assert_program\.py:\d+ \(loss\): return pnp\.sum\(pnp\.tanh\(x @ w\) \*\* 2\)"
FAILS = [
    (*LOSS, {"contains": "sin"}, [r"contains: it has no sin\.", "It applies dot_general, tanh, square, reduce_sum"]),
    (*LOSS, {"contains": "tanh f32[9]"}, [r"no tanh f32\[9\]", r"d:f32\[8\]:cpu\(0\) = tanh c  " + LINE]),
    (*LOSS, {"lacks": "tanh"}, ["lacks: it has 1 tanh", r"= tanh c  " + LINE]),
    (*LOSS, {"lacks": "* f32[]"}, [r"it has 1 \* f32\[\]", "= reduce_sum"]),
    (*LOSS, {"at_most": {"tanh": 0}}, ["at_most: it has 1 tanh, not at most 0", "= tanh c"]),
    (*LOSS, {"at_least": {"tanh": 2}}, ["at_least: it has 1 tanh, not at least 2", "= tanh c"]),
    (*LOSS, {"at_least": {"sin": 2}}, ["at_least: it has 0 sin, not at least 2", "It applies dot_general"]),
    (*LOSS, {"exactly": {"equations": 3}}, ["exactly: it has 4 equations, not 3", "It applies dot_general"]),
    (
        *LOSS,
        {"at_most": {"flops": 10}},
        [r"it takes [\d,.]+ floating-point operations, not at most 10", r"\d+: .*= dot_general"],
    ),
    (*LOSS, {"at_most": {"transcendentals": 7}}, ["it takes 8 values of transcendental functions, not", r"8: .*= tanh"]),
    (*LOSS, {"at_most": {"bytes": 10}}, [r"read and write [\d,.]+ bytes, not at most 10", r"\d+: .*= dot_general"]),
    (*LOSS, {"at_most": {"largest": 8}}, ["its largest array has 128 bytes, not at most 8", "It is an input"]),
    (lambda x: pnp.sum(x * pnp.ones((3, 1))), (V,), {"at_most": {"largest": 8}}, ["60 bytes", r":f32\[3,5\]"]),
    (*LOSS, {"lacks": ["tanh", "square"]}, ["it has 1 tanh", "it has 1 square"]),
    (*LOSS, {"lacks": "sech_squared", "apply": "grad"}, [r"The Program of loss .* under grad is not as it should be"]),
    (pb.grad(loss), (W, X), {"lacks": "sech_squared"}, [r"The Program of grad_loss, made of loss \(.*\) is not as it"]),
    (pb.jit(looping), (V,), {"lacks": "sin"}, [r"= sin \w+  \(in call, scan\)  # .*\(looping\.<locals>\.step\)"]),
    (lambda x: sum([x + i for i in range(20)]), (V,), {"lacks": "add"}, [r"lacks: it has \d\d add", r"    \.\.\."]),
    (pb.xpr(*(loss, W, X)), None, {"contains": "sin"}, ["The Program loss is not"]),
]


@pytest.mark.parametrize("f, args, asked, says", FAILS)
def test_what_does_not_hold_is_shown(f, args, asked, says):
    with pytest.raises(CheckFailure) as caught:
        pb.assert_program(f, args, **asked)
    for part in says:
        assert re.search(part, str(caught.value)), str(caught.value)


def unending(x):
    return pb.lax.while_loop(lambda x: x[0, 0] < 9.0, lambda x: x * 2.0, x)


def nested_unending(x):
    return pb.lax.scan(lambda x, _: (unending(x), None), x, length=3)[0]


def test_what_does_not_depend_on_the_steps_of_a_loop_can_be_bounded():
    bounds = {"transcendentals": 0, "equations": np.int64(20), "largest": np.float32(1000.0)}
    pb.assert_program(nested_unending, (X,), at_most=bounds, exactly={"mul": 1})
    with pytest.raises(CheckFailure, match="it has 1 mul, not at most 0"):
        pb.assert_program(unending, (X,), at_most={"mul": np.int32(0)})


WRONG = [
    (loss, (W, X), {"lacks": "tanhh"}, ValueError, "lacks: there is no primitive 'tanhh'. Did you mean 'tanh'?"),
    (loss, (W, X), {"at_most": {"dot_generl": 1}}, ValueError, "at_most: there is no primitive 'dot_generl'. Did you mean"),
    (loss, (W, X), {"at_most": {"equation": 1}}, ValueError, "no primitive 'equation'. Did you mean 'equations'?"),
    (loss, (W, X), {"lacks": "stranger"}, ValueError, "is given as the Primitive itself"),
    (loss, (W, X), {"lacks": "zz*"}, ValueError, "there is no primitive 'zz*'"),
    (loss, (W, X), {"lacks": ""}, ValueError, "there is no primitive ''"),
    (loss, (W, X), {"lacks": "tanh f31[8]"}, ValueError, "no type. Did you mean 'f32'?"),
    (loss, (W, X), {"lacks": "tanh f32[8"}, ValueError, "'f32[8', which is no type"),
    (loss, (W, X), {"lacks": "tanh f32[...,...]"}, ValueError, "no type"),
    (loss, (W, X), {"lacks": "tanh f32[-1]"}, ValueError, "no type"),
    (loss, (W, X), {"lacks": 3}, TypeError, "lacks takes a name of a primitive, a Primitive, or several, but got 3"),
    (
        loss,
        (W, X),
        {"lacks": [3]},
        TypeError,
        "lacks takes names of primitives, such as 'dot_general', or Primitives, but got 3",
    ),
    (loss, (W, X), {"at_most": 3}, TypeError, "at_most takes a dict"),
    (loss, (W, X), {"at_most": {"tanh": "3"}}, TypeError, "the bound of 'tanh' is '3'"),
    (loss, (W, X), {"at_most": {"tanh": True}}, TypeError, "the bound of 'tanh' is True"),
    (loss, (W, X), {"exactly": {"tanh": -1}}, TypeError, "not negative"),
    (loss, (W, X), {"exactly": {"tanh": float("nan")}}, TypeError, "not negative"),
    (loss, (W, X), {"contains": {"tanh": 1}}, TypeError, "contains takes names of primitives, but got the dict {'tanh': 1}"),
    (loss, (W, X), {"at_most": {"flop": 1}}, ValueError, "Did you mean 'flops'?"),
    (loss, (W, X), {"lacks": "tanh", "simplify": "no"}, TypeError, "simplify must be True or False"),
    (unending, (X,), {"at_most": {"flops": 10**9}}, ValueError, "at_most: its flops depend on how many steps a loop takes"),
    (
        unending,
        (X,),
        {"at_least": {"bytes": 1}},
        ValueError,
        "steps of a run:\n    b:f32[8,4]:cpu(0) = while_loop[",
    ),
    (nested_unending, (X,), {"exactly": {"flops": 1}}, ValueError, "(in scan)"),
    (loss, (W, X), {}, TypeError, "asked for nothing"),
    (loss, (W, X), {"at_most": {}, "lacks": []}, TypeError, "asked for nothing"),
    (loss, W, {"lacks": "tanh"}, TypeError, "takes args as a tuple, such as (x,)"),
    (loss, None, {"lacks": "tanh"}, TypeError, "takes a tuple of arguments after the function"),
    (loss, (W, X), {"lacks": "tanh", "apply": "grda"}, ValueError, "'grda' is no transformation. Did you mean 'grad'?"),
    (loss, (W, X), {"lacks": "tanh", "apply": 3}, TypeError, "apply takes transformations as text"),
    (3.0, (W, X), {"lacks": "tanh"}, TypeError, "assert_program takes a function, but got 3.0"),
]


@pytest.mark.parametrize("f, args, asked, error, says", WRONG)
def test_what_is_wrong_is_an_error(f, args, asked, error, says):
    with pytest.raises(error, match=re.escape(says)) as caught:
        pb.assert_program(f, args, **asked)
    assert not isinstance(caught.value, AssertionError)


def test_programs_that_hold_one_another_many_times_are_counted_quickly():
    f = pb.jit(lambda x: pnp.sin(x))
    for _ in range(60):
        f = pb.jit(lambda x, f=f: f(f(x)))
    pb.assert_program(f, (1.0,), exactly={"sin": 2**60}, lacks="cos")
    with pytest.raises(CheckFailure, match="it has 1,152,921,504,606,846,976 sin"):
        pb.assert_program(f, (1.0,), lacks="sin")
