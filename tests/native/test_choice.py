"""Who runs what: native code, XLA, or both; and what a user's primitive needs for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import errors
from pullback.native import handler
from pullback.native.checked import apart
from pullback.native.choice import MODES, native_mode

X = np.arange(8, dtype=np.float32)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"native": False}, "native=False"),
        ({"show_graph": True}, "shown"),
        ({"compiler_options": {"xla_cpu_enable_fast_math": False}}, "options"),
    ],
)
def test_what_leaves_a_function_to_xla(options: dict[str, Any], reason: str) -> None:
    found = pb.jit(lambda x: x + 1.0, **options).explain(X)
    assert found.tier == "xla" and reason in found.reason and str(found).startswith("xla: ")


def test_light_functions_are_native_and_large_products_are_not() -> None:
    assert pb.jit(lambda x: x + 1.0).explain(X).tier == "native"
    large = pb.ArrayType((512, 512), "float32")
    found = pb.jit(lambda x: x @ x).explain(large)
    assert found.tier == "xla" and "product" in found.reason


def test_modes() -> None:
    for mode in MODES:
        with native_mode(mode):
            f = pb.jit(lambda x: pnp.sum(x * 2.0))
            assert f(X) == 56.0
            assert f.explain(X).tier == ("xla" if mode == "off" else "native")
    with pytest.raises(ValueError, match="one of"), native_mode("sometimes"):
        pass


def test_explaining_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*ignored: Any) -> Any:
        raise AssertionError("code was made")

    matrix = np.ones((136, 136))
    native = pb.jit(lambda x: pnp.sin(x) * 1.28125)
    mixed = pb.jit(lambda x: ((x @ x).sum(), pb.lax.scan(lambda c, v: (c * 1.28125 + v, c), x[0, 0], x[0])))
    with monkeypatch.context() as patch:
        for name in ("loaded", "object_code"):
            patch.setattr(handler.compiling, name, refuse)
        assert (native.explain(X).tier, mixed.explain(matrix).tier) == ("native", "mixed")
    assert float(mixed(matrix)[0]) == 136.0**3


def test_tiers_that_differ_are_told() -> None:
    same = np.array([1.0, np.nan, np.inf], np.float32)
    assert apart(same, same.copy()) is None
    assert apart(same, np.array([1.1, np.nan, np.inf], np.float32)) is not None
    assert apart(same, np.array([1.0, 2.0, np.inf], np.float32)) is not None
    assert apart(np.array([1, 2]), np.array([1, 3])) == "1 of 2 elements differ, the first at (1,): 2, and 3 by XLA"
    assert apart(np.zeros((0, 2)), np.zeros((0, 2))) is None


def test_numbers_at_the_ends_of_their_range_are_compared() -> None:
    """Without a warning: one that is raised would stand for the difference."""
    assert apart(np.array([1.7e308]), np.array([-1.7e308])) is not None
    assert apart(np.array([1.7e308 + 1.7e308j, 1]), np.array([1.7e308 + 1.7e308j, 1])) is None
    assert apart(np.array([1.7e308 + 1.7e308j]), np.array([1.7e308 - 1.7e308j])) is not None
    assert apart(np.array([1e-300]), np.array([2e-300])) is not None


def test_either_tier_may_take_denormal_numbers_for_zeros() -> None:
    denormal = np.array([1e-310, -1e-310, 5e-324, 0.0])
    with native_mode("check"):
        for function in (lambda x: x / 1.0, lambda x: pnp.clip(x, 0.0, 1.0), pnp.floor, lambda x: pnp.nextafter(x, 1.0)):
            pb.jit(function)(denormal)
    assert apart(np.array([1e-310]), np.array([0.0])) is None
    assert apart(np.array([6e-5], np.float16), np.zeros(1, np.float16)) is not None  # computed in float32, so they are there


@pytest.mark.parametrize("mode", ["off", "always"])
@pytest.mark.parametrize("shape", [(2**31, 2**31, 4), (2**31, 2**29, 2), (2**62, 4)], ids=str)
def test_arrays_beyond_all_addresses_are_an_error(mode: str, shape: tuple[int, ...]) -> None:
    with native_mode(mode), pytest.raises(MemoryError, match="bytes"):
        pb.jit(lambda x: pnp.broadcast_to(x, shape) + 1.0)(1.0)


def primitive_with(**rules: Any) -> pb.Primitive:
    return pb.Primitive("own", result_type=lambda x: x, evaluate=lambda x: x + x, **rules)


def test_a_rule_of_a_users_serves_both_tiers() -> None:
    own = primitive_with(lower=lambda write, x: write.elementwise("stablehlo.add", x, x))
    for f in (pb.jit(own), pb.jit(pb.vmap(lambda x: own(x) + 1.0)) if own.vectorize else pb.jit(own)):
        assert f.explain(X).tier == "native"
    assert (np.asarray(pb.jit(own)(X)) == 2 * X).all()


def test_a_rule_for_the_cpu_is_used_and_one_for_native_code_comes_first() -> None:
    own = primitive_with()
    own.def_lower(platform="cpu")(lambda write, x: write.elementwise("stablehlo.multiply", x, x))
    assert (np.asarray(pb.jit(own)(X)) == X * X).all()
    other = primitive_with()
    other.def_lower(lambda write, x: write.elementwise("stablehlo.multiply", x, x))
    other.def_lower(platform="native")(lambda write, x: write.elementwise("stablehlo.subtract", x, x))
    assert (np.asarray(pb.jit(other)(X)) == 0).all()
    with native_mode("off"):
        assert (np.asarray(pb.jit(lambda x: other(x))(X)) == X * X).all()


WRONG = {
    "unlike operands": lambda write, x: write.elementwise("stablehlo.add", x, write.constant(np.float64(1.0))),
    "too few operands": lambda write, x: write.elementwise("stablehlo.multiply", x),
    "too many operands": lambda write, x: write.elementwise("stablehlo.add", x, x, x),
    "two results": lambda write, x: write.many("stablehlo.add", [x, x], [x.type, x.type])[0],
    "bits of floats": lambda write, x: write.elementwise("stablehlo.and", x, x),
    "no comparison": lambda write, x: write.elementwise("stablehlo.compare", x, x),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_a_rule_writes_wrong_is_said_by_xla(name: str) -> None:
    with pytest.raises(errors.ProgramError, match="XLA does not take"):
        pb.jit(primitive_with(lower=WRONG[name]))(X)


def test_operations_of_stablehlo_on_kinds_that_the_tier_has_not_are_xlas() -> None:
    own = primitive_with(lower=lambda write, x: write.elementwise("stablehlo.power", x, x))
    run = pb.jit(own)
    assert run(np.arange(1, 5)).tolist() == [1, 4, 27, 256]
    assert run.explain(np.arange(1, 5)).reason.startswith("own writes power of tensor<4xi64>")
