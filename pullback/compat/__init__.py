"""Names of other libraries over pullback, for programs that were written for those."""

from pullback.compat import nabla

__all__ = ["nabla"]


def __dir__() -> list[str]:
    return sorted(__all__)
