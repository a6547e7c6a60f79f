"""Who asks for an operation: the user, or a function of ours that is made of several.

Some modes say what operands may do to each other (`promotion`, `rank_promotion`). They speak of what users write; what a
function of ours mixes inside is its own affair. So where an operation is about to be refused, and only there, the frames say
whose it is.
"""

from __future__ import annotations

import functools
import os
import sys
from types import CodeType, FrameType

from pullback.core.namespaces import homes_of_names
from pullback.core.source import PACKAGE, innermost, is_users

# Frames that stand between an operation and whoever asks for it: packages that run functions on somebody's behalf, and the
# files behind operators, methods and fast paths.
_PASSING = (
    *[
        os.path.join(PACKAGE, name) + os.sep
        for name in ("api", "compat", "control", "core", "engine", "ops", "program", "transforms")
    ],
    os.path.join(PACKAGE, "tree.py"),
    *[os.path.join(PACKAGE, "numpy", name) for name in ("attached.py", "eager.py", "factories.py", "methods.py")],
)
# Functions of ours that hand the user's operands on as they are to another one, in which those meet: qualified names.
_FORWARDING = frozenset({
    "allclose", "append", "array_equal", "clip", "diff", "digitize", "multi_dot", "solve", "ufunc.__call__",
    "ufunc.outer", "vectorize.<locals>.vectorized", "vectorize.<locals>.vectorized.<locals>.call",
})  # fmt: skip


def asked_by_user() -> bool:
    """Whether the innermost public function that is running was called by the user, not by another function of ours."""
    public = _codes(len(sys.modules))
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code not in public and not is_users(frame):
        frame = frame.f_back
    while frame is not None and not is_users(frame):
        frame = frame.f_back
        if frame is None or is_users(frame):
            break
        code = frame.f_code
        if code.co_qualname not in _FORWARDING and not code.co_filename.startswith(_PASSING):
            return False
    return True


@functools.lru_cache(1)
def _codes(loaded: int) -> frozenset[CodeType]:
    """The codes of the public functions, when this many modules are loaded."""
    found = set()
    for name, home in homes_of_names():
        value = innermost(vars(sys.modules[home]).get(name)) if home in sys.modules else None
        if isinstance(code := getattr(value, "__code__", None), CodeType):
            found.add(code)
    return frozenset(found)
