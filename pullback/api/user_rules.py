"""Users' rules as the flat rules that `custom_function` holds: trees put together for them, and what they return held
against what it must be."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pullback.api.functions import Function, trees_of
from pullback.api.tangents import tree_in_brief
from pullback.control.custom_rules import About, CustomRules
from pullback.core.brief import brief, counted
from pullback.core.dtypes import float0, kind
from pullback.core.errors import DtypeError, LeafError, ShapeError, StructureError
from pullback.core.source import calls_rule, describe
from pullback.core.tracing import is_float0, type_of
from pullback.core.trees import (
    LEAF,
    OUT_OF_RESULTS,
    TreeDef,
    array_leaf,
    check_like,
    kind_of,
    leaf_for_any_part,
    none_for_anything,
    none_for_leaf,
    same,
    structure_paths,
    unflatten,
)
from pullback.core.types import ArrayType, trivial_type
from pullback.core.zero import ZERO, zeros
from pullback.ops.arithmetic import add
from pullback.ops.convert import convert_element_type
from pullback.program.equality import Keyed, param_key
from pullback.program.provenance import own_rule


class SymbolicZero:
    """A tangent or cotangent that is known to be zero, as rules with `symbolic_zeros=True` get it, and may return it.

    Arguments:
        shape: the tangent's shape; or what has a shape and a dtype, an `ArrayType` say, which is all that is needed.
        dtype: its dtype.

    Attributes:
        shape, dtype: those of the tangent; the dtype is `float0` for an integer's.

    Example:
        >>> import pullback as pb
        >>> pb.SymbolicZero((3,), "float32")
        SymbolicZero(f32[3])
        >>> pb.SymbolicZero((3,), "float32").instantiate()
        [0. 0. 0.]:f32[3]:cpu(0)
    """

    __slots__ = ("type",)

    def __init__(self, shape: Any, dtype: Any = None) -> None:
        whole = hasattr(shape, "shape") and hasattr(shape, "dtype")
        if whole != (dtype is None):
            raise TypeError(
                f"SymbolicZero takes an ArrayType, or a shape and a dtype, but got {brief(shape)} and {brief(dtype)}."
            )
        if isinstance(shape, ArrayType):
            self.type = shape.strong()
        else:
            shape, dtype = (shape.shape, shape.dtype) if whole else (shape, dtype)
            self.type = trivial_type(shape) if dtype == float0 else ArrayType(shape, dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tangent.

        Example:
            >>> import pullback as pb
            >>> pb.SymbolicZero((3,), "float32").shape
            (3,)
        """
        return self.type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the tangent: float0, if the value has no derivative.

        Example:
            >>> import pullback as pb
            >>> pb.SymbolicZero((3,), "float32").dtype, pb.SymbolicZero((3,), "int32").dtype == pb.float0
            (dtype('float32'), True)
        """
        return self.type.dtype if kind(self.type.dtype) in "fc" else float0

    @property
    def ndim(self) -> int:
        """How many axes the tangent has.

        Example:
            >>> import pullback as pb
            >>> pb.SymbolicZero((3,), "float32").ndim
            1
        """
        return self.type.ndim

    @property
    def size(self) -> int:
        """How many elements the tangent has.

        Example:
            >>> import pullback as pb
            >>> pb.SymbolicZero((3,), "float32").size
            3
        """
        return self.type.size

    def instantiate(self) -> Any:
        """Real zeros.

        Returns:
            An array; of dtype float0 where the value has no derivative.

        Example:
            >>> import pullback as pb
            >>> pb.SymbolicZero((3,), "float32").instantiate()
            [0. 0. 0.]:f32[3]:cpu(0)
        """
        return _real_zeros(self.type)

    def __repr__(self) -> str:
        return f"SymbolicZero({self.type})"


class CustomVJPPrimal:
    """What the first half of a vjp rule with `symbolic_zeros=True` gets in place of each array.

    Attributes:
        value: the array. perturbed: whether the function is being differentiated with respect to it.

    Example:
        >>> import pullback as pb
        >>> @pb.custom_vjp
        ... def f(x, y):
        ...     return x * y
        >>> def fwd(x, y):
        ...     print(x.perturbed, y.perturbed)
        ...     return x.value * y.value, y.value
        >>> f.defvjp(fwd, lambda y, cotangent: (cotangent * y, None), symbolic_zeros=True)
        >>> pb.grad(f)(2.0, 3.0)
        True False
        3.0:f32[]:cpu(0)
    """

    __slots__ = ("perturbed", "value")

    def __init__(self, value: Any, perturbed: bool) -> None:
        self.value = value
        self.perturbed = perturbed

    def __repr__(self) -> str:
        return f"CustomVJPPrimal({self.value!r}, perturbed={self.perturbed})"


def _real_zeros(type: ArrayType) -> Any:
    return zeros(type) if kind(type.dtype) in "fc" else np.zeros(type.shape, float0)


class RuleFunctions(NamedTuple):
    """The Python functions that are a function's rules, as far as it has them."""

    jvp: Function | None = None
    jvp_symbolic: bool = False
    jvps: tuple[Function | None, ...] | None = None
    fwd: Function | None = None
    bwd: Function | None = None
    vjp_symbolic: bool = False
    vmap: Function | None = None


class Residuals(Keyed):
    """The tree that the first half of a vjp rule keeps, without its arrays. Python's numbers and bools are a part of it: the
    second half gets them back as they are, to branch on."""

    __slots__ = ("fixed", "structure")

    def __init__(self, structure: TreeDef, fixed: Sequence[Any]) -> None:
        self.structure = structure
        self.fixed = tuple(fixed)  # for each leaf the number, or None for an array
        self.key = (structure, tuple([param_key(number) for number in self.fixed]))

    def tree(self, arrays: Sequence[Any]) -> Any:
        """The tree with these arrays in it."""
        given = iter(arrays)
        return unflatten(self.structure, [next(given) if number is None else number for number in self.fixed])


class UserRules:
    """Rules for calls of one kind: with certain arguments fixed, and the others of certain structures and types.

    `function` is the object with the rules; `function.fun` is what the user wrote.
    """

    __slots__ = (
        "count",
        "fixed",
        "function",
        "functions",
        "kind",
        "numbers",
        "out_structure",
        "out_types",
        "structures",
        "types",
    )

    def __init__(
        self,
        function: Any,
        functions: RuleFunctions,
        args: Sequence[Any],
        numbers: Sequence[int],
        structures: Sequence[TreeDef],
        types: Sequence[ArrayType],
    ) -> None:
        self.function = function
        self.kind = kind_of(function)
        self.functions = functions
        self.count = len(args)
        self.numbers = tuple(numbers)
        self.fixed = {i: arg for i, arg in enumerate(args) if i not in self.numbers}
        self.structures = tuple(structures)
        self.types = tuple(types)
        self.out_structure: TreeDef = None
        self.out_types: tuple[ArrayType, ...] | None = None  # None: not known until a rule has run

    @property
    def described(self) -> str:
        return describe(self.function)

    def flat(self, kind: str) -> CustomRules:
        """The rules as flat functions."""
        own = self.functions
        fixed = tuple([param_key(arg) for arg in self.fixed.values()])
        return CustomRules(
            (self.function, own, self.numbers, fixed, self.structures, self.types),
            About(self.function, kind, own.jvp_symbolic),
            jvp=self.jvp if own.jvp is not None or own.jvps is not None else None,
            forward=self.forward if own.fwd is not None else None,
            backward=self.backward if own.fwd is not None else None,
            vmap=self.vmap if own.vmap is not None else None,
        )

    # ---- arguments ----

    def trees(self, leaves: Sequence[Any]) -> list[Any]:
        """A tree for each argument that is not fixed."""
        return trees_of(self.structures, leaves)

    def arguments(self, trees: Sequence[Any]) -> list[Any]:
        """All the arguments, in their order."""
        given = iter(trees)
        return [self.fixed[i] if i in self.fixed else next(given) for i in range(self.count)]

    def call(self, *leaves: Any) -> list[Any]:
        """The function itself, on leaves."""
        found, self.out_structure = self._leaves(self.function.fun(*self.arguments(self.trees(leaves))))
        return [self._leaf(leaf, i, lambda: f"what {self.described} returned: output") for i, leaf in enumerate(found)]

    def _leaves(self, tree: Any) -> tuple[list[Any], TreeDef]:
        return self.kind.flatten(self.kind.without_float0(tree))

    def _leaf(self, leaf: Any, index: int, what: Callable[[], str], structure: TreeDef = None) -> Any:
        return array_leaf(
            leaf, lambda: structure_paths(structure or self.out_structure, what())[index], keep_out=OUT_OF_RESULTS
        )

    # ---- forward mode ----

    def jvp(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        if self.functions.jvps is not None:
            return self._jvps(operands, tangents)
        rule, what = self.functions.jvp, f"The jvp rule of {self.described}"
        given = [_given(t, type, self.functions.jvp_symbolic) for t, type in zip(tangents, self.types)]
        args = (*self.fixed.values(), tuple(self.trees(operands)), tuple(self.trees(given)))
        returned = _applied(rule, what, "rule(*nondiff, primals, tangents)", *args)
        value, tangent = _pair(returned, what, "the output and its tangent")
        outs = self._outputs(value, what)
        return outs, self._tangents(tangent, what, [type_of(out) for out in outs])

    def _jvps(self, operands: Sequence[Any], tangents: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """A rule for each argument: of its tangent, the output, and the arguments; the tangent is the sum."""
        rules: Sequence[Function | None] = self.functions.jvps or ()
        trees = self.trees(operands)
        if len(rules) != len(trees):
            raise StructureError(
                f"{self.described} was given {counted(len(rules), 'rule')} with defjvps, but is called with"
                f" {counted(len(trees), 'argument')}."
            )
        out = self.function(*trees)  # with its rules, for the next derivative
        outs, self.out_structure = self._leaves(out)
        out_types = [type_of(value) for value in outs]
        total: list[Any] = [ZERO] * len(outs)
        start = 0
        for number, (rule, structure) in enumerate(zip(rules, self.structures)):
            stop = start + structure.num_leaves
            own = tangents[start:stop]
            if rule is not None and any([t is not ZERO for t in own]):
                full = [_given(t, type, False) for t, type in zip(own, self.types[start:stop])]
                what = f"Rule {number} of defjvps of {self.described}"
                returned = _applied(rule, what, "rule(tangent, output, *arguments)", unflatten(structure, full), out, *trees)
                found = self._tangents(returned, what, out_types)
                total = [_sum(a, b) for a, b in zip(total, found)]
            start = stop
        return outs, total

    # ---- reverse mode ----

    def forward(self, operands: Sequence[Any], active: Sequence[bool]) -> tuple[list[Any], list[Any], Any]:
        what = f"The forward rule (fwd) of {self.described}"
        if self.functions.vjp_symbolic:
            operands = [CustomVJPPrimal(x, flag) for x, flag in zip(operands, active)]
        form = "fwd(*arguments), with those of nondiff_argnums in their places"
        returned = _applied(self.functions.fwd, what, form, *self.arguments(self.trees(operands)))
        value, kept = _pair(returned, what, "the output and the residuals")
        outs = self._outputs(value, what)
        leaves, structure = self._leaves(kept)
        fixed = [leaf if type(leaf) in (bool, int, float, complex) else None for leaf in leaves]
        residuals = [
            self._leaf(x, i, lambda: f"{what} returned: residuals", structure) for i, x in enumerate(leaves) if fixed[i] is None
        ]
        return outs, residuals, Residuals(structure, fixed)

    def backward(self, kept: Any, residuals: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        what = f"The backward rule (bwd) of {self.described}"
        out_types: Sequence[ArrayType] = self.out_types or ()
        given = [_given(ct, type, self.functions.vjp_symbolic) for ct, type in zip(cotangents, out_types)]
        cotangent = unflatten(self.out_structure, given)
        args = (*self.fixed.values(), kept.tree(residuals), cotangent)
        returned = _applied(self.functions.bwd, what, "bwd(*nondiff, residuals, cotangent)", *args)
        wanted = self.trees(self.types)
        if not isinstance(returned, (tuple, list)) or len(returned) != len(wanted):
            raise StructureError(
                f"{what} must return a tuple with a cotangent for each argument, {len(wanted)} of them, but returned"
                f" {tree_in_brief(returned)}."
            )
        found: list[Any] = []
        for number, (tree, structure) in enumerate(zip(returned, self.structures)):
            types = self.types[len(found) : len(found) + structure.num_leaves]
            found += self._like(tree, structure, types, what, f"cotangents[{number}]", f"argument {number}", Role.COTANGENT)
        return found

    # ---- batching ----

    def vmap(self, size: int, batched: Sequence[bool], operands: Sequence[Any]) -> tuple[list[Any], list[bool]]:
        what = f"The batching rule of {self.described}"
        rule: Function = self.functions.vmap  # type: ignore[assignment]
        args = (size, tuple(self.trees(list(batched))), *self.trees(operands))
        returned = _applied(rule, what, "rule(axis_size, in_batched, *arguments)", *args)
        value, spec = _pair(returned, what, "the output and which parts of it are batched")
        value = self.kind.without_float0(value)
        leaves, structure = self.kind.flatten(value)
        if self.out_types is not None:
            check_like(
                structure, self.out_structure, "output", "the function's output has", lambda where: f"{what} returned: {where}."
            )
        flags = self.kind.broadcast_prefix(spec, value, f"{what}: which parts are batched, {spec!r},", "output")
        if not all(isinstance(flag, (bool, np.bool_)) for flag in flags):
            raise StructureError(f"{what} must say with bools which parts of the output are batched, but said {brief(spec)}.")
        types = [type_of(leaf) for leaf in leaves]
        if self.out_types is not None:
            types = [t.with_shape((size, *t.shape)) if flag else t for t, flag in zip(self.out_types, flags)]
        else:
            self.out_structure = structure
        other = f"a batch of {size} outputs of the function"
        return self._like(value, structure, types, what, "output", other, Role.VALUE), [bool(flag) for flag in flags]

    # ---- what rules return ----

    def _outputs(self, value: Any, what: str) -> list[Any]:
        """The output that a derivative rule returned: like the function's own."""
        if self.out_types is None:  # the function could not be traced
            leaves, self.out_structure = self._leaves(value)
            outs = [self._leaf(leaf, i, lambda: f"{what} returned: output") for i, leaf in enumerate(leaves)]
            self.out_types = tuple([type_of(out) for out in outs])
            return outs
        return self._like(value, self.out_structure, self.out_types, what, "output", "the function's output", Role.VALUE)

    def _tangents(self, tangent: Any, what: str, types: Sequence[ArrayType]) -> list[Any]:
        return self._like(tangent, self.out_structure, types, what, "tangent", "the output", Role.TANGENT)

    def _like(
        self, tree: Any, structure: TreeDef, types: Sequence[ArrayType], what: str, root: str, other: str, role: Role
    ) -> list[Any]:
        """The leaves of what a rule returned, each of the type that it must have; ZERO for those known to be zero.

        Arguments:
            what: how errors call the rule. root: and the tree. other: what it must be like.
        """
        loose = role is Role.COTANGENT and self.function._any_precision
        strict = role is Role.TANGENT and self.function._own_precision
        allowed = leaf_for_any_part if loose else none_for_anything if role is Role.COTANGENT else none_for_leaf
        leaves, given = self.kind.flatten(tree)
        model, whole = types, structure
        if not same(given, structure):  # arrays of dtype float0, which are leaves of it, or something wrong
            model, whole = (types, LEAF) if structure is LEAF else self.kind.flatten(unflatten(structure, types))
            says = f"{what} returned: {{}}.".format
            leaves = self.kind.leaves_like(tree, whole, root, f"{other} has", says, allowed)
        for leaf, own, path in zip(leaves, model, structure_paths(whole, root) if len(model) > len(types) else ()):
            if is_float0(own) and not (
                is_float0(leaf) or isinstance(leaf, SymbolicZero) or (leaf is None and role is not Role.VALUE)
            ):
                raise StructureError(f"{what} returned: {path} is {tree_in_brief(leaf)} where {other} has {type_of(own)}.")
        leaves = [leaf for leaf, own in zip(leaves, model) if not is_float0(own)]
        fitted = []
        for index, (leaf, type) in enumerate(zip(leaves, types, strict=True)):
            fit = _fit(leaf, type, role, loose, strict)
            if isinstance(fit, _Misfit):
                path = structure_paths(structure, root)[index]
                raise fit.error(f"{what} returned: {path} is {tree_in_brief(leaf)} where {other} has {type}.")
            fitted.append(fit)
        return fitted


def _given(tangent: Any, type: ArrayType, symbolic: bool) -> Any:
    """A tangent or cotangent as a user's rule gets it; one that is zero is weak where its value is, and so widens nothing."""
    if tangent is not ZERO:
        return tangent
    return SymbolicZero(type) if symbolic else _real_zeros(type)


def _sum(a: Any, b: Any) -> Any:
    return b if a is ZERO else a if b is ZERO else add(a, b)


@calls_rule
def _applied(rule: Any, what: str, form: str, *args: Any) -> Any:
    """What a user's rule returns. Errors say how it is called, if Python refuses the call itself."""
    try:
        with own_rule():
            return rule(*args)
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise
        raise TypeError(f"{what} is called as {form}: here with {counted(len(args), 'argument')}, but {error}.") from None


def _pair(returned: Any, what: str, parts: str) -> Any:
    if not isinstance(returned, (tuple, list)) or len(returned) != 2:
        raise StructureError(f"{what} must return a pair, {parts}, but returned {tree_in_brief(returned)}.")
    return returned


class Role(enum.Enum):
    """What a tree that a rule returned is: that decides what may stand in it in place of arrays."""

    VALUE = enum.auto()  # arrays only
    TANGENT = enum.auto()  # SymbolicZero; None for integers
    COTANGENT = enum.auto()  # SymbolicZero; None for any part of the tree; any number or array for integers


class _Misfit(NamedTuple):
    error: type[Exception]


def _fit(leaf: Any, type: ArrayType, role: Role, any_precision: bool, own_precision: bool) -> Any:
    """A leaf of what a rule returned: as an array, or ZERO; a `_Misfit` where it is not of the type that it must have."""
    inexact = kind(type.dtype) in "fc"
    if role is not Role.VALUE:
        if leaf is None:
            return ZERO if role is Role.COTANGENT or not inexact else _Misfit(StructureError)
        if not inexact and is_float0(leaf):
            return ZERO if leaf.shape == type.shape or role is Role.COTANGENT else _Misfit(ShapeError)
        if isinstance(leaf, SymbolicZero):
            if leaf.type is type.strong() or (leaf.dtype == float0 and not inexact and leaf.shape == type.shape):
                return ZERO
            return _Misfit(DtypeError if leaf.shape == type.shape else ShapeError)
    try:
        value = array_leaf(leaf, lambda: "")
    except LeafError:
        return _Misfit(StructureError)
    own = type_of(value)
    if role is Role.COTANGENT and not inexact:  # of whatever shape and dtype, as for JAX: nobody asks for it
        return ZERO
    if own.shape != type.shape:
        return _Misfit(ShapeError)
    if own_precision and (own.dtype is not type.dtype or not inexact):
        return _Misfit(DtypeError)
    if own.dtype is not type.dtype:
        # a Python number takes the dtype that is wanted, and what is wanted of a Python number need not have its dtype
        follows = any_precision or own.weak or (type.weak and role is not Role.VALUE and kind(own.dtype) == kind(type.dtype))
        lossy = (kind(own.dtype) in "fc" and not inexact) or kind(own.dtype) == "c" != kind(type.dtype)
        if lossy or not follows:
            return _Misfit(DtypeError)
        value = convert_element_type(value, new_dtype=type.dtype)
    return value if inexact or role is Role.VALUE else ZERO
