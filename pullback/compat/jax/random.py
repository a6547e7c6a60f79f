"""jax.random: pullback.random, with JAX's ways to name a generator, and its options of raw keys."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from pullback import random as own
from pullback.compat.jax import configuration as options
from pullback.compat.jax.facade import facade
from pullback.core.dtypes import KEY
from pullback.core.source import api_boundary
from pullback.random.keys import GENERATOR

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


def _of_key(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of a key, first or by its name, that minds the options about raw ones."""

    @functools.wraps(function)
    @api_boundary
    def with_key(*args: Any, out_sharding: Any = None, **params: Any) -> Any:
        key = args[0] if args else params.get("key", params.get("keys"))
        if getattr(key, "dtype", None) is not KEY:
            _check_raw(key)
        return function(*args, **params)

    return with_key


def _check_raw(key: Any) -> None:
    state = options.legacy_prng_key.value
    if getattr(key, "dtype", None) is None:
        raise TypeError(f"unexpected PRNG key type {type(key)}: keys are made by jax.random.key(seed).")
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


def generator_of(impl: Any) -> str:
    """The generator that is meant by a name, a dtype of keys, or None for that of the options. There is one."""
    if impl is None:
        impl = options.default_prng_impl.value
    name = getattr(impl, "name", impl) if impl is not KEY else GENERATOR
    if name.__class__ is not str:
        raise TypeError(
            f"impl is the name of a generator of random numbers, a string, but got {impl!r} of type {type(impl).__name__}."
        )
    if name == GENERATOR:
        return GENERATOR
    if name in options._GENERATORS or name is not impl:
        raise NotImplementedError(f"jax.random's generator {name!r} is not provided by pullback, which has {GENERATOR!r}.")
    raise ValueError(f"There is no generator of random numbers by the name of {name!r}; there is {GENERATOR!r}.")


def _check_impl(impl: Any, dtype: Any, name: str) -> None:
    if impl is not None and dtype is not None:
        raise ValueError(f"jax.random.{name} takes impl or dtype, which say the same, but got both.")
    generator_of(dtype if impl is None else impl)


def _seeded(name: str, seed: Any) -> Any:
    if getattr(seed, "dtype", None) is KEY:
        raise TypeError(f"{name} takes a seed, a number, but got a key already.")
    if shape := np.shape(seed):
        raise TypeError(
            f"{name} takes one number as its seed, but got an array of shape {shape}. For a key of each, use jax.vmap."
        )
    offset = options.random_seed_offset.value
    return own.key(seed + offset if offset else seed)


@api_boundary
def key(seed: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """pullback.random.key, with a generator by JAX's names for it."""
    _check_impl(impl, dtype, "key")
    return _seeded("key", seed)


@api_boundary
def PRNGKey(seed: Any, *, impl: Any = None) -> Any:
    """A raw key; a typed one if jax_enable_custom_prng says so."""
    _check_impl(impl, None, "PRNGKey")
    made = _seeded("PRNGKey", seed)
    return made if options.enable_custom_prng.value else own.key_data(made)


@api_boundary
def wrap_key_data(key_bits_array: Any, *, impl: Any = None, dtype: Any = None) -> Any:
    """pullback.random.wrap_key_data, with a generator by JAX's names for it."""
    _check_impl(impl, dtype, "wrap_key_data")
    return own.wrap_key_data(key_bits_array)


def key_dtype(impl_spec: Any = None) -> Any:
    """The dtype of keys."""
    generator_of(impl_spec)
    return KEY


facade(globals(), "pullback.random", "checked_keys prng_key", adapted=dict.fromkeys(_OF_KEYS.split(), _of_key))
