"""How the public functions are listed for the tests that are made from the lists: `table_*.py`, each with a dict `TABLE`.

    TABLE = {
        "numpy.sort": entry(np.sort, case(A), case(A, axis=0), dtypes=REAL, wrt=(0,)),
        "numpy.linalg.inv": entry(np.linalg.inv, case(SQUARE), case(np.zeros((0, 3, 3))), dtypes=INEXACT, wrt=(0,)),
    }

`test_surface.py` makes from each entry: the value in each dtype against the reference, and its dtype; compiled against eager;
batched against a loop; first and second derivatives in both modes against finite differences and each other; whether the result
is weak where the operands are; and that a senseless value of any argument is refused. A public function of a namespace is in a
table, or in `ELSEWHERE = {"numpy.save": "tests/numpy/test_files.py"}` of one, with the file of its tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

FLOATS = ("float32", "float64")
NARROW = ("float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "int32", "int64", "uint8", "uint32")
INEXACT = (*FLOATS, *COMPLEX)
REAL = ("bool", *INTEGERS, *NARROW, *FLOATS)


class Case(NamedTuple):
    """The arguments of one call. NumPy arrays of floating-point numbers among them are converted to each dtype of the entry."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def case(*args: Any, **kwargs: Any) -> Case:
    return Case(args, kwargs)


class Entry(NamedTuple):
    """What is known of a function.

    Attributes:
        reference: what it is compared with, called with the same arguments, floating-point arrays in double precision; and
            in their own dtype, for the dtype of the result. None: `why` says where else its values are tested.
        dtypes: those of the floating-point arguments, each tried.
        wrt: the positional arguments that are differentiated; () where there is no derivative.
        order: up to which order. modes: "fwd" and "rev".
        weak: whether the result is weak where all inexact operands are.
        same_dtype: whether the dtype of the result is the reference's (64-bit results of 32-bit operands counted as 32-bit).
        rtol: relative tolerances by dtype name, where the usual ones do not do.
        jit, vmap: whether it can be compiled as a function of its arrays, and batched.
        anything: arguments of which any value makes sense (positions or names), or that are only tested for truth.
    """

    reference: Callable[..., Any] | None
    cases: tuple[Case, ...]
    dtypes: tuple[str, ...] = ("float32", "float64")
    wrt: tuple[int, ...] = ()
    order: int = 2
    modes: tuple[str, ...] = ("fwd", "rev")
    weak: bool = False
    same_dtype: bool = True
    rtol: dict[str, float] | None = None
    jit: bool = True
    vmap: bool = True
    anything: tuple[int | str, ...] = ()
    why: str = ""


def entry(reference: Callable[..., Any] | None, *cases: Case, **options: Any) -> Entry:
    assert cases and (reference is not None or options.get("why")), "an entry needs a case and a reference"
    return Entry(reference, cases, **options)
