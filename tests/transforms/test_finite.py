"""Results that are no numbers, found where they are computed."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.tracing import innermost_staging
from pullback.transforms.finite import checker, results

ZERO = pnp.asarray(0.0)
QUOTIENT = pb.jit(lambda x: pnp.sin(x) / x)

WRONG = {
    "an operator": (lambda: ZERO / ZERO, r"encountered in div\."),
    "a number and an array": (lambda: 0.0 / ZERO, r"encountered in div\."),
    "a function": (lambda: pnp.log(-1.0), r"encountered in log\."),
    "bfloat16": (lambda: pnp.log(-pnp.ones(2, "bfloat16")), r"encountered in log\."),
    "complex": (lambda: pnp.asarray(0j) / 0.0, r"encountered in div\."),
    "jit": (lambda: QUOTIENT(0.0), r"encountered in div\."),
    "jit in jit": (lambda: pb.jit(lambda x: QUOTIENT(x) + 1.0)(0.0), r"encountered in div\."),
    "a branch": (lambda: pb.jit(lambda x: pb.lax.cond(x == 0, lambda: np.nan, lambda: 2.0))(0), r"encountered in cond\."),
    "a batch": (lambda: pb.vmap(lambda x: x / x)(pnp.zeros(2)), r"encountered in div\."),
    "a derivative": (lambda: pb.grad(lambda x: pnp.sqrt(x) * 0.0)(0.0), r"encountered in mul\."),
    "a compiled derivative": (lambda: pb.jit(pb.grad(lambda x: pnp.sqrt(x) * 0.0))(0.0), r"encountered in mul\."),
    "an input": (
        lambda: pb.jit(lambda x: x * 3.0)(np.nan),
        r"encountered in jit\(<lambda>\).* when they were run one by one: it is in an input",
    ),
    "a literal": (lambda: pb.jit(lambda x: (np.nan, x + 1.0))(1.0), r"encountered in jit\(<lambda>\).* it is a literal"),
}


def checking_results(nan: bool = True, inf: bool = False) -> AbstractContextManager[None]:
    return results.setting(checker(nan, inf))


@pytest.mark.parametrize("case", WRONG)
def test_an_operation_that_gives_no_number_is_an_error(case: str) -> None:
    act, says = WRONG[case]
    act()
    with checking_results(), pytest.raises(FloatingPointError, match=rf"^invalid value \(nan\) {says}"):
        act()
    act()


RIGHT = {
    "a quotient": lambda: QUOTIENT(1.0),
    "infinity": lambda: 1.0 / ZERO,
    "a hole in a function that is filled": lambda: pnp.sinc(0.0),
    "integers": lambda: pnp.arange(3) // 2,
    "moving": lambda: pnp.arange(6.0).reshape(2, 3).at[0, 1].set(2.0)[:, ::-1],
    "a decomposition": lambda: pnp.linalg.eigh(pnp.array([[1.0, 2.0], [2.0, 3.0]])),
    "a loop": lambda: pb.lax.scan(lambda c, x: (c + x, c), 0.0, pnp.arange(3.0)),
    "a derivative": lambda: pb.grad(lambda x: x**2)(3.0),
    "a batch": lambda: pb.vmap(pb.jit(pnp.sin))(pnp.arange(3.0)),
    "random numbers": lambda: pb.random.normal(pb.random.key(0), (3,)),
    "a ref": lambda: pb.jit(lambda ref: ref[...])(pb.new_ref(1.0)),
    "a traced function": lambda: pb.xpr(lambda x: x / 0.0, 0.0).output_types,
}


@pytest.mark.parametrize("case", RIGHT)
def test_all_else_is_as_it_was(case: str) -> None:
    wanted = pb.tree.leaves(RIGHT[case]())
    with checking_results():
        found = pb.tree.leaves(RIGHT[case]())
    for one, other in zip(found, wanted, strict=True):
        if isinstance(one, pb.Array):
            assert one.type is other.type
            np.testing.assert_allclose(one.view(), other.view(), rtol=1e-6)
        else:
            assert one is other


def test_infinity_is_looked_for_where_that_is_asked() -> None:
    with checking_results(nan=False, inf=True):
        with pytest.raises(FloatingPointError, match=r"\(inf\) encountered in div"):
            1.0 / ZERO
        assert np.isnan(ZERO / ZERO)
        with checking_results(nan=False):
            assert np.isinf(1.0 / ZERO)
        with checking_results(nan=True, inf=True), pytest.raises(FloatingPointError, match=r"\(nan\)"):
            ZERO / ZERO


def test_it_ends_with_its_block_and_is_of_its_thread() -> None:
    found: list[Any] = []
    with pytest.raises(FloatingPointError), checking_results():
        thread = threading.Thread(target=lambda: found.append(ZERO / ZERO))
        thread.start()
        thread.join()
        ZERO / ZERO
    assert np.isnan(found[0]) and innermost_staging() is None

    def f(x: Any) -> Any:
        with checking_results():  # of what is traced nothing is known
            return x / x

    assert np.isnan(pb.jit(f)(0.0)) and np.isnan(QUOTIENT(0.0))
