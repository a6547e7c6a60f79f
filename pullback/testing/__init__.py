"""Checks of rules and derivatives: for the library's own operations, and for yours.

`check_primitive` tries a primitive's rules against each other on its samples; `check_gradients` and `check_transforms` try a
function; `assert_program` looks at the operations that a function consists of. Each raises `CheckFailure`, which says what
disagrees with what.
"""

from pullback.core.source import make_public
from pullback.testing.functions import check_gradients, check_transforms
from pullback.testing.primitives import all_primitives, check_primitive
from pullback.testing.programs import assert_program
from pullback.testing.values import CheckFailure

__all__ = ["CheckFailure", "all_primitives", "assert_program", "check_gradients", "check_primitive", "check_transforms"]

make_public(globals())
