"""jax.random: pullback.random, with JAX's ways to name a generator, and its options of raw keys."""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import random as own
from pullback.compat.jax import configuration as options
from pullback.compat.jax.facade import adapter, facade
from pullback.compat.jax.sharding import constrained
from pullback.core.dtypes import KEYS, is_key
from pullback.core.source import api_boundary
from pullback.ops.generators import GENERATORS

_OF_KEYS = (
    "ball bernoulli beta binomial bits categorical cauchy chisquare choice clone dirichlet double_sided_maxwell exponential f"
    " fold_in gamma generalized_normal geometric gumbel key_data key_impl laplace loggamma logistic lognormal maxwell"
    " multinomial multivariate_normal normal orthogonal pareto permutation poisson rademacher randint rayleigh split t"
    " triangular truncated_normal uniform wald weibull_min"
)
_RAW = (
    "The key is an array of uint32, as jax.random.PRNGKey makes them. Make it with jax.random.key; or, if it is to be one of"
    ' numbers, set the option jax_legacy_prng_key to "allow".'
)


class PRNGSpec:
    """A generator, as where a name of one is asked for."""

    __slots__ = ("_impl",)

    def __init__(self, impl: Any) -> None:
        self._impl = impl

    def __repr__(self) -> str:
        return f"PRNGSpec({self._impl.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PRNGSpec) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)


@adapter
def _of_key(function: Callable[..., Any], *args: Any, out_sharding: Any = None, **params: Any) -> Any:
    """A function of a key, first or by its name, that minds the options about raw ones."""
    key = args[0] if args else params.get("key", params.get("keys"))
    if not is_key(getattr(key, "dtype", None)):
        _check_raw(key)
    return constrained(function(*args, **params), out_sharding)


def _check_raw(key: Any) -> None:
    state = options.legacy_prng_key.value
    if getattr(key, "dtype", None) is None:
        raise TypeError(f"A random function takes a key, but got {type(key)}: keys are made by jax.random.key(seed).")
    if key.dtype != np.uint32:
        raise TypeError(
            f"invalid PRNG key data of dtype {key.dtype}: raw keys are of uint32; make one by jax.random.key(seed)."
        )
    if state == "error":
        raise ValueError(_RAW)
    if state == "warn":
        warnings.warn(_RAW, stacklevel=4)
    elif options.enable_custom_prng.value:
        warnings.warn("Raw keys are deprecated where jax_enable_custom_prng is set.", FutureWarning, stacklevel=4)


@functools.cache
def _defined(impl: Any) -> str:
    """The name of the generator that a program has defined by a PRNGImpl: its tag, with a number if that is taken."""
    names = itertools.chain([impl.tag], (f"{impl.tag}{number}" for number in itertools.count(2)))
    name = next(name for name in names if name not in KEYS and name not in GENERATORS)
    return own.define_generator(
        name, impl.key_shape, seed=impl.seed, split=impl.split, bits=impl.random_bits, fold_in=impl.fold_in
    )


def generator_of(impl: Any) -> str | None:
    """The name of the generator that a name, a dtype of keys, a PRNGSpec or a PRNGImpl means; None for the default one."""
    if impl is None:
        return None
    if isinstance(impl, PRNGSpec):
        impl = impl._impl
    if hasattr(impl, "key_shape") and impl.name not in GENERATORS:
        return _defined(impl)
    name = own.key_impl(np.zeros(1, impl)[0]) if is_key(impl) else getattr(impl, "name", impl)
    if name.__class__ is not str:
        raise TypeError(
            f"impl is the name of a generator of random numbers, a string, but got {impl!r} of the unrecognized type"
            f" {type(impl).__name__} for a PRNG."
        )
    if name not in GENERATORS and name is not impl:
        raise NotImplementedError(f"jax.random's generator {name!r} is not provided by pullback, which has its own.")
    return name


def _chosen(impl: Any, dtype: Any, name: str) -> str | None:
    if impl is not None and dtype is not None:
        raise ValueError(f"jax.random.{name} takes impl or dtype, which say the same, but got both.")
    return generator_of(dtype if impl is None else impl)


def _seeded(name: str, seed: Any, impl: str | None) -> Any:
    if is_key(getattr(seed, "dtype", None)):
        raise TypeError(f"{name} takes a scalar seed, a number, but got a PRNG key already.")
    if shape := np.shape(seed):
        raise TypeError(
            f"{name} takes a scalar seed, one number, but got an array of shape {shape}. For many keys, use jax.vmap."
        )
    offset = options.random_seed_offset.value
    return own.key(seed + offset if offset else seed, impl=impl)


@api_boundary
def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """pullback.random.key, with a generator by JAX's names for it."""
    return _seeded("key", seed, _chosen(impl, dtype, "key"))


@api_boundary
def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A raw key; a typed one if jax_enable_custom_prng says so."""
    made = _seeded("PRNGKey", seed, generator_of(impl))
    return made if options.enable_custom_prng.value else own.key_data(made)


@api_boundary
def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """pullback.random.wrap_key_data, with a generator by JAX's names for it."""
    return own.wrap_key_data(key_bits_array, impl=_chosen(impl, dtype, "wrap_key_data"))


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of a generator's keys."""
    return own.key_dtype(generator_of(impl_spec))


facade(globals(), "pullback.random", "checked_keys define_generator prng_key", adapted=dict.fromkeys(_OF_KEYS.split(), _of_key))
