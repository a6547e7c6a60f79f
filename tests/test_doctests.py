"""The examples in docstrings run, and print what they say; and every public function, class and method has one."""

from __future__ import annotations

import doctest
import functools
import importlib
import inspect
import operator
import pkgutil
import re
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pullback as pb
from pullback.analysis.costs import CostRow, CostTable
from pullback.analysis.memory import Donated, MemoryTable, Value
from pullback.analysis.profile import Profile, ProfileRow
from pullback.api.compiled import Jitted
from pullback.api.derivatives import JvpFunction, VjpFunction
from pullback.api.memory import Residual, Residuals
from pullback.api.stages import Compiled, Lowered, Traced
from pullback.checkpoints.saving import Saving
from pullback.compat import nabla
from pullback.compat.jax.facade import end_habits
from pullback.core.array import Array
from pullback.numpy.dtypes import ArrayNamespaceInfo
from pullback.numpy.updates import Place, Updater
from pullback.program.difference import DiffRow, ProgramDiff

SKIPPED = {"pullback.__main__", "pullback.core.errors"}  # the command itself; tests/core/test_errors.py runs those of errors
MODULES = [info.name for info in pkgutil.walk_packages(pb.__path__, "pullback.") if info.name not in SKIPPED]
end_habits()  # of JAX, which the walk has begun
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
# What examples take for granted, as the docstring of pullback.numpy says.
NAMES = {"__name__": "__main__", "pb": pb, "pnp": pb.numpy, "np": np, "lax": pb.lax, "nn": pb.nn, "tree": pb.tree}

NUMBER = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+)(?:e[-+]?\d+)?")


class Checker(doctest.OutputChecker):
    """Takes floating-point numbers that are equal to 5 digits as equal: the last ones depend on the processor."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        wanted, found = ([float(number) for number in NUMBER.findall(text)] for text in (want, got))
        same = len(wanted) == len(found) and np.allclose(wanted, found, rtol=1e-5, atol=0)
        return same and super().check_output(
            *[re.sub(r"\s", "", NUMBER.sub("#", text)) + "\n" for text in (want, got)], optionflags
        )


def run(test: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(Checker(), optionflags=OPTIONS)
    failures, _ = runner.run(test)
    assert not failures, f"{failures} examples of {test.name} fail; see the captured output"


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name: str) -> None:
    """Those of everything that is written in a module, public or not."""
    for test in doctest.DocTestFinder().find(importlib.import_module(name), extraglobs=NAMES):
        run(test)


# What public functions return, and where Arrays have their methods.
RETURNED = {
    "Array": Array, "numpy.Updater": Updater, "numpy.Place": Place, "numpy.ArrayNamespaceInfo": ArrayNamespaceInfo,
    "Jitted": Jitted, "Traced": Traced, "Lowered": Lowered, "Compiled": Compiled, "VjpFunction": VjpFunction,
    "JvpFunction": JvpFunction,
    "Residual": Residual, "Residuals": Residuals, "Saving": Saving, "CostTable": CostTable, "CostRow": CostRow,
    "MemoryTable": MemoryTable, "Value": Value, "Donated": Donated, "Profile": Profile, "ProfileRow": ProfileRow,
    "ProgramDiff": ProgramDiff, "DiffRow": DiffRow,
}  # fmt: skip
RAISES_NOTHING = {
    "numpy.isscalar", "numpy.iterable", "is_unknown", "debug.breakpoint", "tree.flatten", "tree.leaves", "tree.structure",
    "tree.all", "tree.flatten_with_path", "tree.leaves_with_path", "named_scope", "register_platform",
}  # fmt: skip


def is_ours(found: Any) -> bool:
    return (getattr(found, "__module__", None) or "").startswith("pullback") and (
        inspect.isfunction(found) or inspect.isclass(found) or isinstance(found, functools.partial)
    )


def public() -> Iterator[tuple[str, Any]]:
    """Everything public that is ours: functions, classes, and the methods and properties of these, each once."""
    rooms = [name for name in pb.__all__ if isinstance(getattr(pb, name), types.ModuleType)]
    names = [(f"{room}.{name}", getattr(getattr(pb, room), name)) for room in rooms for name in getattr(pb, room).__all__]
    seen: set[int] = set()
    for name, found in [*RETURNED.items(), *names, *[(name, getattr(pb, name)) for name in pb.__all__]]:
        if is_ours(found) and id(found) not in seen:
            seen.add(id(found))
            yield name, found
            members = vars(found) if name == "checkpoint" else ()  # pb.checkpoint.save and its like
            for member in dir(found) if inspect.isclass(found) else members:
                method = inspect.getattr_static(found, member, None)
                method = method.fget if isinstance(method, property) else getattr(method, "__func__", method)
                if not member.startswith("_") and is_ours(method) and id(method) not in seen:
                    seen.add(id(method))
                    yield f"{name}.{member}", method


PUBLIC = dict(public())


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_has_an_example_that_runs(name: str) -> None:
    text = inspect.getdoc(PUBLIC[name]) or ""
    assert ">>> " in text, f"{name} has no example"
    run(doctest.DocTestParser().get_doctest(text, dict(NAMES), name, None, None))


def sections(text: str) -> dict[str, str]:
    """The parts of a docstring by their headings: Arguments, Returns, Raises, Example."""
    parts = re.split(r"^(\w+):$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def test_what_bears_names_of_nabla_has_an_example() -> None:
    """Those that are not pullback's own under another name; the test of modules runs them."""
    own = [getattr(nabla, name) for name in nabla.__all__ if is_ours(getattr(nabla, name))]
    assert not [found.__name__ for found in own if ">>> " not in (found.__doc__ or "")]


FUNCTIONS = [name for name, found in PUBLIC.items() if inspect.isfunction(found)]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_docstring_says_what_goes_in_and_what_comes_out(name: str) -> None:
    function = PUBLIC[name]
    parts = sections(inspect.getdoc(function) or "")
    signature = inspect.signature(function)
    is_method = inspect.isclass(PUBLIC.get(name.rpartition(".")[0]))
    parameters = [each for each in signature.parameters if not (is_method and each in ("self", "cls"))]
    unnamed = [each for each in parameters if not re.search(rf"\b{each}\b", parts.get("Arguments", ""))]
    assert not unnamed, f"{name} does not say what {', '.join(unnamed)} may be"
    if signature.return_annotation not in ("None", None) and not is_method:
        assert "Returns" in parts, f"{name} does not say what it returns"
    if parameters and not is_method and name not in RAISES_NOTHING:
        assert "Raises" in parts, f"{name} does not say what it raises"


# ---- what docstrings say is raised ------------------------------------------------------------------------------------

OPERANDS = {
    "x",
    "y",
    "a",
    "b",
    "x1",
    "x2",
    "a1",
    "a2",
    "m",
    "v",
    "z",
    "array",
    "ary",
    "arr",
    "operand",
    "lhs",
    "rhs",
    "element",
}
OPERANDS |= {"test_elements"}


def operands(name: str) -> int:
    """How many arrays a function takes, if it needs nothing else; 0 if it does, or is a method."""
    required = [each for each in inspect.signature(PUBLIC[name]).parameters.values() if each.default is each.empty]
    return len(required) if all(each.name in OPERANDS and each.kind <= each.POSITIONAL_OR_KEYWORD for each in required) else 0


def raised_by(name: str, *args: Any, **kwargs: Any) -> str:
    """What a call raises, which the docstring must name."""
    function = operator.attrgetter(name)(pb)
    with pytest.raises(Exception) as raised:
        function(*args, **kwargs)
    error = type(raised.value).__name__
    stated = sections(inspect.getdoc(function) or "")["Raises"]
    assert error in stated, f"{name} does not say that it raises {raised.value!r}"
    return error


OF_ARRAYS = [
    name for name in FUNCTIONS if re.match("(numpy|lax|nn)[.]", name) and operands(name) and name not in RAISES_NOTHING
]


def documented(name: str) -> str:
    """The section on what a function raises."""
    return sections(inspect.getdoc(PUBLIC[name]) or "").get("Raises", "")


def saying(words: str, count: int = 1) -> list[str]:
    return [name for name in OF_ARRAYS if words in documented(name) and operands(name) >= count]


@pytest.mark.parametrize("name", OF_ARRAYS)
def test_what_is_no_array_is_refused(name: str) -> None:
    raised_by(name, *[object()] * operands(name))


@pytest.mark.parametrize("name", saying("is complex."))
def test_complex_numbers_are_refused_where_docstrings_say_so(name: str) -> None:
    assert raised_by(name, *[pb.numpy.array([1j, 2j])] * operands(name)) == "DtypeError"


@pytest.mark.parametrize("name", saying("shapes do not broadcast", 2))
def test_shapes_that_do_not_broadcast_are_refused(name: str) -> None:
    assert raised_by(name, pb.numpy.zeros(2), pb.numpy.zeros(3)) == "ShapeError"


@pytest.mark.parametrize("name", saying("dtypes have no common one", 2))
def test_dtypes_without_a_common_one_are_refused(name: str) -> None:
    assert raised_by(name, pb.numpy.zeros(3, "float8_e4m3fn"), pb.numpy.zeros(3)) == "DtypeError"


def of(*shape: int, dtype: Any = "float32") -> Any:
    return pb.numpy.zeros(shape, dtype)


ROWS = pb.lax.GatherDimensionNumbers((), (0,), (0,))
CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("numpy.sum", (of(2), 1), {}),
    ("numpy.sum", (of(2),), {"where": np.ones(3, bool)}),
    ("numpy.max", (of(0),), {}),
    ("numpy.max", (of(2),), {"where": np.ones(2, bool)}),
    ("numpy.argmin", (of(0),), {}),
    ("numpy.argmax", (of(2), 3), {}),
    ("numpy.mean", (of(2, dtype="complex64"),), {"dtype": "float32"}),
    ("numpy.var", (of(2),), {"ddof": 1, "correction": 1}),
    ("numpy.ptp", (of(2, dtype=bool),), {}),
    ("numpy.average", (of(2, 3),), {"weights": of(2)}),
    ("numpy.array", ([[1], [1, 2]],), {}),
    ("numpy.array", (1j, "float32"), {}),
    ("numpy.array", ([2**40], "int32"), {}),
    ("numpy.asarray", (np.zeros(2),), {"copy": False}),
    ("numpy.from_dlpack", (3,), {}),
    ("numpy.full", (-1, 0), {}),
    ("numpy.full", (2, of(3)), {}),
    ("numpy.zeros", (-1,), {}),
    ("numpy.ones", (2,), {"device": "gpu:7"}),
    ("numpy.zeros_like", (of(2),), {"shape": (-1,)}),
    ("numpy.arange", (2**31 - 1, 2**31 + 1), {}),
    ("numpy.linspace", (0, 1, -1), {}),
    ("numpy.eye", (-1,), {}),
    ("numpy.tril", (of(2),), {}),
    ("numpy.diag", (of(1, 1, 1),), {}),
    ("numpy.diagonal", (of(2, 2), 0, 1, 1), {}),
    ("numpy.meshgrid", (of(2),), {"indexing": "ji"}),
    ("numpy.copy", (of(2), "F"), {}),
    ("numpy.reshape", (of(4), 3), {}),
    ("numpy.reshape", (of(4), 4, "A"), {}),
    ("numpy.transpose", (of(2, 2), (0, 0)), {}),
    ("numpy.matrix_transpose", (of(2),), {}),
    ("numpy.moveaxis", (of(2, 2), (0, 1), 0), {}),
    ("numpy.swapaxes", (of(2), 0, 1), {}),
    ("numpy.rollaxis", (of(2), 1), {}),
    ("numpy.expand_dims", (of(2), (0, 0)), {}),
    ("numpy.squeeze", (of(2), 0), {}),
    ("numpy.broadcast_to", (of(2), 3), {}),
    ("numpy.concatenate", ([of(2, 1), of(3, 2)],), {}),
    ("numpy.concatenate", ([of()],), {}),
    ("numpy.concatenate", ([of(2)], 1), {}),
    ("numpy.stack", ([of(2), of(3)],), {}),
    ("numpy.vstack", ([of(2), of(3)],), {}),
    ("numpy.column_stack", ([of(2), of(3)],), {}),
    ("numpy.split", (of(5), 2), {}),
    ("numpy.split", (of(5), [0.5]), {}),
    ("numpy.array_split", (of(5), 0), {}),
    ("numpy.repeat", (of(5), [1, 2]), {}),
    ("numpy.repeat", (of(5), -1), {}),
    ("numpy.roll", (of(5), 0.5), {}),
    ("numpy.roll", (of(5, 5), (1, 2, 3), (0, 1)), {}),
    ("numpy.rot90", (of(2, 2), 1, (0, 0)), {}),
    ("numpy.matmul", (of(2), of()), {}),
    ("numpy.dot", (of(2), of(3)), {}),
    ("numpy.dot", (of(2), of(2)), {"precision": "nonsense"}),
    ("numpy.inner", (of(2), of(3)), {}),
    ("numpy.tensordot", (of(2), of(3), 1), {}),
    ("numpy.cross", (of(4), of(4)), {}),
    ("numpy.trace", (of(4),), {}),
    ("numpy.einsum", ("ij", of(2)), {}),
    ("numpy.einsum", (3, of(2)), {}),
    ("numpy.einsum", ("i,i,i", of(2), of(2), of(2)), {"optimize": "nonsense"}),
    ("numpy.pad", (of(2), -1), {}),
    ("numpy.pad", (of(0), 1, "edge"), {}),
    ("numpy.pad", (of(2), 1, "nonsense"), {}),
    ("numpy.take", (of(2), 0.5), {}),
    ("numpy.take", (of(2), 0, 1), {}),
    ("numpy.take", (of(2), 0), {"mode": "nonsense"}),
    ("numpy.take_along_axis", (of(2), of(1, 1, dtype=int)), {}),
    ("numpy.compress", ([[True]], of(2)), {}),
    ("numpy.result_type", ("float8_e4m3fn", "float32"), {}),
    ("numpy.can_cast", ("nonsense", "float32"), {}),
    ("numpy.finfo", ("int32",), {}),
    ("numpy.iinfo", ("float32",), {}),
    ("numpy.where", (True,), {}),
    ("numpy.nan_to_num", (1.0, False), {}),
    ("numpy.select", ([], []), {}),
    ("lax.add", (of(2), of(3)), {}),
    ("lax.add", (of(2), of(2, dtype=int)), {}),
    ("lax.sin", (1,), {}),
    ("lax.integer_pow", (pb.numpy.array([2]), -1), {}),
    ("lax.round", (1.0, "nonsense"), {}),
    ("lax.select", (1, 1.0, 2.0), {}),
    ("lax.select_n", (0, of(2), of(2, dtype=int)), {}),
    ("lax.clamp", (of(3), of(2), 1.0), {}),
    ("lax.reshape", (of(4), (-1,)), {}),
    ("lax.transpose", (of(2, 2), (0, 0)), {}),
    ("lax.squeeze", (of(2), (0,)), {}),
    ("lax.concatenate", ([of(2), of(2, dtype=int)], 0), {}),
    ("lax.concatenate", ([of(2)], 3), {}),
    ("lax.broadcast", (of(2), (-1,)), {}),
    ("lax.broadcast_in_dim", (of(2), (3, 3), (0,)), {}),
    ("lax.convert_element_type", (1, "nonsense"), {}),
    ("lax.bitcast_convert_type", (of(2, dtype=bool), "int8"), {}),
    ("lax.iota", (bool, 2), {}),
    ("lax.broadcasted_iota", ("int32", (2,), 3), {}),
    ("lax.pad", (of(2), 0, [(-3, 0, 0)]), {}),
    ("lax.rev", (of(2), (1,)), {}),
    ("lax.slice", (of(2), (0,), (3,)), {}),
    ("lax.slice_in_dim", (of(2), 0, 1, 0), {}),
    ("lax.index_in_dim", (of(2), 5), {}),
    ("lax.dynamic_slice", (of(2), (0.5,), (1,)), {}),
    ("lax.dynamic_slice", (of(2), (0,), (3,)), {}),
    ("lax.dynamic_update_slice", (of(2), of(1, dtype=int), (0,)), {}),
    ("lax.dynamic_update_index_in_dim", (of(2, 2), of(3), 0, 0), {}),
    ("lax.dot_general", (of(2), of(3), (((0,), (0,)), ((), ()))), {}),
    ("lax.dot", (of(2, 2, 2), of(2)), {}),
    ("lax.batch_matmul", (of(2, 2, 2), of(3, 2, 2)), {}),
    ("lax.gather", (of(2), of(1, 1), ROWS, (1,)), {}),
    ("lax.gather", (of(2), of(1, 1, dtype=int), ROWS, (3,)), {}),
    ("lax.argmax", (of(300), 0, "int8"), {}),
    ("lax.argmin", (of(0), 0, "int32"), {}),
    ("lax.reduce_sum", (of(2), (-1,)), {}),
    ("lax.reduce_and", (of(2), (0,)), {}),
    ("lax.psum", (of(2), "nobody"), {}),
    ("lax.axis_index", ("nobody",), {}),
    ("lax.ppermute", (of(2), ("i", "j"), []), {}),
    ("nn.softmax", (of(2), 5), {}),
    ("nn.logsumexp", (of(2),), {"b": of(3)}),
    ("nn.gelu", (1j,), {}),
    ("nn.one_hot", (1, 2), {"axis": 7}),
    ("tree.unflatten", (3, [1]), {}),
    ("tree.map", (abs, [1], (1,)), {}),
    ("tree.transpose", (3, 3, []), {}),
    ("tree.reduce", (max, []), {}),
    ("vjp", (lambda x: "a", 1.0), {}),
    ("linearize", (lambda x: x, 1.0), {"has_aux": True}),
    ("hvp", (lambda x: x, (of(3),), (of(3),)), {}),
    ("xpr", (lambda x: x, "a"), {}),
    ("device_count", ("nowhere",), {}),
    ("debug.callback", (3,), {}),
]  # fmt: skip


@pytest.mark.parametrize("name, args, kwargs", CALLS, ids=[f"{i}-{call[0]}" for i, call in enumerate(CALLS)])
def test_an_error_is_one_that_the_docstring_names(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    raised_by(name, *args, **kwargs)
