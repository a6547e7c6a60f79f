"""Rules of gradient descent: each is a triple of functions, of trees of parameters.

A rule is written for one array, and `optimizer` makes it one for trees. The step size of each rule is a number, or a
schedule: a function of the number of the step.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback import numpy as pnp
from pullback.core.brief import brief
from pullback.core.errors import ShapeError
from pullback.core.source import api_boundary, make_public
from pullback.core.trees import TreeDef, check_like, flatten, kind_of, register_dataclass, structure_of, unflatten
from pullback.numpy.promotion import operand

__all__ = [
    "Optimizer", "OptimizerState", "adagrad", "adam", "adamax", "clip_grads", "constant", "exponential_decay",
    "inverse_time_decay", "l2_norm", "make_schedule", "momentum", "nesterov", "optimizer", "piecewise_constant",
    "polynomial_decay", "rmsprop", "rmsprop_momentum", "sgd", "sm3",
]  # fmt: skip

Schedule = Callable[[Any], Any]
Rule = Callable[..., tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]]]


class Optimizer(NamedTuple):
    """The three functions of a rule.

    Attributes:
        init: a function of the parameters: the state that they begin with.
        update: a function of the number of the step, the gradients and the state: the next state.
        params: a function of a state: the parameters in it.

    Example:
        >>> init, update, params = pb.optimizers.sgd(0.5)
        >>> state = init({"w": 1.0})
        >>> params(update(0, pb.grad(lambda p: p["w"] ** 2)(params(state)), state))
        {'w': 0.0:f32[]:cpu(0)}
    """

    init: Callable[[Any], OptimizerState]
    update: Callable[[Any, Any, OptimizerState], OptimizerState]
    params: Callable[[OptimizerState], Any]


@dataclasses.dataclass
class OptimizerState:
    """What an optimizer keeps of each parameter, and the structure of the tree that these are: a container of arrays.

    Attributes:
        states: what the rule keeps of each parameter, in the order of the leaves. structure: that of the parameters.

    Example:
        >>> pb.optimizers.momentum(0.1, 0.9).init([1.0, 2.0]).states[1]
        (2.0, 0.0:f32[]:cpu(0))
    """

    states: list[Any]
    structure: TreeDef


register_dataclass(OptimizerState, ["states"], ["structure"])
_LIKE_PARAMETERS = "An optimizer's update takes gradients like the parameters: {}.".format
_LIKE_STATE = "An optimizer's rule returns a state as it takes it: {}.".format


def _check_state(function: str, state: Any) -> None:
    if not isinstance(state, OptimizerState):
        called = {"update": "update(step, gradients, state)", "params": "params(state)"}[function]
        raise TypeError(f"An optimizer's {called} takes a state as init and update return it, but got {brief(state)} as state.")


def optimizer(rule: Rule) -> Callable[..., Optimizer]:
    """A decorator of a function that makes a rule for a single array, which becomes one for trees.

    Arguments:
        rule: a function, of step sizes, say, that returns three: `init(x)` gives the state that an array begins with,
            `update(step, gradient, state)` the next one, `params(state)` the array in it.

    Returns:
        A function of the same arguments that returns an `Optimizer`.

    Raises:
        StructureError: when `update` is called: the gradients are another tree than the parameters, or the rule returns another
            tree than it took.

    Example:
        >>> @pb.optimizers.optimizer
        ... def by_sign(size):
        ...     return (lambda x: x), (lambda step, g, x: x - size * pnp.sign(g)), (lambda x: x)
        >>> init, update, params = by_sign(0.1)
        >>> params(update(0, [3.0, -2.0], init([1.0, 1.0])))
        [0.9:f32[]:cpu(0), 1.1:f32[]:cpu(0)]
    """

    @functools.wraps(rule)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        init_one, update_one, params_one = rule(*args, **kwargs)
        flatten = kind_of(rule).flatten

        @api_boundary
        def init(params: Any) -> OptimizerState:
            leaves, structure = flatten(params)
            return OptimizerState([init_one(leaf) for leaf in leaves], structure)

        @api_boundary
        def update(step: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            _check_state("update", state)
            given, structure = flatten(gradients)
            check_like(structure, state.structure, "gradients", "the parameters have", _LIKE_PARAMETERS)
            new = [update_one(step, g, one) for g, one in zip(given, state.states, strict=True)]
            check_like(structure_of(new), structure_of(state.states), "state", "it took", _LIKE_STATE)
            return OptimizerState(new, structure)

        @api_boundary
        def params(state: OptimizerState) -> Any:
            _check_state("params", state)
            return unflatten(state.structure, [params_one(one) for one in state.states])

        return Optimizer(init, update, params)

    return make


def _beside_zeros(count: int) -> Callable[[Any], Any]:
    """The `init` of a rule that keeps, beside an array, this many others like it, which begin as zeros."""
    return lambda x: (x, *[pnp.zeros_like(x) for _ in range(count)])


def _first(state: Any) -> Any:
    return state[0]


# ---- rules ------------------------------------------------------------------------------------------------------------


@optimizer
def sgd(step_size: Any) -> Any:
    """Gradient descent: x - size * g.

    Arguments:
        step_size: a number, or a schedule.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Example:
        >>> init, update, params = pb.optimizers.sgd(0.25)
        >>> params(update(0, 2.0, init(1.0)))
        0.5
    """
    size = make_schedule(step_size)
    return (lambda x: x), (lambda i, g, x: x - size(i) * g), (lambda x: x)


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Gradient descent by a velocity, v = mass * v + g.

    Arguments:
        step_size: a number, or a schedule.
        mass: how much of the velocity is left after a step.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Source: Polyak, Some methods of speeding up the convergence of iteration methods (1964).

    Example:
        >>> init, update, params = pb.optimizers.momentum(0.25, 0.5)
        >>> params(update(1, 2.0, update(0, 2.0, init(1.0))))
        -0.25:f32[]:cpu(0)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * velocity, velocity

    return _beside_zeros(1), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Momentum that looks ahead: the step is by mass * v + g, where v is the new velocity.

    Arguments:
        step_size: a number, or a schedule.
        mass: how much of the velocity is left after a step.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Source: Sutskever, Martens, Dahl and Hinton, On the importance of initialization and momentum in deep learning (2013).

    Example:
        >>> init, update, params = pb.optimizers.nesterov(0.25, 0.5)
        >>> params(update(0, 2.0, init(1.0)))
        0.25:f32[]:cpu(0)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - size(i) * (mass * velocity + g), velocity

    return _beside_zeros(1), update, _first


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Each element's step is divided by the root of the sum of its squared gradients, and smoothed by a momentum.

    Arguments:
        step_size: a number, or a schedule.
        momentum: how much of the mean step is left after a step.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Source: Duchi, Hazan and Singer, Adaptive subgradient methods (2011).

    Example:
        >>> init, update, params = pb.optimizers.adagrad(0.5, momentum=0.0)
        >>> params(update(0, 2.0, init(1.0)))
        0.5:f32[]:cpu(0)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, mean = state
        squares = squares + pnp.square(g)
        scaled = g * pnp.where(squares > 0, 1.0 / pnp.sqrt(squares), 0.0)
        mean = (1.0 - momentum) * (size(i) * scaled) + momentum * mean
        return x - mean, squares, mean

    return _beside_zeros(2), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Each element's step is divided by the root of the mean of its squared gradients.

    Arguments:
        step_size: a number, or a schedule.
        gamma: how much of the mean is left after a step.
        eps: what is added to the mean, so that nothing is divided by zero.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Source: Tieleman and Hinton, Lecture 6.5, Neural networks for machine learning (2012).

    Example:
        >>> init, update, params = pb.optimizers.rmsprop(0.5, gamma=0.75)
        >>> params(update(0, 2.0, init(2.0)))
        1.0:f32[]:cpu(0)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, square = state
        square = square * gamma + pnp.square(g) * (1.0 - gamma)
        return x - size(i) * g / pnp.sqrt(square + eps), square

    return _beside_zeros(1), update, _first


@optimizer
def rmsprop_momentum(step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9) -> Any:
    """RMSprop's steps, added up to a velocity.

    Arguments:
        step_size: a number, or a schedule.
        gamma: how much of the mean of squared gradients is left after a step.
        eps: what is added to the mean, so that nothing is divided by zero.
        momentum: how much of the velocity is left after a step.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Example:
        >>> init, update, params = pb.optimizers.rmsprop_momentum(0.5, gamma=0.75)
        >>> params(update(0, 2.0, init(2.0)))
        1.0:f32[]:cpu(0)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, square, velocity = state
        square = square * gamma + pnp.square(g) * (1.0 - gamma)
        velocity = momentum * velocity + size(i) * g / pnp.sqrt(square + eps)
        return x - velocity, square, velocity

    return _beside_zeros(2), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Steps by the mean of the gradients over the root of that of their squares, both corrected for having begun at zero.

    Arguments:
        step_size: a number, or a schedule.
        b1: how much of the mean gradient is left after a step.
        b2: how much of the mean squared gradient is left after a step.
        eps: what is added to the root, so that nothing is divided by zero.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Source: Kingma and Ba, Adam (2015), algorithm 1.

    Example:
        >>> init, update, params = pb.optimizers.adam(0.5)
        >>> params(update(0, pnp.array([2.0, -3.0]), init(pnp.ones(2))))
        [0.5 1.5]:f32[2]:cpu(0)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, first, second = state
        first = (1 - b1) * g + b1 * first
        second = (1 - b2) * pnp.square(g) + b2 * second
        exponent = pnp.asarray(i + 1, first.dtype)
        unbiased, spread = first / (1 - b1**exponent), second / (1 - b2**exponent)
        return x - size(i) * unbiased / (pnp.sqrt(spread) + eps), first, second

    return _beside_zeros(2), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Adam by the largest gradient, which decays, in place of the mean of the squares.

    Arguments:
        step_size: a number, or a schedule.
        b1: how much of the mean gradient is left after a step.
        b2: how much of the largest gradient is left after a step.
        eps: what is added to the largest, so that nothing is divided by zero.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Source: Kingma and Ba, Adam (2015), algorithm 2.

    Example:
        >>> init, update, params = pb.optimizers.adamax(0.5)
        >>> params(update(0, pnp.array([2.0, -3.0]), init(pnp.ones(2))))
        [0.5 1.5]:f32[2]:cpu(0)
    """
    size = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, first, most = state
        first = (1 - b1) * g + b1 * first
        most = pnp.maximum(b2 * most, abs(g))
        return x - (size(i) / (1 - b1 ** pnp.asarray(i + 1, first.dtype))) * first / (most + eps), first, most

    return _beside_zeros(2), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """Adagrad that keeps a number for each index along each axis, in place of one for each element.

    Arguments:
        step_size: a number, or a schedule.
        momentum: how much of the mean step is left after a step.

    Returns:
        An `Optimizer`.

    Raises:
        ShapeError: the step size is an array with axes.

    Source: Anil, Gupta, Koren and Singer, Memory-efficient adaptive optimization (2019), SM3-II.

    Example:
        >>> init, update, params = pb.optimizers.sm3(0.5, momentum=0.0)
        >>> params(update(0, pnp.array([2.0, -3.0]), init(pnp.ones(2))))
        [0.5 1.5]:f32[2]:cpu(0)
    """
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
        return x - size(i) * mean, mean, [bound.max(tuple([k for k in axes if k != axis])) for axis in axes]

    return init, update, _first


# ---- schedules of the step's size -------------------------------------------------------------------------------------


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """The schedule that a step size means: a number's is the same at each step.

    Arguments:
        scalar_or_schedule: a number, a 0-d array, or a function of the number of the step.

    Returns:
        A function of the number of the step.

    Raises:
        ShapeError: it is an array with axes. LeafError: it is none of these.

    Example:
        >>> pb.optimizers.make_schedule(0.1)(7)
        0.1
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule  # type: ignore[no-any-return]
    listed = isinstance(scalar_or_schedule, (list, tuple))
    size = pnp.asarray(scalar_or_schedule) if listed else operand(scalar_or_schedule, "An optimizer", "its step size")
    if size.shape:
        raise ShapeError(f"A step size is one number, or a function of the step's number, but got {size.type}.")
    return constant(scalar_or_schedule)


def constant(step_size: Any) -> Schedule:
    """The same step size at each step.

    Arguments:
        step_size: a number.

    Returns:
        A function of the number of the step.

    Raises:
        Nothing.

    Example:
        >>> pb.optimizers.constant(0.1)(7)
        0.1
    """
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """A step size that is multiplied by a rate over a number of steps: size * rate^(i / steps).

    Arguments:
        step_size: the first one.
        decay_steps: over how many steps.
        decay_rate: by what it is multiplied.

    Returns:
        A function of the number of the step.

    Raises:
        Nothing.

    Example:
        >>> pb.optimizers.exponential_decay(1.0, 2, 0.25)(1)
        0.5
    """
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False) -> Schedule:
    """size / (1 + rate * i / steps).

    Arguments:
        step_size: the first one.
        decay_steps: over how many steps the rate is added once.
        decay_rate: what is added.
        staircase: whether i / steps is rounded down.

    Returns:
        A function of the number of the step.

    Raises:
        Nothing.

    Example:
        >>> pb.optimizers.inverse_time_decay(1.0, 2, 0.5)(4)
        0.5
    """
    count = pnp.floor if staircase else lambda x: x
    return lambda i: step_size / (1 + decay_rate * count(i / decay_steps))


def polynomial_decay(step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0) -> Schedule:
    """From one step size to another over a number of steps, by a power of what is left of these.

    Arguments:
        step_size: the first one.
        decay_steps: over how many steps.
        final_step_size: the last one.
        power: 1 decays along a line.

    Returns:
        A function of the number of the step.

    Raises:
        Nothing.

    Example:
        >>> pb.optimizers.polynomial_decay(1.0, 4, 0.0)(1)
        0.75:f32[]:cpu(0)
    """

    def schedule(step: Any) -> Any:
        left = 1 - pnp.minimum(step, decay_steps) / decay_steps
        return left**power * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """A step size that changes behind some steps.

    Arguments:
        boundaries: a vector of numbers of steps, ascending.
        values: the step sizes: one more.

    Returns:
        A function of the number of the step.

    Raises:
        ShapeError: `boundaries` is no vector, or `values` is not one longer.

    Example:
        >>> pb.optimizers.piecewise_constant([2], [1.0, 0.5])(3)
        0.5:f32[]:cpu(0)
    """
    limits, sizes = pnp.asarray(boundaries), pnp.asarray(values)
    if limits.ndim != 1 or sizes.shape != (limits.shape[0] + 1,):
        raise ShapeError(
            "piecewise_constant takes boundaries as a vector, and values as one that is one longer, but got arrays of the"
            f" shapes {limits.shape} and {sizes.shape}."
        )
    return lambda i: sizes[pnp.sum(i > limits)]


# ---- gradients --------------------------------------------------------------------------------------------------------


def l2_norm(tree: Any) -> Any:
    """The norm of all numbers in a tree: the root of the sum of their squares.

    Arguments:
        tree: a tree of real arrays.

    Returns:
        A 0-d array.

    Raises:
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> pb.optimizers.l2_norm([3.0, pnp.array([4.0])])
        5.0:f32[]:cpu(0)
    """
    return pnp.sqrt(sum(pnp.vdot(leaf, leaf) for leaf in flatten(tree)[0]))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Gradients scaled down to a norm, if theirs is larger.

    Arguments:
        grad_tree: a tree of real arrays.
        max_norm: the norm that they may have.

    Returns:
        A tree like it.

    Raises:
        LeafError: a leaf is neither an array nor a number.

    Example:
        >>> pb.optimizers.clip_grads(pnp.array([3.0, 4.0]), 2.5)
        [1.5 2. ]:f32[2]:cpu(0)
    """
    norm = l2_norm(grad_tree)
    leaves, structure = flatten(grad_tree)
    return unflatten(structure, [pnp.where(norm < max_norm, g, g * (max_norm / norm)) for g in leaves])


make_public(globals())
