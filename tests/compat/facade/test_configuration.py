"""jax.config and the context managers of its options: what they say, and what they do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.compat.jax as jax
import pullback.compat.jax.numpy as jnp
from pullback.compat.jax import configuration
from pullback.core import reports, source
from pullback.core.modes import current_mode
from pullback.core.reports import explains_misses

config = jax.config
WIDE = np.ones(2)


@pytest.fixture(autouse=True)
def _restores() -> Iterator[None]:
    before = config.values
    yield
    for name, value in before.items():
        if config.values[name] != value:
            config.update(name, value)


def _alone(program: str, **environment: str) -> str:
    """What a program prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# ---- the object -------------------------------------------------------------------------------------------------------


def test_options_are_read_and_set_by_name() -> None:
    assert (
        config.jax_enable_x64 is False is config.x64_enabled is config.read("jax_enable_x64") is config.values["jax_enable_x64"]
    )
    config.update("jax_enable_x64", True)
    assert config.jax_enable_x64 is True is config.x64_enabled
    assert config.jax_numpy_rank_promotion == "allow" and config.jax_default_matmul_precision is None
    config.update("jax_platforms", "cpu")
    assert config.jax_platforms == "cpu"
    assert "jax_debug_nans" in dir(config) and "update" in dir(config)
    assert config.parse_flags_with_absl() is None


@pytest.mark.parametrize(
    ("act", "error", "says"),
    [
        (lambda: config.jax_nonsense, AttributeError, "no attribute 'jax_nonsense'"),
        (lambda: config.update("jax_nonsense", 1), AttributeError, "no option 'jax_nonsense'"),
        (lambda: setattr(config, "jax_enable_x64", True), AttributeError, "config.update"),
        (
            lambda: config.update("jax_numpy_rank_promotion", "never"),
            ValueError,
            "jax_numpy_rank_promotion is one of .*'raise', but got 'never'",
        ),
        (lambda: jax.numpy_dtype_promotion("loose"), ValueError, "but got 'loose'"),
        (lambda: jax.default_matmul_precision("exact"), ValueError, "but got 'exact'"),
        (lambda: jax.numpy_dtype_promotion(), TypeError, "jax_numpy_dtype_promotion has no value to take by itself"),
        (lambda: bool(jax.enable_x64), TypeError, "read its value"),
        (lambda: config.update("jax_no_execution", True), NotImplementedError, "jax_no_execution=True is not provided"),
        (lambda: config.update("jax_high_dynamic_range_gumbel", True), NotImplementedError, "only False"),
        (lambda: jax.allow_f16_reductions(False), NotImplementedError, "only True"),
        (lambda: config.update("jax_num_cpu_devices", 0), ValueError, "is a positive integer, but got 0"),
        (lambda: jax.devices() and config.update("jax_num_cpu_devices", 64), RuntimeError, "64 comes too late"),
    ],
)
def test_what_there_is_not_is_refused_and_changes_nothing(act: Any, error: type, says: str) -> None:
    before, mode = config.values, current_mode()
    with pytest.raises(error, match=says):
        act()
    assert config.values == before and current_mode() is mode


def test_blocks_and_decorated_functions_override_an_option_here() -> None:
    block = jax.enable_x64()
    with block:
        assert config.jax_enable_x64 and not config.values["jax_enable_x64"]
        with jax.enable_x64(False), block:
            assert config.jax_enable_x64
        found: list[bool] = []
        thread = threading.Thread(target=lambda: found.append(config.jax_enable_x64))
        thread.start()
        thread.join()
        assert found == [False]
        config.update("jax_enable_x64", False)
        assert config.jax_enable_x64  # a block is stronger

    @jax.enable_x64(True)
    def dtype(deeper: bool) -> Any:
        return dtype(False) if deeper else jnp.asarray(WIDE).dtype

    assert dtype(True) == np.float64 and jnp.asarray(WIDE).dtype == np.float32


def test_the_environment_sets_options() -> None:
    program = "import pullback.compat.jax as jax; print(jax.config.jax_enable_x64, jax.numpy.arange(2.0).dtype)"
    assert _alone(program) == "False float32"
    assert _alone(program, JAX_ENABLE_X64="1") == "True float64" == _alone(program, JAX_ENABLE_X64="true")
    program = "import pullback.compat.jax as jax; print(jax.config.jax_numpy_rank_promotion)"
    assert _alone(program, JAX_NUMPY_RANK_PROMOTION="raise") == "raise"


def test_importing_the_facade_lets_the_mode_hold_and_uninstall_takes_it_back() -> None:
    program = (
        "import numpy as np, pullback.numpy as pnp; x = np.ones(2); print(pnp.asarray(x).dtype, end=' ')\n"
        "import pullback.compat.jax as jax; print(pnp.asarray(x).dtype, pnp.arange(2.0)[7].tolist(), end=' ')\n"
        "jax.install(); import jax; jax.config.update('jax_debug_nans', True); jax.config.update('jax_enable_x64', True)\n"
        "print(pnp.asarray(1.0).dtype, end=' ')\n"
        "jax.uninstall(); print(pnp.asarray(1.0).dtype, pnp.asarray(x).dtype, pnp.log(-1.0).tolist())"
    )
    assert _alone(program) == "float64 float32 1.0 float64 float32 float64 nan"


def _in_a_thread(function: Any) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def _is_looked_at(function: Any = lambda: jnp.zeros(2) / 0.0) -> bool:
    try:
        return bool(function().shape) and False
    except FloatingPointError:
        return True


def _is_watched() -> bool:
    key = jax.random.key(3)
    try:
        return bool(jax.random.normal(key) + jax.random.normal(key)) and False
    except jax.errors.KeyReuseError:
        return True


@pytest.mark.parametrize(
    ("name", "on", "holds"),
    [
        ("jax_debug_nans", True, _is_looked_at),
        ("jax_debug_nans", True, lambda: _is_looked_at(lambda: jax.jit(lambda x: x / x)(jnp.zeros(2)))),
        ("jax_debug_infs", True, lambda: _is_looked_at(lambda: jnp.ones(2) / 0.0)),
        ("jax_debug_key_reuse", True, _is_watched),
        ("jax_log_compiles", True, lambda: reports.level.get() == reports.WARNING),
        ("jax_explain_cache_misses", True, explains_misses),
        ("jax_traceback_filtering", "off", lambda: source.shown_frames() == "all"),
        ("jax_check_tracer_leaks", True, lambda: current_mode().checks_leaks),
    ],
)
def test_options_of_the_process_hold_in_every_thread_and_those_of_a_block_in_its_own(name: str, on: Any, holds: Any) -> None:
    def seen() -> tuple[bool, bool]:
        return holds(), _in_a_thread(holds)

    before = config.values[name]
    assert seen() == (False, False)
    with configuration.STATES[name](on):
        assert seen() == (True, False)
    _in_a_thread(lambda: config.update(name, on))
    assert seen() == (True, True)
    with configuration.STATES[name](before):
        assert seen() == (False, True)
    config.update(name, before)
    assert seen() == (False, False)


def test_results_are_looked_at_where_nothing_is_traced() -> None:
    config.update("jax_debug_nans", True)
    jax.jit(lambda x: x * 2.0)(1.0)  # leaves no trace of its own behind
    with jax.ensure_compile_time_eval():
        assert _is_looked_at()
        config.update("jax_debug_nans", False)
        assert not _is_looked_at()
    assert not _is_looked_at()

    def evaluated() -> list[bool]:
        found: list[bool] = []

        def function(x: Any) -> Any:
            with jax.ensure_compile_time_eval():
                found.append(_is_looked_at())
            return x

        jax.make_jaxpr(function)(1.0)
        return found

    with jax.debug_nans(True):
        assert evaluated() == [True]
    config.update("jax_debug_nans", True)
    assert evaluated() == [True]
    with jax.debug_nans(False):
        assert evaluated() == [False]


# ---- what they do -----------------------------------------------------------------------------------------------------


def test_64_bits() -> None:
    f = jax.jit(lambda x: x + jnp.arange(2.0))
    assert f(WIDE).dtype == np.float32 == (WIDE * jnp.ones(2)).dtype == jnp.asarray(np.float64(1.0)).dtype
    with jax.enable_x64(True):
        assert f(WIDE).dtype == np.float64 == jnp.asarray(1.0).dtype == jnp.zeros(2, "float64").dtype
    with jax.experimental.enable_x64(), jax.experimental.disable_x64():
        assert jnp.asarray(WIDE).dtype == np.float32
    with pytest.warns(UserWarning, match="Explicitly requested dtype float64 is not available"):
        assert jnp.zeros(2, "float64").dtype == np.float32
    config.update("jax_explicit_x64_dtypes", "error")
    with pytest.raises(ValueError, match="Explicitly requested dtype float64 is not available"):
        jnp.zeros(2, "float64")
    config.update("jax_explicit_x64_dtypes", "allow")
    assert jnp.zeros(2, "float64").dtype == np.float64 and jnp.asarray(WIDE).dtype == np.float32


def test_strict_promotion() -> None:
    x, i = jnp.ones(2), jnp.arange(2)
    with jax.numpy_dtype_promotion("strict"):
        assert (x + 1).dtype == np.float32
        with pytest.raises(TypeError, match="where promotion is strict"):
            x + i
        with jax.numpy_dtype_promotion("standard"):
            assert (x + i).dtype == np.float32
    config.update("jax_numpy_rank_promotion", "raise")
    with pytest.raises(ValueError, match="rank"):
        x + jnp.ones((2, 2))


def test_nan_and_infinity_are_errors_where_they_are_computed() -> None:
    zero, quotient = jnp.array(0.0), jax.jit(lambda x: 0.0 / x)
    quotient(zero)
    with jax.debug_nans(True):
        assert quotient(jnp.array(1.0)) == 0.0
        for f in (
            quotient,
            lambda x: x / x,
            jnp.log.__get__(-1.0).__call__.__self__ and (lambda x: jnp.log(x - 1.0)),
            jax.vmap(lambda x: x / x).__call__,
        ):
            with pytest.raises(FloatingPointError, match=r"invalid value \(nan\) encountered in (div|log)\."):
                f(jnp.zeros(1) if getattr(f, "__name__", "") == "__call__" else zero)
        assert np.isinf(1.0 / zero)
    assert np.isnan(zero / zero) and np.isnan(quotient(zero))
    config.update("jax_debug_infs", True)
    assert np.isnan(zero / zero)
    with pytest.raises(FloatingPointError, match=r"\(inf\) encountered in div"):
        1.0 / zero
    config.update("jax_debug_nans", True)
    config.update("jax_debug_infs", False)
    assert np.isinf(1.0 / zero)
    with pytest.raises(FloatingPointError, match=r"\(nan\)"):
        zero / zero


def test_keys_that_are_used_twice_are_errors() -> None:
    key = pb.random.key(0)
    with jax.debug_key_reuse(True), pytest.raises(pb.errors.KeyReuseError):
        pb.random.normal(key) + pb.random.normal(key)


def test_the_default_device() -> None:
    device = jax.devices()[0]
    for given in (device, "cpu"):
        with jax.default_device(given):
            assert jax.config.jax_default_device is given and jnp.ones(2).device == device
    with pytest.raises((ValueError, RuntimeError), match="abacus"), jax.default_device("abacus"):
        pass
    assert jax.config.jax_default_device is None


def test_loops_and_jit_in_python() -> None:
    seen: list[float] = []
    f = jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda i, x: (seen.append(float(x)), x * 2.0)[1], x))
    with jax.disable_jit():
        assert f(1.0) == 8.0 and seen == [1.0, 2.0, 4.0]
        with jax.disable_jit(False), pytest.raises(jax.errors.ConcretizationTypeError):
            f(1.0)
        branches = [lambda x: float(x), lambda x: -float(x)]  # which knows its value
        assert jax.lax.cond(False, *branches, 2.0) == jax.lax.switch(1, branches, 2.0) == -2.0
    config.update("jax_disable_jit", True)
    assert jax.lax.scan(lambda c, x: (c + x, seen.append(float(c))), 0.0, jnp.ones(2))[0] == 2.0 and seen[3:] == [0.0, 1.0]


def test_leaks_are_found() -> None:
    kept: list[object] = []
    f = jax.jit(lambda x: kept.append(x) or x)
    for checking in (jax.checking_leaks(), jax.check_tracer_leaks(True)):
        with checking, pytest.raises(jax.errors.UnexpectedTracerError, match="Leaked trace"):
            f(1.0)
        kept.clear()
    f(1.0)


def test_compilations_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with jax.log_compiles():
        jax.jit(lambda x: x * 7.0)(1.0)
    assert any("Finished tracing <lambda> for jit" in record.getMessage() for record in caplog.records)
    caplog.clear()
    config.update("jax_explain_cache_misses", True)
    jax.jit(lambda x: x * 7.0)(1.0)
    assert "TRACING CACHE MISS" in caplog.text
    config.update("jax_explain_cache_misses", False)


def test_random_bits_are_those_of_the_default() -> None:
    with pytest.warns(UserWarning, match="random bits are those of True"), jax.threefry_partitionable(False):
        pass
    before = jax.random.key_data(jax.random.key(1)).tolist()
    config.update("jax_random_seed_offset", 1)
    assert jax.random.key_data(jax.random.key(0)).tolist() == before


@pytest.mark.parametrize(
    ("mode", "shown"),
    [("remove_frames", "caused"), ("quiet_remove_frames", "noted"), ("tracebackhide", "marked"), ("auto", "users")],
)
def test_modes_of_tracebacks(mode: str, shown: str) -> None:
    with configuration.traceback_filtering(mode):
        assert source.shown_frames() == shown


def test_full_tracebacks() -> None:
    def frames() -> int:
        with pytest.raises(TypeError) as caught:
            jnp.dot(jnp.ones(2), jnp.ones(3))
        return len(caught.traceback)

    usual = frames()
    with configuration.traceback_filtering("off"):
        assert frames() > usual
    assert frames() == usual
    config.update("jax_traceback_filtering", "off")
    assert frames() > usual
    config.update("jax_traceback_filtering", "auto")
    assert frames() == usual


def test_every_context_manager_of_jax_s_top_level_is_there() -> None:
    names = [name.removeprefix("jax_") for name in configuration.STATES]
    there = [name for name in names if isinstance(getattr(jax, name, None), configuration.State)]
    assert len(there) == 29 and all([getattr(jax, name)._name in (name, f"jax_{name}") for name in there])
    with (
        jax.default_matmul_precision("highest"),
        jax.transfer_guard("disallow"),
        jax.log_compiles(),
        jax.legacy_prng_key("allow"),
    ):
        assert config.jax_default_matmul_precision == "highest"


def test_nan_and_infinity_are_looked_for_independently() -> None:
    def looked_for() -> tuple[bool, bool]:
        return _is_looked_at(lambda: jnp.log(-jnp.ones(2))), _is_looked_at(lambda: jnp.ones(2) / 0.0)

    try:
        with jax.debug_nans(True):
            config.update("jax_debug_infs", True)
            assert looked_for() == (True, True)
            with jax.debug_nans(False):
                assert looked_for() == (False, True)
                config.update("jax_debug_infs", False)
                assert looked_for() == (False, False)
            assert looked_for() == (True, False)
            config.update("jax_debug_infs", True)
            config.update("jax_debug_nans", False)
            assert looked_for() == (True, True)
        assert looked_for() == (False, True)
    finally:
        config.update("jax_debug_infs", False)
    assert looked_for() == (False, False)


def test_the_cpu_is_divided_into_as_many_devices_as_an_option_says() -> None:
    program = "import pullback.compat.jax as jax; {}print(jax.device_count(), jax.pmap(lambda x: x + 1)(jax.numpy.arange(2)))"
    assert _alone(program.format("jax.config.update('jax_num_cpu_devices', 2); ")) == "2 [1 2]"
    assert _alone(program.format(""), JAX_NUM_CPU_DEVICES="3") == "3 [1 2]"


def test_nothing_is_traced_again_where_that_is_refused() -> None:
    f = jax.jit(lambda x: x + 1)
    f(1.0)
    with jax.no_tracing():
        assert f(2.0) == 3.0
        with pytest.raises(RuntimeError, match=r"Nothing may be traced here .* no earlier call is like this one"):
            f(jnp.ones(3))
    assert f(jnp.ones(3)).shape == (3,)


def test_functions_are_traced_for_each_value_of_an_option_of_the_programs_own() -> None:
    scale, other = jax.make_user_context(1.0), jax.make_user_context()
    seen: list[Any] = []
    f = jax.jit(lambda x: seen.append(scale.value) or x * scale.value)
    for _ in range(2):
        assert f(2.0) == 2.0
        with scale(3.0), other("a"):
            assert f(2.0) == 6.0
        with scale(4.0):
            assert f(2.0) == 8.0
    assert seen == [1.0, 3.0, 4.0]
    scale.set_global(5.0)
    assert f(2.0) == 10.0 and scale.get_global() == 5.0
    scale.set_global(1.0)
    with pytest.raises(TypeError, match="unhashable"), scale([1.0]):
        pass
    assert scale.value == 1.0
