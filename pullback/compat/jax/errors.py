"""jax.errors: pullback's errors by the names of JAX's."""

from __future__ import annotations

from pullback.compat.jax.facade import facade
from pullback.core.errors import ConcretizationError, EscapedTracerError, ProgramError
from pullback.engine.jaxlib import runtime_error

ConcretizationTypeError = ConcretizationError
UnexpectedTracerError = EscapedTracerError
JaxRuntimeError = runtime_error()
JAXTypeError, JAXIndexError = TypeError, IndexError  # what JAX derives its own from: with these, ours are caught too


class InconclusiveDimensionOperation(Exception):
    """An operation on a symbolic dimension has no answer: never raised, since there are no symbolic dimensions here."""


class JaxprTypeError(ProgramError, TypeError):
    """A jaxpr breaks a rule of the language."""


_SHARED = "KeyReuseError NonConcreteBooleanIndexError TracerArrayConversionError TracerBoolConversionError"
__all__ = [
    "ConcretizationTypeError", "InconclusiveDimensionOperation", "JAXIndexError", "JAXTypeError", "JaxRuntimeError",
    "JaxprTypeError", "UnexpectedTracerError",
]  # fmt: skip

facade(globals(), own={"pullback.core.errors": f"{_SHARED} TracerIntegerConversionError"})
