"""pb.checks: a check that fails is a value, in compiled functions, loops, branches, batches and derivatives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import pullback as pb
from pullback import checks
from pullback import numpy as pnp


def checked(x):
    checks.check(x.sum() > 0, "must be positive, but is {sum:.1f}", sum=x.sum())

    def step(carry, value):
        checks.check(value < 5, "{} is too large", value)
        return carry + value, value

    return pb.lax.scan(step, 0.0, x)[0]


def raising_again(x):
    error, out = pb.jit(checks.checkify(checked))(x)
    checks.check_error(error)
    return out


FORMS = {
    "eager": lambda: checks.checkify(checked),
    "compiled": lambda: pb.jit(checks.checkify(checked)),
    "of a compiled one": lambda: checks.checkify(pb.jit(checked)),
    "of a gradient": lambda: checks.checkify(pb.grad(checked)),
    "of a branch": lambda: checks.checkify(lambda x: pb.lax.cond(True, checked, pnp.sum, x)),
    "twice": lambda: checks.checkify(raising_again),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("x", "text"),
    [([1.0, 2.0], None), ([-1.0, -2.0], "must be positive, but is -3.0"), ([1.0, 7.0], "7.0 is too large")],
    ids=["good", "negative", "large"],
)
def test_a_failed_check_is_a_value(form, x, text) -> None:
    error, _ = FORMS[form]()(pnp.array(x))
    assert error.get() == text
    if text is None:
        error.throw()
    else:
        with pytest.raises(checks.CheckError, match=text):
            checks.check_error(error)


def test_checks_in_a_batch() -> None:
    error, out = checks.checkify(pb.vmap(lambda x: checked(pnp.stack([x, x]))))(pnp.array([1.0, 7.0, 8.0]))
    assert error.get() == "7.0 is too large"
    np.testing.assert_array_equal(out, [2.0, 14.0, 16.0])
    errors, _ = pb.vmap(lambda x: pb.jit(lambda y: (checks.Error(y), y))(x))(pnp.array([0, 0]))
    assert errors.get() is None


def test_checks_that_nothing_notes() -> None:
    with pytest.raises(checks.CheckError, match=r"must be positive, but is -1\.0"):
        checked(pnp.array([-1.0]))
    with pytest.raises(ValueError, match="no checkify is around it"):
        pb.jit(lambda x: checks.check(x > 0, "no"))(1.0)
    assert pb.jit(lambda x: (checks.check(x > 0, "no", debug=True), x)[1])(1.0) == 1.0
    checks.check(pnp.array(False), "left out", debug=True)
    with pytest.raises(pb.errors.DtypeError, match="a bool of no axes"):
        checks.check(pnp.ones(2) > 0, "no")
    with pytest.raises(TypeError, match="puts arrays into its message"):
        checks.check(False, "no {}", "text")
    with pytest.raises(TypeError, match="takes the Error"):
        checks.check_error(None)


def test_an_exception_leaves_no_checkify_behind() -> None:
    def fails(x):
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        checks.checkify(fails)(1.0)
    with pytest.raises(checks.CheckError, match="no"):
        checks.check(False, "no")


def looped(x):
    return pb.lax.fori_loop(0, 3, lambda i, s: s + pnp.log(x[i]), 0.0)


def branching(x):
    return pb.lax.cond(x[0] > 0, lambda x: pnp.sum(1.0 / x), pnp.sum, x)


@pb.custom_jvp
def own_rule(x):
    return pnp.sqrt(x)


own_rule.defjvp(lambda primals, tangents: (own_rule(*primals), 0.5 / own_rule(*primals) * tangents[0]))


# the function, an argument for which all is well, one for which it is not, and what is said then
AUTOMATIC = {
    "nan": (lambda x: pnp.exp(pnp.sqrt(x)), 4.0, -1.0, "NaN made by sqrt"),
    "nan in a loop": (looped, [1.0, 2.0, 3.0], [1.0, -2.0, 3.0], "NaN made by log"),
    "nan in a scan": (lambda x: pb.lax.scan(lambda c, y: (c, pnp.sqrt(y)), 0.0, x)[1], [1.0], [-1.0], "NaN made by sqrt"),
    "nan in a derivative": (pb.grad(lambda x: pnp.sqrt(x) * 0.0), 1.0, 0.0, "NaN made by mul"),
    "nan in a batch": (pb.vmap(pnp.sqrt), [1.0, 2.0], [1.0, -2.0], "NaN made by sqrt"),
    "nan by a rule": (own_rule, 1.0, -1.0, "NaN made by sqrt"),
    "nan in a checkpoint": (pb.grad(pb.checkpoint(lambda x: pnp.sin(pnp.log(x)))), 1.0, -1.0, "NaN made by log"),
    "division": (lambda x: 1.0 / x, 1.0, 0.0, "division by zero in div"),
    "division of integers": (lambda x: 7 // x.astype(int), 2.0, 0.0, "division by zero in floor_divide"),
    "division in a branch": (branching, [1.0, 2.0], [1.0, 0.0], "division by zero in div"),
    "division in a test": (
        lambda x: pb.lax.while_loop(lambda x: 1.0 / x < 0.4, lambda x: x - 1.0, x), 2.0, 0.0, "division by zero in div"
    ),
    "index": (lambda x: pnp.arange(3)[x.astype(int)], 2.0, 3.0, "out-of-bounds indexing: index 3 along axis 0 with size 3"),
    "index of an array": (
        lambda x: pnp.arange(6).reshape(2, 3)[:, x.astype(int)], [0.0, -3.0], [0.0, 7.0], "index 7 along axis 1 with size 3"
    ),
    "index of an update": (lambda x: pnp.zeros(3).at[x.astype(int)].add(1.0), 2.0, -5.0, "index -2 along axis 0 with size 3"),
}  # fmt: skip


@pytest.mark.parametrize("form", ["eager", "compiled", "of a compiled one"])
@pytest.mark.parametrize("name", AUTOMATIC)
def test_operations_are_checked(name, form) -> None:
    f, good, bad, text = AUTOMATIC[name]
    kind = name.split()[0]
    wrap = {
        "eager": lambda f, kinds: checks.checkify(f, kinds),
        "compiled": lambda f, kinds: pb.jit(checks.checkify(f, kinds)),
        "of a compiled one": lambda f, kinds: checks.checkify(pb.jit(f), kinds),
    }[form]
    good, bad = pnp.asarray(good), pnp.asarray(bad)
    if form == "eager" and kind == "index":
        with pytest.raises(IndexError):  # as everywhere where they are known
            wrap(f, [kind])(bad)
        return
    error, out = wrap(f, [kind])(good)
    assert error.get() is None
    np.testing.assert_allclose(out, f(good), rtol=1e-6)
    error, out = wrap(f, ["user", kind])(bad)
    assert text in error.get()
    assert "test_checks.py" in error.get()
    np.testing.assert_allclose(out, pb.jit(f)(bad), rtol=1e-6)
    assert wrap(f, ["user", "index" if kind == "nan" else "nan"])(pnp.ones_like(bad))[0].get() is None
    assert wrap(f, ["user"])(bad)[0].get() is None


def test_effects_in_the_test_of_a_loop_keep_their_order() -> None:
    seen = []

    @pb.jit
    def f(x):
        def test(x):
            pb.debug.callback(seen.append, "test")
            return x < 2.0

        pb.debug.callback(seen.append, "start")
        x = pb.lax.while_loop(test, lambda x: x + 1.0, x)
        pb.debug.callback(seen.append, "end")
        return x

    f(0.0)
    assert seen == ["start", "test", "test", "test", "end"]


def test_what_moves_nan_did_not_make_it() -> None:
    x = pnp.array([1.0, np.nan])
    assert checks.checkify(lambda x: pnp.where(x > 0, x[::-1], x.reshape(2)), ["nan"])(x)[0].get() is None


def test_a_function_compiled_in_another_checkify_is_checked() -> None:
    @pb.jit
    def f(x):
        checks.check(x > 0, "own")
        checks.check(x > 0, "only where a checkify is around", debug=True)
        return pnp.sqrt(x)

    assert checks.checkify(f, ["division"])(-1.0)[0].get() is None
    assert checks.checkify(f, ["nan"])(-1.0)[0].get().startswith("NaN made by sqrt")
    assert checks.checkify(f)(-1.0)[0].get() == "own"
    with pytest.raises(ValueError, match="no checkify is around it"):
        f(-1.0)
    with pytest.raises(ValueError, match="not 'nans'"):
        checks.checkify(f, ["nans"])


def test_the_first_failure_is_noted_and_the_kinds_can_be_told_apart() -> None:
    error, _ = checks.checkify(lambda x: pnp.log(x) / 0.0, ["nan", "division"])(-1.0)
    assert isinstance(error.get_exception(), checks.NaNError)
    error, _ = checks.checkify(lambda x: pnp.log(1.0 / x - np.inf), ["nan", "division"])(pnp.array(0.0))
    assert isinstance(error.get_exception(), checks.DivisionError)


def test_a_batch_of_branches_is_checked_where_they_are_chosen() -> None:
    def f(x):
        return pb.lax.cond(x > 0, pnp.log, lambda x: x, x)

    run = checks.checkify(pb.vmap(lambda x: checks.checkify(f, ["nan"])(x)[1]))
    assert run(pnp.array([1.0, -1.0]))[0].get() is None
    error, _ = pb.vmap(checks.checkify(f, ["nan"]))(pnp.array([1.0, -1.0]))
    assert error.get() is None
    error, _ = pb.vmap(checks.checkify(lambda x: pnp.log(x), ["nan"]))(pnp.array([1.0, -1.0]))
    assert error.get().startswith("NaN made by log")


def test_refs_in_a_function_that_is_checked() -> None:
    ref = pb.new_ref(pnp.array(0.0))

    def f(x):
        ref[...] = pnp.sqrt(x)
        return x

    error, _ = checks.checkify(f, ["nan"])(4.0)
    assert error.get() is None and ref[...] == 2.0
    error, _ = pb.jit(checks.checkify(f, ["nan"]))(-4.0)
    assert error.get().startswith("NaN made by sqrt") and np.isnan(ref[...])


def test_a_function_compiled_without_checkify_is_traced_anew_for_it() -> None:
    def root(x):
        checks.check(x >= 0, "{} has no root", x, debug=True)
        return pnp.sqrt(x)

    def step(carry, x):
        return carry, root(x)

    for compiled in (pb.jit(root), lambda x: pb.lax.scan(step, 0, x[None])[1][0]):
        x = pnp.asarray(-1.0)
        assert np.isnan(compiled(x))
        error, _ = checks.checkify(compiled)(x)
        assert error.get() == "-1.0 has no root"
        assert np.isnan(compiled(x))


def test_a_function_compiled_for_checkify_says_so_without_it() -> None:
    def root(x):
        checks.check(x >= 0, "{} has no root", x)
        return pnp.sqrt(x)

    compiled = pb.jit(root)
    assert checks.checkify(compiled)(-1.0)[0].get() == "-1.0 has no root"
    with pytest.raises(ValueError, match="no checkify is around"):
        compiled(-1.0)


def test_an_error_prints_where_only_its_type_is_known() -> None:
    error, _ = pb.eval_shape(checks.checkify(checked), pb.ArrayType((2,), "float32"))
    assert repr(error) == "Error(traced)"


def test_failures_of_several_threads_are_told_apart() -> None:
    def failing(number):
        def fail(x):
            checks.check(x < 0, "number {}", number)

        return [checks.checkify(fail)(1.0)[0] for _ in range(50)]

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(failing, range(8)))
    assert [{error.get() for error in errors} for errors in made] == [{f"number {number}"} for number in range(8)]
    assert len({int(error.code) for errors in made for error in errors}) == 400
