"""What can be done with arrays, known or traced: operators, methods, protocols. Their signatures are in `methods.pyi`."""

from __future__ import annotations


class ArrayMethods:
    """The base of Arrays and of traced values. `pullback.numpy.methods` fills it, so that `core` needs no operation."""

    __slots__ = ()
