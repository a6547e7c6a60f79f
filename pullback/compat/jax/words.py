"""JAX's words for errors of pullback's, in front of them: people and their tests look for these."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar

from pullback.core.dtypes import SHORT_NAMES
from pullback.core.errors import PullbackError

F = TypeVar("F", bound=Callable[..., Any])

# What pullback's message has in it, and what JAX's begins with
_WORDS = [
    (
        r"Python needed True or False .*? of a traced value of type ~?(\w+\[.*?\])",
        "Attempted boolean conversion of traced array with shape {0}.",
    ),
    (
        r"Python needed a number, by an index .*? of a traced value of type ~?(\w+\[.*?\])",
        "The __index__() method was called on traced array with shape {0}.",
    ),
    (
        r"Python needed (?:a number, by|its values, by) \.?(\w+)\(\),? .*?of a traced value of type ~?(\w+\[.*?\])",
        "Abstract tracer value encountered where concrete value is expected: traced array with shape {1}. The problem"
        " arose with the `{0}` function. Try using `x.astype({0})` to convert the dtype.",
    ),
    (
        r"NumPy was given a traced value of type ~?(\w+\[.*?\])",
        "The numpy.ndarray conversion method __array__() was called on traced array with shape {0}.",
    ),
    (
        r"A traced value of type ~?(\w+\[.*?\]) has escaped",
        "Encountered an unexpected tracer: a function that was transformed had a side effect, by which an intermediate value"
        " with type {0} escaped, perhaps into global state.",
    ),
    (
        r"must return the (carry|value).*(has length|of length|is <class|metadata|is pytree leaf|children|keys)",
        "{what}function carry input and carry output must have the same pytree structure, but they differ:",
    ),
    (r"must return the (carry|value)", "{what}function carry input and carry output must have equal types, but they differ:"),
    (
        r"branches of a (\w+) must return the same structure",
        "{0} branch outputs must have the same pytree structure, but they differ:",
    ),
    (r"branches of a (\w+) must return", "{0} branches must have equal output types but they differ."),
    (r"must return a 0-d bool, but it returned", "cond_fun must return a boolean scalar, but got something else:"),
    (r"loops over the leading axis of xs, but", "scan got value with no leading axis to scan over."),
    (
        r"numbers of steps: (.*), length is (\d+)",
        "scan got `length` argument of {1} which disagrees with leading axis sizes: {0}.",
    ),
    (
        r"^Reverse mode .* needs a bound on the number of its steps",
        "Reverse-mode differentiation does not work for lax.while_loop or lax.fori_loop with dynamic start/stop values.",
    ),
    (
        r"^tangents\[\d+\].* primal",
        "linearized function called on tangent values inconsistent with the original primal values.",
    ),
    (r"'s unroll must be", "`unroll` must be a bool or a positive int."),
    (r"needs at least one branch", "Empty branch sequence."),
    (r"^cond's pred is None", "cond predicate is None."),
    (r"^cond's pred is (<function.*?>) of type", "Pred type must be either boolean or number, got {0}."),
    (r"^cond's pred is (.*?) of type (\w+)", "Pred must be a scalar, got {0} of type <class '{1}'>."),
    (r"^switch's index is '?(.*?)'? of type", "Index type must be an integer, got {0}."),
    (r"no batched argument", "vmap must have at least one non-None value in in_axes or axis_size must be specified."),
    (
        r"asked to batch .* along axis (-?\d+), but it has type ~?\w+\[(.*?)\]",
        "vmap was requested to map its argument along axis {0}, which implies that its rank should be at least {rank}, but is"
        " only {ndim} (its shape is {shape})",
    ),
    (
        r"grad needs a function with a 0-d output.* returned ~?\w+\[(\d+)\]",
        "Gradient only defined for scalar-output functions. Output had shape: ({0},).",
    ),
    (
        r"grad needs a function with (?:a|one) 0-d output",
        "Gradient only defined for scalar-output functions. Output was something else:",
    ),
    (r"cotangent must be a tree like the output", "unexpected tree structure"),
    (r"^cotangent.* has type", "unexpected JAX type (e.g. shape/dtype) of the cotangent"),
    (
        r"(\w+) with holomorphic=True needs complex .* is ~?(\w+)\[",
        "{0} with holomorphic=True requires inputs with complex dtype, but got {1}.",
    ),
    (
        r"(\w+) needs real arguments, but .* is ~?(\w+)\[",
        "{0} requires real-valued inputs (input dtype that is a sub-dtype of np.floating), but got {1}.",
    ),
    (
        r"(\w+) was asked for the derivative .*: integers",
        "{0} requires real- or complex-valued inputs (a sub-dtype of np.inexact).",
    ),
    (
        r"(\w+) needs real floating-point outputs.* returned ~?(\w+)\[",
        "{0} requires real-valued outputs (output dtype that is a sub-dtype of np.floating), but got {1}.",
    ),
    (
        r"has argnums=(.*?), but there is no argument (\d+)",
        "differentiating with respect to argnums={0} requires more positional arguments.",
    ),
    (
        r"^argument (.*?) is (.*?) of type (\w+), which is neither an array",
        "Error interpreting argument to the function as an abstract array. The problematic value is of type <class '{2}'>"
        " and was passed to the function at path {0}: Argument {1} of type <class '{2}'> is not a valid JAX type.",
    ),
    (r" is (.*?) of type (\w+), which is neither an array", "Value {0} of type <class '{1}'> is not a valid JAX type."),
]
WORDS = [(re.compile(pattern, re.DOTALL), words) for pattern, words in _WORDS]


_NAMES = {short: dtype.name for dtype, short in SHORT_NAMES.items()}


def _long(text: str | None) -> str:
    """A dtype, or a type, as JAX spells it: float32[3] for f32[3]."""
    name, bracket, shape = (text or "").partition("[")
    return _NAMES.get(name, name) + bracket + shape


def _ranks(found: re.Match[str]) -> dict[str, Any]:
    """What is said of an axis that an array has not: the rank that it takes, and the array's rank and shape."""
    if "along axis" not in found.re.pattern:
        return {}
    axis, shape = int(found[1]), tuple([int(size) for size in found[2].split(",") if size])
    return {"rank": axis + 1 if axis >= 0 else -axis, "ndim": len(shape), "shape": shape}


def in_jax_words(function: F) -> F:
    """The function, with errors of pullback's that begin as JAX's do."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except (PullbackError, ValueError) as error:
            translate(error)
            raise

    return called  # type: ignore[return-value]


def translate(error: BaseException) -> None:
    """Put JAX's words in front of an error's own, once."""
    text = str(error.args[0]) if error.args else ""
    for pattern, words in WORDS:
        if found := pattern.search(text):
            loop, body, _ = text.partition("'s body")
            what = f"{loop} body " if body else ""
            words = words.format(*map(_long, found.groups()), what=what, **_ranks(found))
            if words not in text:
                error.args = (f"{words}\n\n{text}", *error.args[1:])
            return


def name_leaves(error: BaseException, paths: list[str]) -> None:
    """Call the leaves of a call, which an error has by their numbers, by their paths."""
    text = re.sub(r"args\[(\d+)\]", lambda found: paths[int(found[1])], str(error.args[0]))
    error.args = (text, *error.args[1:])
