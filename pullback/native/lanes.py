"""Infix arithmetic on values of a function that is being written, and what is computed without rounding errors.

A `Pair` is a number as a sum of two, the second one below half a unit in the last place of the first. Where the processor has
fused multiply-add (`Module.fma`) the error of a product takes one instruction, else Dekker's splitting.
Sources: Dekker, Numer. Math. 18 (1971); Muller, "Elementary Functions" (2016), chapter 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pullback.native.ir import Code, Value, is_float, size_of

Number = float | int
Pair = tuple["Lanes", "Lanes"]
Method = Callable[["Lanes", "Lanes | Number"], "Lanes"]

BITS_KIND = {"f16": "i16", "bf16": "i16", "f32": "i32", "f64": "i64"}
DIVISION = 8.0  # the weight of a division or a square root
RARE = 0.01  # the share of calls that is assumed to take a rare branch


def _operator(name: str, weight: float = 1.0, turned: bool = False) -> Method:
    """An instruction of arithmetic, of floating-point numbers by its name with an f before it."""

    def method(self: Lanes, other: Lanes | Number) -> Lanes:
        x, y = self.value, self.like(other).value
        if turned:
            x, y = y, x
        prefix = "f" if is_float(self.kind) else ""
        return Lanes(self.code, self.code.pure(f"{prefix}{name} {x}, {y.text}", self.kind, x.lanes, weight))

    return method


def _bitwise(name: str) -> Method:
    def method(self: Lanes, other: Lanes | Number) -> Lanes:
        return Lanes(self.code, self.code.binary(name, self.value, self.like(other).value))

    return method


def _comparison(predicate: str) -> Method:
    def method(self: Lanes, other: Lanes | Number) -> Lanes:
        return Lanes(self.code, self.code.compare(predicate, self.value, self.like(other).value))

    return method


class Lanes:
    """A value; numbers that it meets become constants of its kind."""

    __slots__ = ("code", "kind", "value")

    def __init__(self, code: Code, value: Value) -> None:
        self.code, self.value, self.kind = code, value, value.kind

    def like(self, other: Lanes | Number) -> Lanes:
        """Another operand of the same kind: itself, or the constant."""
        if isinstance(other, Lanes):
            return other
        return Lanes(self.code, self.code.constant(other, self.kind, self.value.lanes))

    __add__ = __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub"), _operator("sub", turned=True)
    __mul__ = __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div", DIVISION), _operator("div", DIVISION, turned=True)
    __and__, __or__, __xor__ = _bitwise("and"), _bitwise("or"), _bitwise("xor")
    __lshift__, __rshift__ = _bitwise("shl"), _bitwise("lshr")  # zeros come in
    __lt__, __le__, __gt__, __ge__ = _comparison("lt"), _comparison("le"), _comparison("gt"), _comparison("ge")
    equals, differs = _comparison("eq"), _comparison("ne")  # NaN differs from itself

    def is_nan(self) -> Lanes:
        return self.differs(self)

    def __neg__(self) -> Lanes:
        return Lanes(self.code, self.code.pure(f"fneg {self.value}", self.kind, self.value.lanes))

    def __abs__(self) -> Lanes:
        return self.function("fabs")

    def function(self, name: str, *others: Lanes | Number) -> Lanes:
        """One of LLVM's functions: fabs copysign rint floor trunc sqrt fma."""
        return Lanes(self.code, self.code.intrinsic(name, self.value, *[self.like(other).value for other in others]))

    def with_sign_of(self, other: Lanes) -> Lanes:
        return self.function("copysign", other)

    def converted(self, kind: str) -> Lanes:
        """Of a floating-point kind, in the other one."""
        how = "fpext" if kind == "f64" else "fptrunc"
        to = Value("", kind, self.value.lanes)
        return Lanes(self.code, self.code.pure(f"{how} {self.value} to {to.type}", kind, to.lanes))

    def bits(self) -> Lanes:
        """The bits, as a signed integer; of numbers of 16 bits those."""
        return self.reread(BITS_KIND[self.kind])

    def reread(self, kind: str) -> Lanes:
        """The same bits as a number of another kind, as wide."""
        return Lanes(self.code, self.code.bitcast(self.value, kind))


def where(which: Lanes, x: Lanes | Number, y: Lanes | Number) -> Lanes:
    """x where `which`, else y; one of them is no constant."""
    like = x if isinstance(x, Lanes) else y
    assert isinstance(like, Lanes)
    return Lanes(which.code, which.code.select(which.value, like.like(x).value, like.like(y).value))


def fused(x: Lanes, y: Lanes | Number, z: Lanes | Number) -> Lanes:
    """x y + z, rounded once where the processor can."""
    return x.function("fma", y, z) if x.code.module.fma else x * y + z


def polynomial(x: Lanes, coefficients: Sequence[Number | Lanes]) -> Lanes:
    """The sum of c_k x^k, in few dependent steps. Source: Estrin (1960), in Muller, section 4.4."""
    terms = [x.like(coefficient) for coefficient in coefficients]
    while len(terms) > 1:
        paired = [fused(high, x, low) for low, high in zip(terms[::2], terms[1::2])]
        terms = paired + terms[2 * len(paired) :]
        x = x * x
    return terms[0]


def smooth(x: Lanes, coefficients: Sequence[Number | Lanes]) -> Lanes:
    """As `polynomial`, of which the first terms are the largest: they are added last, so that not many sums are rounded."""
    first, second, *others = coefficients
    return fused(x, fused(x, polynomial(x, others), second), first)


def product(x: Lanes, y: Lanes) -> Pair:
    """x y; without fused multiply-add for factors below 2^995."""
    high = x * y
    if x.code.module.fma:
        return high, fused(x, y, -high)
    (a, b), (c, d) = _halves(x), _halves(y)
    return high, ((a * c - high) + a * d + b * c) + b * d


def _halves(x: Lanes) -> Pair:
    """x as a sum of two numbers with half as many bits."""
    shifted = x * (2.0**27 + 1)
    high = shifted - (shifted - x)
    return high, x - high


def total(x: Lanes | Number, y: Lanes) -> Pair:
    """x + y, where x is not smaller than y, or is 0."""
    high = x + y
    return high, y - (high - x)


def by_vectors(x: Lanes, name: str, operands: Sequence[str], kind: str) -> Lanes:
    """One of the processor's own instructions, which takes whole vectors, of x: which is `x` among its operands' texts."""
    code, lanes = x.code, x.value.lanes or 1
    wide = code.module.vector_bytes // size_of(kind)
    given, outs, result = code.joined([x.value]), [], Value("", kind, wide).type
    for start in range(0, lanes, wide):
        part = code.shuffle(given, [min(i, lanes - 1) for i in range(start, start + wide)])
        texts = [f"{part}" if text == "x" else text for text in operands]
        types = [text[: text.index(">") + 1] if text[0] == "<" else text.split()[0] for text in texts]
        code.module.declarations[name] = f"declare {result} @{name}({', '.join(types)})"
        outs.append(code.pure(f"call {result} @{name}({', '.join(texts)})", kind, wide))
    out = code.joined(outs)
    return Lanes(code, code.lane(out, 0) if x.value.lanes is None else code.shuffle(out, range(lanes)))


def looked_up(places: Lanes, numbers: Sequence[float], kind: str) -> Lanes:
    """The numbers at these places, integers of which the last bits count, of a table that fills a vector of AVX-512."""
    listed = [f"{places.code.constant(number, kind)}" for number in numbers]
    table = f"{Value('', kind, len(numbers)).type} <{', '.join(listed)}>"
    return by_vectors(places, f"llvm.x86.avx512.permvar.{'df' if kind == 'f64' else 'sf'}.512", [table, "x"], kind)


def in_any_lane(code: Code, which: Value) -> Value:
    """Whether something holds in any lane."""
    if which.lanes is None:
        return which
    name = f"@llvm.vector.reduce.or.{which.mangled}"
    code.module.declarations[name] = f"declare i1 {name}({which.type})"
    return code.pure(f"call i1 {name}({which})", "i1")


def rarely(which: Lanes, usual: Lanes, make: Callable[[], Lanes]) -> Lanes:
    """What `make` writes where `which`, else `usual`: a branch that is taken if `which` is true in any lane."""
    code, lanes = which.code, which.value.lanes
    before, rare, after = code.block, code.fresh("rare"), code.fresh("after")
    code.lines.append(f"br {in_any_lane(code, which.value)}, label %{rare}, label %{after}")
    code.label(rare)
    with code.scope(RARE):
        found = where(which, make(), usual).value
    last = code.block
    code.lines.append(f"br label %{after}")
    code.label(after)
    text = f"phi {found.type} [ {usual.value.text}, %{before} ], [ {found.text}, %{last} ]"
    return Lanes(code, code.result(text, usual.kind, lanes, 0.0))
