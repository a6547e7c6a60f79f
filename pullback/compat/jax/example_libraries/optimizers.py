"""jax.example_libraries.optimizers: rules of gradient descent, each a triple of functions.

`init(params)` gives a state, `update(step, gradients, state)` the next one, and `params(state)` the parameters in it. A rule is
written for one array; `optimizer` makes it one for trees.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pullback import numpy as pnp
from pullback.compat.jax.facade import facade
from pullback.compat.jax.tree_util import register_pytree_node, tree_flatten, tree_leaves, tree_map, tree_unflatten

Schedule = Callable[[Any], Any]
OptimizerState = namedtuple("OptimizerState", ["packed_state", "tree_def", "subtree_defs"])
register_pytree_node(
    OptimizerState, lambda state: ((state.packed_state,), state[1:]), lambda meta, children: OptimizerState(children[0], *meta)
)


class Optimizer(NamedTuple):
    """The three functions of a rule."""

    init_fn: Callable[..., Any]
    update_fn: Callable[..., Any]
    params_fn: Callable[..., Any]


def _state_of(states: Sequence[Any], tree: Any) -> Any:
    """The states of all parameters, which are a tree, as one."""
    parts = [tree_flatten(state) for state in states]
    return OptimizerState([tuple(leaves) for leaves, _ in parts], tree, [part for _, part in parts])


def _states_in(state: Any) -> list[Any]:
    """The state of each parameter."""
    return [tree_unflatten(part, leaves) for part, leaves in zip(state.subtree_defs, state.packed_state, strict=True)]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """A rule for trees, of a function that makes one for a single array."""

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init_one, update_one, params_one = opt_maker(*args, **kwargs)

        @functools.wraps(init_one)
        def init(params: Any) -> Any:
            leaves, tree = tree_flatten(params)
            return _state_of([init_one(leaf) for leaf in leaves], tree)

        @functools.wraps(update_one)
        def update(step: Any, gradients: Any, state: Any) -> Any:
            given, tree = tree_flatten(gradients)
            if tree != state.tree_def:
                raise TypeError(
                    f"The gradients are a tree {tree}, where the optimizer was made for parameters {state.tree_def}: one for"
                    " each parameter."
                )
            new = _state_of([update_one(step, g, one) for g, one in zip(given, _states_in(state), strict=True)], tree)
            if new.subtree_defs != state.subtree_defs:
                raise TypeError(
                    "The optimizer's update must return a state as it takes it, but they differ:"
                    f" {state.subtree_defs} became {new.subtree_defs}."
                )
            return new

        @functools.wraps(params_one)
        def params(state: Any) -> Any:
            return tree_unflatten(state.tree_def, [params_one(one) for one in _states_in(state)])

        return Optimizer(init, update, params)

    return make


def _first(state: Any) -> Any:
    return state[0]


@optimizer
def sgd(step_size: Any) -> Any:
    size = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - size(i) * g), (lambda x: x)


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return (lambda x: (x, pnp.zeros_like(x))), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return (lambda x: (x, pnp.zeros_like(x))), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Source: Duchi, Hazan and Singer, Adaptive subgradient methods (2011)."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        squares = squares + pnp.square(g)
        scaled = g * pnp.where(squares > 0, 1.0 / pnp.sqrt(squares), 0.0)
        mean = (1.0 - momentum) * (size(i) * scaled) + momentum * mean
        return x - mean, squares, mean

    return (lambda x: (x, pnp.zeros_like(x), pnp.zeros_like(x))), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, square = state
        square = square * gamma + pnp.square(g) * (1.0 - gamma)
        return x - size(i) * g / pnp.sqrt(square + eps), square

    return (lambda x: (x, pnp.zeros_like(x))), update, _first


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, square, velocity = state
        square = square * gamma + pnp.square(g) * (1.0 - gamma)
        velocity = momentum * velocity + size(i) * g / pnp.sqrt(square + eps)
        return x - velocity, square, velocity

    return (lambda x: (x, pnp.zeros_like(x), pnp.zeros_like(x))), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Source: Kingma and Ba, Adam (2015), algorithm 1."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, first, second = state
        first = (1 - b1) * g + b1 * first
        second = (1 - b2) * pnp.square(g) + b2 * second
        exponent = pnp.asarray(i + 1, first.dtype)
        unbiased, spread = first / (1 - b1**exponent), second / (1 - b2**exponent)
        return x - size(i) * unbiased / (pnp.sqrt(spread) + eps), first, second

    return (lambda x: (x, pnp.zeros_like(x), pnp.zeros_like(x))), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Source: Kingma and Ba, Adam (2015), algorithm 2."""
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, first, most = state
        first = (1 - b1) * g + b1 * first
        most = pnp.maximum(b2 * most, abs(g))
        return x - (size(i) / (1 - b1 ** pnp.asarray(i + 1, first.dtype))) * first / (most + eps), first, most

    return (lambda x: (x, pnp.zeros_like(x), pnp.zeros_like(x))), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """Source: Anil, Gupta, Koren and Singer, Memory-efficient adaptive optimization (2019)."""
    size = make_schedule(step_size)

    def shape_of(x: Any) -> tuple[int, ...]:
        return tuple(x.shape) or (1,)

    def init(x: Any) -> Any:
        x = pnp.asarray(x)
        return x, pnp.zeros_like(x), [pnp.zeros(n, x.dtype) for n in shape_of(x)]

    def update(i: Any, g: Any, state: Any) -> Any:
        x, mean, covers = state
        shape = shape_of(x)
        axes = range(len(shape))
        along = [cover.reshape([shape[k] if k == axis else 1 for k in axes]) for axis, cover in enumerate(covers)]
        bound = functools.reduce(pnp.minimum, along) + pnp.square(g.reshape(shape))
        scaled = g * pnp.where(bound > 0, 1.0 / pnp.sqrt(bound), 0.0).reshape(x.shape)
        mean = (1.0 - momentum) * scaled + momentum * mean
        return x - size(i) * mean, mean, [bound.max([k for k in axes if k != axis]) for axis in axes]

    return init, update, _first


# ---- schedules of the step's size -------------------------------------------------------------------------------------


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    if callable(scalar_or_schedule):
        return scalar_or_schedule
    if pnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(type(scalar_or_schedule))


def constant(step_size: Any) -> Schedule:
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    count = pnp.floor if staircase else lambda x: x
    return lambda i: step_size / (1 + decay_rate * count(i / decay_steps))


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0) -> Schedule:
    def schedule(step: Any) -> Any:
        left = 1 - pnp.minimum(step, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    limits, sizes = pnp.asarray(boundaries), pnp.asarray(values)
    if limits.ndim != 1 or sizes.shape != (limits.shape[0] + 1,):
        raise ValueError("boundaries must be a vector, and values one longer")
    return lambda i: sizes[pnp.sum(i > limits)]


# ---- gradients, and states as trees of the user's ---------------------------------------------------------------------


def l2_norm(tree: Any) -> Any:
    """The norm of all numbers in a tree."""
    return pnp.sqrt(sum(pnp.vdot(leaf, leaf) for leaf in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients whose norm is at most `max_norm`."""
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: pnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """Marks the place of a parameter in a tree of states."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: Any) -> Any:
    """A state as a tree like that of the parameters, with the state of each in its place."""
    return tree_unflatten(opt_state.tree_def, [JoinPoint(one) for one in _states_in(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> Any:
    """What `unpack_optimizer_state` undoes."""
    points, tree = tree_flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise TypeError("pack_optimizer_state takes a tree whose leaves are JoinPoints")
    return _state_of([point.subtree for point in points], tree)


facade(globals())
