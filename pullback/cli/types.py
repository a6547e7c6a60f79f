"""Argument types as they are written on the command line.

    type  = array | "(" types ")" | "[" types "]" | "{" names "}"
    array = ["~"] dtype "[" [size {"," size}] "]"       f32[64,10]   i32[]   key<fry>[]   ~f32[]: a Python float
    types = [type {"," type} [","]]                     (f32[2], f32[3])   a tuple, (f32[2],) too; in brackets, a list
    names = [name ":" type {"," name ":" type} [","]]   {w: f32[3], b: f32[]}   a dict

A dtype goes by the short name with which Programs print it. Where a list begins, `[`, and an array's sizes begin cannot be
confused: sizes follow a dtype.
"""

from __future__ import annotations

import ast
import re
from typing import Any

import pullback as pb
from pullback.cli.terminal import UsageError, suggestion
from pullback.core.dtypes import BY_SHORT_NAME
from pullback.core.types import ArrayType


def parse_type(text: str, mesh: Any = None) -> Any:
    """The type that a text says: an `ArrayType`, or a tuple, list or dict of types.

    Arguments:
        text: one argument's type, such as `f32[64,10]` or `{w: f32[3], b: f32[]}`.
        mesh: where arrays may be divided, as in `f32[64,10]@(data,·)`, the mesh that has these axes.

    Returns:
        A pytree with an `ArrayType` for each array.

    Raises:
        UsageError: the text breaks the grammar; the message says where, and what belongs there.

    Example:
        >>> parse_type("f32[2,3]")
        f32[2,3]
        >>> parse_type("{w: f32[3], b: (i32[], ~f32[])}"), parse_type("key<fry>[2]")
        ({'w': f32[3], 'b': (i32[], ~f32[])}, key<fry>[2])
    """
    named = re.sub(r"\bkey<(\w+)>", r"key_of_\1", text)
    written = re.sub(r"(\w)\s*\[\s*\]", r"\1[()]", named).strip().replace("·", "_")  # so that it is an expression of Python's
    try:
        return _type_of(ast.parse(written, mode="eval").body, mesh)
    except SyntaxError as error:
        raise UsageError(f"type {text!r} cannot be read: {error.msg}. Quote each type by itself. {_LOOK}") from None
    except _NoType as wrong:
        found, hint = wrong.args
        part = re.sub(r"\bkey_of_(\w+)", r"key<\1>", ast.unparse(found).replace("[()]", "[]"))
        raise UsageError(f"type {text!r}: {part!r} is no type.{hint or ' ' + _LOOK}") from None


_LOOK = "Types look like f32[64,10], i32[], key<fry>[], (f32[2], f32[3]), {w: f32[3], b: f32[]}."


class _NoType(Exception):
    """A part of what was given as a type is none: the part, and a hint."""


def _type_of(node: ast.expr, mesh: Any = None) -> Any:
    """The type that an expression stands for."""
    match node:
        case ast.Tuple(items):
            return tuple([_type_of(item, mesh) for item in items])
        case ast.List(items):
            return [_type_of(item, mesh) for item in items]
        case ast.Dict(keys, values) if all(isinstance(key, ast.Name) for key in keys):
            return {key.id: _type_of(value, mesh) for key, value in zip(keys, values)}  # type: ignore[union-attr]
        case ast.BinOp(ast.Subscript() as array, ast.MatMult(), spec) if mesh is not None:
            found = _type_of(array)
            entries = [_entry_of(entry) for entry in (spec.elts if isinstance(spec, ast.Tuple) else [spec])]
            sharding = pb.NamedSharding(mesh, pb.P(*entries))
            sharding.shard_shape(found.shape)
            return found.placed(sharding, found.varying)
        case ast.UnaryOp(ast.Invert(), ast.Subscript() as array):
            return ArrayType((found := _type_of(array)).shape, found.dtype, weak=True)
        case ast.Subscript(ast.Name(name), sizes) if (dtype := BY_SHORT_NAME.get(_short_name(name))) is not None:
            found = [size.value if isinstance(size, ast.Constant) else None for size in getattr(sizes, "elts", [sizes])]
            if all(type(size) is int for size in found):
                return ArrayType(found, dtype)
        case ast.Subscript(ast.Name(name) as array) if _short_name(name) not in BY_SHORT_NAME:
            raise _NoType(array, suggestion(_short_name(name), BY_SHORT_NAME))
        case ast.Name(name) if (short := _short_name(name)) in BY_SHORT_NAME:
            raise _NoType(node, f" A single {'key' if short.startswith('key') else 'number'} is {short}[].")
    raise _NoType(node, "")


def _short_name(name: str) -> str:
    """The short name of a dtype that a name in an expression stands for: `key<fry>` for `key_of_fry`."""
    return re.sub(r"^key_of_(\w+)$", r"key<\1>", name)


def _entry_of(node: ast.expr) -> Any:
    """How an axis is divided: the name of a mesh axis, a tuple of names, or None for the whole."""
    match node:
        case ast.Name("_") | ast.Constant(None):
            return None
        case ast.Name(name):
            return name
        case ast.Tuple(items) if all(isinstance(item, ast.Name) for item in items):
            return tuple([item.id for item in items])  # type: ignore[attr-defined]
    raise _NoType(node, " Behind @ stand names of mesh axes, as in @data, @(data,·) or @((data,model),·).")
