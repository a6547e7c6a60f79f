"""Every error that pullback raises of its own: the cause, an example that fails, and the cure.

Each class also derives from the built-in error that NumPy or JAX users would catch.
"""

from __future__ import annotations


class PullbackError(Exception):
    """The base of every error class of this library: `except pb.errors.PullbackError` catches them all."""


class MissingRule(PullbackError, NotImplementedError):
    """A transformation met a primitive that has no rule for it."""


class UnknownRule(PullbackError, TypeError):
    """A primitive was given a rule under a name that no transformation reads: most often a misspelling."""


class ConcretizationError(PullbackError, TypeError):
    """A traced value was asked for a number that it does not have yet."""


class TracerBoolConversionError(ConcretizationError):
    """A traced value was used where Python needs True or False: `if`, `while`, `and`, `or`, `not`, `assert`."""


class TracerIntegerConversionError(ConcretizationError, IndexError):
    """A traced value was used where Python needs an integer: `int(x)`, `range(x)`, a list index, a shape."""


class TracerArrayConversionError(ConcretizationError):
    """A traced value was handed to NumPy, or to `float()`, `complex()`, `.item()`, `.tolist()`."""


class EscapedTracerError(PullbackError, RuntimeError):
    """A traced value was used after the transformation that made it had returned."""


class ShapeError(PullbackError, TypeError, ValueError):
    """Shapes that do not fit together, or that an operation cannot take."""


class DtypeError(PullbackError, TypeError):
    """A dtype that an operation cannot take, or dtypes that do not go together."""


class AxisError(PullbackError, ValueError, IndexError):
    """An axis that an array does not have, or axes that do not go together."""


class GradientError(PullbackError, TypeError):
    """A derivative was asked of, or with respect to, something that has none."""


class StructureError(PullbackError, TypeError, ValueError):
    """Two pytrees that should have the same structure do not."""


class LeafError(PullbackError, TypeError):
    """A pytree holds something that is neither an array nor a number, nor a container that pullback knows."""


class StaticArgumentError(PullbackError, TypeError, ValueError):
    """A static argument of `jit` cannot serve as a cache key, or does not exist."""


class DonatedBufferError(PullbackError, RuntimeError):
    """An array was used after its memory had been given to a compiled function."""


class DeviceError(PullbackError, ValueError):
    """A device or platform that does not exist, or arrays on different devices in one computation."""


class ProgramError(PullbackError, ValueError):
    """A Program, or the text of one, breaks a rule of the IR."""


class UnsupportedJaxlib(PullbackError, ImportError):
    """The jaxlib that is installed is missing, or does not do what this version of pullback was tested against."""
