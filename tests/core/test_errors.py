"""Every error class says its cause, shows an example that fails with it, and a cure; all of them run."""

import builtins
import doctest
import inspect
import re
from pathlib import Path

import numpy as np
import pytest

import pullback as pb
from pullback.core import errors
from pullback.core.error_pages import Explained

CLASSES = [
    one
    for module in (errors, pb.checks, pb.testing)
    for one in (getattr(module, name) for name in dir(module))
    if inspect.isclass(one) and issubclass(one, Explained)
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def sections(docstring, word):
    """The examples under each `Fails:` or `Cure:` of a docstring."""
    found = []
    for part in inspect.cleandoc(docstring).split("\n\n"):
        if part.startswith(word):
            found.append(doctest.DocTestParser().get_examples(part))
    return found


def kinds(raised):
    return {raised.partition(":")[0].rpartition(".")[2]}


@pytest.mark.parametrize("error", CLASSES, ids=[one.__name__ for one in CLASSES])
def test_each_class_has_a_failing_example_and_a_cure(error):
    fails, cures = sections(error.__doc__, "Fails:"), sections(error.__doc__, "Cure:")
    assert fails and len(cures) == len(fails), "as many cures as failures"
    named = {one.__name__ for one in CLASSES if issubclass(one, error)}
    for examples in fails:
        raised = [example.exc_msg for example in examples if example.exc_msg is not None]
        assert len(raised) == 1 and kinds(raised[0]) <= named, "one error of this class"
        assert examples[-1].exc_msg is not None, "the error comes last"
    for examples in cures:
        assert examples and all(example.exc_msg is None for example in examples), "a cure does not fail"
        assert any(example.want for example in examples), "a cure shows its result"


@pytest.mark.parametrize("error", CLASSES, ids=[one.__name__ for one in CLASSES])
def test_the_examples_run_as_they_are_printed(error):
    test = doctest.DocTestFinder(recurse=False).find(error, error.__name__, module=False, globs={})
    assert len(test) == 1 and test[0].examples
    report = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(test[0], out=report.append)
    assert result.failed == 0, "".join(report)
    assert result.attempted == len(test[0].examples)


@pytest.mark.parametrize("error", CLASSES, ids=[one.__name__ for one in CLASSES])
def test_the_examples_can_fail(error):
    """With another message in place of each expected one, doctest objects: the messages are really compared."""
    test = doctest.DocTestFinder(recurse=False).find(error, error.__name__, module=False, globs={})[0]
    for example in test.examples:
        if example.exc_msg is not None:
            example.exc_msg = example.exc_msg.replace(": ", ": something else entirely ", 1).replace("...", "") or "x"
    result = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(test, out=lambda text: None)
    assert result.failed >= len([example for example in test.examples if example.exc_msg is not None])


def test_every_class_is_also_a_builtin_error_that_users_would_catch():
    for error in CLASSES:
        if error is not errors.PullbackError:
            builtin = [base for base in error.__mro__ if base.__module__ == "builtins" and base is not Exception]
            assert len(builtin) > 2, error  # besides BaseException and object


def test_the_page_on_errors_has_every_class():
    text = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
    for error in CLASSES:
        assert f"](errors/{error.__name__}.md)" in text, error.__name__


# ---- what messages must contain --------------------------------------------------------------------------------------


def branch(x):
    return 1 if x else 2


def escaping():
    kept = []

    def keeper(x):
        kept.append(x * 3.0)
        return x

    pb.jit(keeper)(1.0)
    return kept[0] + 1.0


X = pb.numpy.ones(3)
HALF_A_RULE = pb.Primitive(
    "half", evaluate=lambda x: x, result_type=lambda x: x, jvp=lambda xs, ts: (HALF_A_RULE(*xs), HALF_A_RULE(*ts))
)

CAUSES = [
    ("if on a tracer", lambda: pb.jit(branch)(1.0), errors.TracerBoolConversionError, ["branch", "return 1 if x else 2"]),
    ("int", lambda: pb.jit(lambda x: int(x))(1), errors.TracerIntegerConversionError, ["int()"]),
    ("list index", lambda: pb.jit(lambda i: [1, 2][i])(1), errors.TracerIntegerConversionError, ["static_arg"]),
    ("float", lambda: pb.jit(lambda x: float(x))(1.0), errors.TracerArrayConversionError, ["float()"]),
    ("item", lambda: pb.jit(lambda x: x.item())(1.0), errors.TracerArrayConversionError, ["item"]),
    ("NumPy", lambda: pb.jit(lambda x: np.asarray(x))(1.0), errors.TracerArrayConversionError, ["pb.numpy"]),
    ("escape", escaping, errors.EscapedTracerError, ["jit of escaping.<locals>.keeper", "kept.append(x * 3.0)", "returned"]),
    (
        "shapes",
        lambda: pb.numpy.ones((2, 3)) * pb.numpy.ones((2, 4)),
        errors.ShapeError,
        ["mul", "(2, 3)", "(2, 4)", "pb.numpy.ones((2, 3)) * pb.numpy.ones((2, 4))"],
    ),
    ("float8", lambda: pb.numpy.ones(3, "float8_e5m2") + pb.numpy.ones(3, "float8_e4m3fn"), errors.DtypeError, ["float8_e5m2"]),
    (
        "axis out of range",
        lambda: pb.vmap(lambda w: w["a"], in_axes=1)({"a": pb.numpy.ones(3)}),
        errors.AxisError,
        ["w['a']", "axis 1", "f32[3]"],
    ),
    (
        "batch sizes by path",
        lambda: pb.vmap(lambda w: w["a"] * w["b"])({"a": pb.numpy.ones(3), "b": pb.numpy.ones(4)}),
        errors.AxisError,
        ["w['a'] has size 3", "w['b'] has size 4"],
    ),
    ("named axis", lambda: pb.lax.psum(1.0, "i"), errors.AxisNameError, ["'i'", "axis_name"]),
    ("in_axes length", lambda: pb.vmap(lambda x, y: x, in_axes=(0,))(1.0, 2.0), errors.StructureError, ["in_axes=(0,)"]),
    ("grad by integer", lambda: pb.grad(lambda x, n: x * n, argnums=1)(1.0, 2), errors.GradientError, ["argument n", "i32[]"]),
    ("grad of a tuple", lambda: pb.grad(lambda x: (x, x))(1.0), errors.GradientError, ["2 arrays", "has_aux"]),
    ("grad of complex", lambda: pb.grad(lambda z: z)(1j), errors.GradientError, ["holomorphic=True", "c64[]"]),
    ("no leaf", lambda: pb.grad(lambda w: w["a"])({"a": object()}), errors.LeafError, ["w['a']", "object"]),
    ("aux without a pair", lambda: pb.grad(lambda x: x, has_aux=True)(1.0), errors.StructureError, ["pair", "returned ~f32[]"]),
    (
        "scan without a pair",
        lambda: pb.lax.scan(lambda c, x: c, 0.0, X),
        errors.StructureError,
        ["(carry, y)", "returned ~f32[]"],
    ),
    ("format", lambda: pb.jit(lambda x: f"{x:.2f}" and x)(1.0), errors.TracerArrayConversionError, ["'.2f'", "debug.print"]),
    ("place without a value", lambda: pb.debug.print("{y}", x=X), ValueError, ["{y}", "x by name"]),
    ("place by position", lambda: pb.jit(lambda x: pb.debug.print("{} {}", x))(X), ValueError, ["{1}", "1 by position"]),
    ("value without a place", lambda: pb.debug.print("{}", X, X, z=X), ValueError, ["number 1", "z"]),
    ("fraction as a shape", lambda: pb.numpy.zeros(2.5), errors.ShapeError, ["zeros", "2.5"]),
    ("number as a type's shape", lambda: pb.ArrayType(3, "float32"), TypeError, ["tuple of ints", "got 3"]),
    ("dtype before shape", lambda: pb.ArrayType("float32", (3,)), TypeError, ["'float32' first"]),
    ("function as a primitive", lambda: pb.testing.check_primitive(pb.numpy.sin), TypeError, ["check_gradients"]),
    ("kind of dtype", lambda: X & 1, errors.DtypeError, ["f32[3]", "X & 1"]),
    ("two dtypes", lambda: pb.lax.add(X, pb.numpy.arange(3)), errors.DtypeError, ["f32[3], i32[3]", "pb.lax.add(X"]),
    ("fraction as an index", lambda: pb.lax.dynamic_slice(X, (0.5,), (1,)), errors.DtypeError, ["dynamic_slice", "~f32[]"]),
    (
        "StableHLO that XLA does not take",
        lambda: pb.jit(pb.Primitive("wrong", result_type=lambda x: x, lower="stablehlo.sinus"))(X),
        errors.ProgramError,
        ["lowering rule of primitive 'wrong'", "'stablehlo.sinus' is unknown", "test_errors.py:"],
    ),
    (
        "no transpose",
        lambda: pb.grad(lambda x: HALF_A_RULE(x))(1.0),
        errors.MissingRule,
        ["transpose", "HALF_A_RULE(*ts)", "def_transpose"],
    ),
    (
        "no transpose, compiled",
        lambda: pb.jit(pb.grad(lambda x: HALF_A_RULE(x)))(1.0),
        errors.MissingRule,
        ["transpose", "HALF_A_RULE(x)", "def_transpose"],
    ),
    ("fraction as argnums", lambda: pb.grad(lambda x: x, argnums=1.5)(X), TypeError, ["grad's argnums", "1.5"]),
    ("update without a method", lambda: pb.jit(lambda x: x.at[0])(X), errors.LeafError, [".at[0] without a method", ".set"]),
    ("hvp without tuples", lambda: pb.hvp(lambda x: pb.numpy.sum(x), X, X), TypeError, ["hvp takes its primals"]),
    ("static array", lambda: pb.jit(abs, static_argnums=0)(X), errors.StaticArgumentError, ["of type Array"]),
    (
        "one array, not two",
        lambda: pb.vjp(lambda x: (x, x), 1.0)[1](1.0),
        errors.StructureError,
        ["cotangent is a leaf where the output has a tuple"],
    ),
    (
        "carry",
        lambda: pb.lax.scan(lambda c, x: ((c, c), x), 1.0, X),
        errors.StructureError,
        ["carry is a tuple where it takes a leaf"],
    ),
    (
        "branch",
        lambda: pb.lax.cond(True, lambda x: x, lambda x: (x, x), 1.0),
        errors.StructureError,
        ["output is a leaf where", "returns a tuple."],
    ),
    ("compiled for others", lambda: pb.jit(abs).lower(X).compile()(X[:2]), errors.ShapeError, ["f32[2]", "Call the jitted"]),
    ("no such static argument", lambda: pb.jit(lambda x: x, static_argnames="y"), errors.StaticArgumentError, ["'y'"]),
]


@pytest.mark.parametrize("make, error, fragments", [case[1:] for case in CAUSES], ids=[case[0] for case in CAUSES])
def test_messages_name_what_is_wrong_and_where(make, error, fragments):
    with pytest.raises(error) as caught:
        make()
    said = str(caught.value)
    for fragment in fragments:
        assert fragment in said, said


PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| .*? \| (.*) \|$", PAGE.partition("## Built-in errors")[2], re.M)
BUILT_IN = [(name, code) for name, last in ROWS for code in re.findall(r"`(.*?)`", last)]


@pytest.mark.parametrize("name, code", BUILT_IN, ids=[code for _, code in BUILT_IN])
def test_built_in_errors_are_those_of_the_page(name, code):
    with pytest.raises(getattr(builtins, name)) as raised:
        exec(code, {"pb": pb, "pnp": pb.numpy, "x": pb.numpy.ones(3), "y": 1.0})
    assert not isinstance(raised.value, errors.PullbackError)


def test_an_index_out_of_bounds_does_what_the_page_says():
    x, seven = pb.numpy.array([10.0, 20.0, 30.0]), pb.numpy.array(7)
    take_along = lambda i: pb.numpy.take_along_axis(x, pb.numpy.reshape(i, (1,)), 0)[0]  # noqa: E731
    for touch, known, traced in (
        (lambda i: x[i], IndexError, 30.0),
        (lambda i: x.at[i].get(), IndexError, 30.0),
        (lambda i: x.at[i].set(5.0), IndexError, [10.0, 20.0, 30.0]),
        (lambda i: x.at[i].add(5.0), IndexError, [10.0, 20.0, 30.0]),
        (lambda i: x.at[i].get(mode="fill"), np.nan, np.nan),
        (lambda i: x.at[i].get(mode="clip"), 30.0, 30.0),
        (lambda i: x.at[i].set(5.0, mode="drop"), [10.0, 20.0, 30.0], [10.0, 20.0, 30.0]),
        (lambda i: x.at[i].set(5.0, mode="clip"), [10.0, 20.0, 5.0], [10.0, 20.0, 5.0]),
        (lambda i: pb.numpy.take(x, i), np.nan, np.nan),
        (lambda i: pb.numpy.take(x, i, mode="wrap"), 20.0, 20.0),
        (take_along, np.nan, np.nan),
        (lambda i: pb.lax.dynamic_slice(x, (i,), (2,)), [20.0, 30.0], [20.0, 30.0]),
    ):
        if known is IndexError:
            with pytest.raises(IndexError, match="out of bounds for axis 0 of size 3"):
                touch(seven)
        else:
            np.testing.assert_array_equal(touch(seven), known)
        np.testing.assert_array_equal(pb.jit(touch)(seven), traced)
        np.testing.assert_array_equal(pb.vmap(touch)(seven[None])[0], traced)
        np.testing.assert_array_equal(pb.lax.fori_loop(7, 8, lambda i, out, f=touch: f(i), touch(pb.numpy.array(0))), traced)
