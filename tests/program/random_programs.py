"""Random Programs of every dtype and every kind of parameter, for hypothesis."""

import enum
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from pullback.control.call import call
from pullback.core.array import Array
from pullback.core.dtypes import DTYPES
from pullback.core.primitive import Primitive
from pullback.core.types import ArrayType, array_type
from pullback.ops.arithmetic import add, mul
from pullback.ops.broadcast import broadcast_in_dim
from pullback.program.program import Equation, Literal, Program, Variable


class Precision(enum.Enum):
    LOW = 1
    HIGH = 2


class Numbers(NamedTuple):
    axes: tuple[int, ...]
    label: str


@dataclass(frozen=True)
class Settings:
    rate: float
    precision: Precision


note = Primitive("note", result_type=lambda x, **params: x, evaluate=lambda x, **params: x)
pair = Primitive("pair", result_type=lambda x, **params: (x, x), evaluate=lambda x, **params: (x, x), multiple_results=True)
nothing = Primitive("no-thing", result_type=lambda x: (), evaluate=lambda x: (), multiple_results=True, effect="test")

PRIMITIVES = {one.name: one for one in (add, mul, broadcast_in_dim, call, note, pair, nothing)}
CLASSES: dict[str, type] = {"Precision": Precision, "Numbers": Numbers, "Settings": Settings}

types = st.builds(
    array_type,
    st.sampled_from([(), (), (3,), (2, 1), (0,), (0, 2), (70,)]),
    st.sampled_from(list(DTYPES.values())),
    st.booleans(),
)


@st.composite
def arrays(draw: Any, type: ArrayType) -> Array:
    """Any bits at all: NaNs with payloads, infinities, -0.0, subnormal numbers."""
    count = math.prod(type.shape)
    ordinary = st.sampled_from([0.0, -0.0, 1.0, 2.0, -1.0, 0.1, math.nan, math.inf, -math.inf])
    if type.dtype == bool:
        host = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    elif type.dtype.kind not in "iu" and draw(st.booleans()):
        with np.errstate(all="ignore"):
            host = np.array(draw(st.lists(ordinary, min_size=count, max_size=count)), np.float64).astype(type.dtype)
    else:
        size = count * type.dtype.itemsize
        host = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), type.dtype)
    return Array(type, host.reshape(type.shape))


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True),
    st.complex_numbers(allow_nan=True),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.sampled_from(list(DTYPES.values())),
    st.sampled_from(list(Precision)),
    types,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(tuple),
        st.builds(Numbers, st.lists(st.integers(), max_size=2).map(tuple), st.text(max_size=3)),
        st.builds(Settings, st.floats(), st.sampled_from(list(Precision))),
    ),
    max_leaves=4,
)


@st.composite
def programs(draw: Any, given: tuple[ArrayType, ...] | None = None, depth: int = 2) -> Program:
    """A Program whose inputs have the types `given`, holding Programs up to `depth` levels down."""
    input_types = draw(st.lists(types, min_size=1, max_size=3)) if given is None else given
    inputs = [Variable(type) for type in input_types]
    constants = []
    for type in draw(st.lists(types, max_size=2)):
        constants.append((Variable(type), draw(arrays(type))))
    known = [*inputs, *[variable for variable, _ in constants]]
    equations: list[Equation] = []
    inner: Program | None = None
    for _ in range(draw(st.integers(0, 4))):
        x = draw(st.sampled_from(known))
        params: dict[str, Any] = {}
        operands: tuple[Any, ...] = (x,)
        match draw(st.sampled_from(["binary", "note", "pair", "nothing", "call", "broadcast"])):
            case "binary":
                primitive = draw(st.sampled_from([add, mul]))
                literal = Literal(draw(arrays(array_type((), x.type.dtype, draw(st.booleans())))))
                operands = draw(st.sampled_from([(x, x), (x, literal), (literal, x)]))
            case "note":
                primitive = note
                params = draw(st.dictionaries(st.sampled_from(["a", "in", "lambda_", "f32"]), values, max_size=3))
                literals = [
                    Literal(draw(arrays(array_type((), d)))) for d in draw(st.lists(st.sampled_from(list(DTYPES.values()))))
                ]
                primitive = note if not literals else many
                operands = (x, *literals)
            case "pair":
                primitive = pair
                params = {"value": draw(values)}
            case "nothing":
                primitive = nothing
            case "broadcast":
                primitive = broadcast_in_dim
                params = {"shape": (2, *x.type.shape), "broadcast_dimensions": tuple(range(1, x.type.ndim + 1))}
            case _:
                if depth == 0:
                    continue
                if inner is None or inner.input_types != (x.type,) or draw(st.booleans()):
                    inner = draw(programs(given=(x.type,), depth=depth - 1))
                primitive = call
                params = {"program": inner}
        inferred = primitive.infer(tuple([operand.type for operand in operands]), params)
        outputs = [Variable(type) for type in (inferred if primitive.multiple_results else (inferred,))]
        equations.append(Equation(primitive, operands, tuple(outputs), params))
        known += outputs
    outputs = draw(st.lists(st.sampled_from(known), max_size=3))
    if draw(st.booleans()):
        outputs.append(Literal(draw(arrays(draw(types).with_shape(())))))
    return Program(inputs, equations, outputs, constants)


many = Primitive("many.operands", result_type=lambda x, *rest, **params: x, evaluate=lambda x, *rest, **params: x)
PRIMITIVES[many.name] = many
