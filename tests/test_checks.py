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
