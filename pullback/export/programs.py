"""Programs that go along with exported functions, as JSON, so that transformations work where these are loaded."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import pullback.control
import pullback.ops
from pullback.core.errors import ExportError, ProgramError
from pullback.core.primitive import Primitive
from pullback.program.program import Program, programs_in


def primitives() -> dict[str, Primitive]:
    """The operations that pullback's own functions consist of: those that compute, and those that hold Programs.

    Returns:
        A dict of Primitives by name, such as `pullback.program.program.Program.from_json` takes.

    Example:
        >>> import pullback as pb
        >>> known = pb.export.primitives()
        >>> known["sin"].name, "scan" in known
        ('sin', True)
        >>> program = pb.xpr(lambda x: pb.lax.scan(lambda c, y: (c + y, c), 0.0, x), pb.ArrayType((3,), "float32"))
        >>> type(program).from_json(program.to_json(), known) == program
        True
    """
    found: dict[str, Primitive] = {}
    for package in (pullback.ops, pullback.control):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            members = vars(importlib.import_module(module.name)).values()
            found.update({member.name: member for member in members if isinstance(member, Primitive)})
    return found


def program_data(program: Program | None, name: str, on_mesh: bool) -> bytes:
    """The Program of an exported function as bytes.

    Raises:
        ExportError: there is none, or it holds what cannot be written, or what would be unknown where it is read.
    """
    cannot = f"The Program of {name} cannot go along (serialize(program=True)): "
    if program is None:
        raise ExportError(cannot + ("it computes on a mesh." if on_mesh else "it was itself read from bytes without one."))
    known = primitives()
    for primitive in _applied(program):
        if known.get(primitive.name) is not primitive:
            raise ExportError(f"{cannot}its operation {primitive.name} is not among pb.export.primitives().")
    try:
        return program.to_json().encode()
    except ProgramError as error:
        raise ExportError(f"{cannot}{error}") from None


def _applied(program: Program) -> Iterator[Primitive]:
    """The operations in a Program and in those that it holds."""
    for equation in program.equations:
        yield equation.primitive
        for held in programs_in(equation.params):
            yield from _applied(held)


def program_of_data(data: bytes) -> Program:
    """The Program that `program_data` made bytes of.

    Raises:
        ExportError: it is of a version, or has operations, that this pullback does not know.
    """
    try:
        return Program.from_json(data.decode(), primitives())
    except ProgramError as error:
        raise ExportError(f"The Program that goes along with this function cannot be read here: {error}") from error
