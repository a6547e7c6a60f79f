"""jax.example_libraries.optimizers: pullback.optimizers, of JAX's trees."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback import optimizers as own
from pullback.compat.jax.facade import facade
from pullback.compat.jax.tree_util import register_dataclass, tree_leaves
from pullback.compat.jax.trees import JAX_TREES, flatten
from pullback.core.source import innermost
from pullback.core.trees import taking, unflatten
from pullback.optimizers import OptimizerState

register_dataclass(OptimizerState, ["states"], ["structure"])


class Optimizer(NamedTuple):
    """The three functions of a rule."""

    init_fn: Callable[..., Any]
    update_fn: Callable[..., Any]
    params_fn: Callable[..., Any]


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    made = own.optimizer(taking(JAX_TREES)(functools.wraps(opt_maker)(lambda *args, **kwargs: opt_maker(*args, **kwargs))))

    @functools.wraps(opt_maker)
    def make(*args: Any, **kwargs: Any) -> Optimizer:
        return Optimizer(*made(*args, **kwargs))

    return make


def l2_norm(tree: Any) -> Any:
    return own.l2_norm(tree_leaves(tree))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    leaves, structure = flatten(grad_tree, None)
    return structure.unflatten(own.clip_grads(leaves, max_norm))


class JoinPoint:
    """Marks the place of a parameter in a tree of states."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Any:
        yield self.subtree


def unpack_optimizer_state(opt_state: Any) -> Any:
    """A state as a tree like that of the parameters, with the state of each in its place."""
    return unflatten(opt_state.structure, map(JoinPoint, opt_state.states))


def pack_optimizer_state(marked_pytree: Any) -> Any:
    """What `unpack_optimizer_state` undoes."""
    points, structure = JAX_TREES.flatten(marked_pytree)
    if not all(isinstance(point, JoinPoint) for point in points):
        raise TypeError("pack_optimizer_state takes a tree whose leaves are JoinPoints")
    return OptimizerState([point.subtree for point in points], structure)


_RULES = "adagrad adam adamax momentum nesterov rmsprop rmsprop_momentum sgd sm3"

facade(
    globals(),
    "pullback.optimizers",
    adapted=dict.fromkeys(_RULES.split(), lambda made: optimizer(innermost(made))),
)
