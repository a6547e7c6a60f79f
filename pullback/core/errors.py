"""Every error that pullback raises of its own: the cause, an example that fails, and the cure.

Each class also derives from the built-in error that one would expect for such a mistake, so that existing handlers go on
working. All examples run as tests. Tracebacks show the user's frames only; the environment variable
PULLBACK_TRACEBACKS=all brings pullback's own back. Below the message stands where the page on its class is; `error.page` is
the path.
"""

from __future__ import annotations

from pullback.core.error_pages import Explained

__all__ = [
    "AxisError", "AxisNameError", "AxisUsedTwice", "CheckWarning", "CheckpointError", "ClosedOverError",
    "ConcretizationError", "CorruptCheckpoint", "DeviceError", "DonatedBufferError", "DtypeError", "DtypeWidened",
    "EscapedTracerError", "ExportError", "Fenced", "ForeignExecutable", "GradientError", "ImpureFunction", "IndexDtypeError",
    "KeyReuseError", "LargeConstant", "LargeProgramWarning", "LeafError", "MissingPackage", "MissingRule", "NoDevices",
    "NonConcreteBooleanIndexError", "NotFinite", "NotLinear", "NotLocal", "PeerLost", "PluginMissing", "ProgramError",
    "ProgramsDiffer", "PullbackError", "RankPromoted", "RefError", "ShapeError", "ShardingError", "ShardingMismatch",
    "StaticArgumentError", "StructureError", "TierMismatch", "TracerArrayConversionError", "TracerBoolConversionError",
    "TracerIntegerConversionError", "UnevenShard", "UnknownAxis", "UnknownRule", "UnsupportedJaxlib", "UnusedArgument",
    "VaryingOutput", "WorldError",
]  # fmt: skip


class PullbackError(Explained, Exception):
    """The base of every error class of this library: `except pb.errors.PullbackError` catches them all.

    Mistakes that any Python function could find in its arguments raise Python's own errors, which it does not catch: an index
    out of bounds IndexError, an unknown option ValueError, an argument of a kind that is never taken TypeError.

    Fails:
        >>> import pullback as pb
        >>> pb.grad(lambda x: 2.0 * x)(pb.numpy.ones(3))
        Traceback (most recent call last):
            ...
        pullback.core.errors.GradientError: grad needs a function with a 0-d output, but <lambda> ... returned f32[3]...

    Cure:
        >>> try:
        ...     pb.grad(lambda x: 2.0 * x)(pb.numpy.ones(3))
        ... except pb.errors.PullbackError as error:
        ...     print(type(error).__name__)
        GradientError
    """


class MissingRule(PullbackError, NotImplementedError):
    """A transformation met a primitive that has no rule for it.

    A primitive's rules may come one by one. What needs a rule that is not there says which one, who asked, and which
    other rule it could be derived from; a missing rule is never taken for zero.

    Fails:
        >>> import pullback as pb
        >>> square = pb.Primitive("square")
        >>> @square.def_evaluate
        ... def evaluate(x):
        ...     return x * x
        >>> pb.grad(square)(3.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.MissingRule: Forward-mode differentiation (jvp) rule for primitive 'square' not implemented; ...

    Cure: define the rule, or one that it follows from.
        >>> @square.def_partials
        ... def partials(out, x):
        ...     return (2.0 * x,)
        >>> pb.grad(square)(3.0)
        6.0:f32[]:cpu(0)
    """


class UnknownRule(PullbackError, TypeError):
    """A primitive was given a rule under a name that no transformation reads: most often a misspelling.

    Such a rule would never be called, and the primitive would silently lack the one that was meant.

    Fails:
        >>> import pullback as pb
        >>> pb.Primitive("twice", linear=True, tranpose=lambda cotangent, x: (2.0 * cotangent,))
        Traceback (most recent call last):
            ...
        pullback.core.errors.UnknownRule: Primitive 'twice' was given an unknown rule 'tranpose'; did you mean 'transpose'?...

    Cure: spell it as one of the names in the message. A function that rules share belongs outside of the class.
        >>> pb.Primitive("twice", linear=True, transpose=lambda cotangent, x: (2.0 * cotangent,))
        twice
    """


class ConcretizationError(PullbackError, TypeError):
    """A traced value was asked for a number that it does not have yet.

    While `jit`, `vmap` or `xpr` runs a function to see what it does, its arguments are tracers: they have a shape and a
    dtype, and stand for all values at once. Python cannot branch on them, index with them, or hand them to NumPy. The
    three subclasses say which of these happened; each has its cure.

    Fails:
        >>> import pullback as pb
        >>> pb.jit(lambda x: float(x) + 1.0)(2.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.TracerArrayConversionError: ...

    Cure: stay with operations of pullback.
        >>> pb.jit(lambda x: x + 1.0)(2.0)
        3.0:f32[]:cpu(0)
    """


class TracerBoolConversionError(ConcretizationError):
    """A traced value was used where Python needs True or False: `if`, `while`, `and`, `or`, `not`, `assert`.

    Fails:
        >>> import pullback as pb
        >>> def relu(x):
        ...     return x if x > 0.0 else 0.0
        >>> pb.jit(relu)(-1.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.TracerBoolConversionError: ...

    Cure: choose with `pb.numpy.where`, which computes both; with `pb.lax.cond`, which runs one; or, where the choice is one
    of configuration, make the argument static.
        >>> pb.jit(lambda x: pb.numpy.where(x > 0.0, x, 0.0))(-1.0)
        0.0:f32[]:cpu(0)
        >>> pb.jit(relu, static_argnums=0)(-1.0)
        0.0:f32[]:cpu(0)
    """


class TracerIntegerConversionError(ConcretizationError, IndexError):
    """A traced value was used where Python needs an integer: `int(x)`, `range(x)`, a list's index, a shape.

    Fails:
        >>> import pullback as pb
        >>> def total(n):
        ...     return sum(i * 1.0 for i in range(n))
        >>> pb.jit(total)(4)
        Traceback (most recent call last):
            ...
        pullback.core.errors.TracerIntegerConversionError: ...

    Cure: make the number static, if the program may depend on it; else use an array, or a loop of `pb.lax`.
        >>> pb.jit(total, static_argnums=0)(4)
        6.0:f32[]:cpu(0)
        >>> table = pb.numpy.array([10.0, 20.0, 30.0])
        >>> pb.jit(lambda i: table[i])(1)
        20.0:f32[]:cpu(0)
    """


class NonConcreteBooleanIndexError(TracerIntegerConversionError):
    """An array was indexed with a traced mask: how many elements it chooses, and so the result's shape, is not known.

    Fails:
        >>> import pullback as pb
        >>> pb.jit(lambda x: x[x > 1.0])(pb.numpy.array([1.0, 2.0, 3.0]))
        Traceback (most recent call last):
            ...
        pullback.core.errors.NonConcreteBooleanIndexError: ...

    Cure: keep the shape, with `pb.numpy.where`; or say how many elements there are to be.
        >>> pb.jit(lambda x: pb.numpy.where(x > 1.0, x, 0.0))(pb.numpy.array([1.0, 2.0, 3.0]))
        [0. 2. 3.]:f32[3]:cpu(0)
        >>> pb.jit(lambda x: x[pb.numpy.nonzero(x > 1.0, size=2)])(pb.numpy.array([1.0, 2.0, 3.0]))
        [2. 3.]:f32[2]:cpu(0)
    """


class TracerArrayConversionError(ConcretizationError):
    """A traced value was handed to NumPy, or to `float()`, `complex()`, `.item()`, `.tolist()`.

    Fails:
        >>> import numpy as np, pullback as pb
        >>> pb.jit(lambda x: np.asarray(x) + 1.0)(2.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.TracerArrayConversionError: ...

    Cure: use the function of the same name in `pb.numpy`.
        >>> pb.jit(lambda x: pb.numpy.asarray(x) + 1.0)(2.0)
        3.0:f32[]:cpu(0)
    """


class EscapedTracerError(PullbackError, RuntimeError, TypeError):
    """A traced value was used after the transformation that made it had returned.

    It was stored where it outlived the call: in a global, an attribute, a list, a cache. The message says which function it
    belongs to, and which line made it.

    Fails:
        >>> import pullback as pb
        >>> kept = []
        >>> @pb.jit
        ... def double(x):
        ...     kept.append(2.0 * x)
        ...     return 2.0 * x
        >>> double(3.0)
        6.0:f32[]:cpu(0)
        >>> kept[0] + 1.0
        Traceback (most recent call last):
            ...
        pullback.core.errors.EscapedTracerError: A traced value of type ... has escaped: it belongs to jit of double ...

    Cure: return what is needed outside.
        >>> @pb.jit
        ... def double(x):
        ...     twice = 2.0 * x
        ...     return twice, twice
        >>> result, kept = double(3.0)
        >>> kept + 1.0
        7.0:f32[]:cpu(0)
    """


class RefError(PullbackError, TypeError, ValueError):
    """A mutable array (`Ref`) where it cannot be read, written or passed.

    It was used as if it were an array; it was to keep a value of a transformation that ends before it does; or a function
    writes to it that is recorded where results are all that comes out.

    Fails:
        >>> import pullback as pb
        >>> ref = pb.new_ref(0.0)
        >>> def f(x):
        ...     ref[...] = x * x
        ...     return ref[...]
        >>> pb.grad(f)(3.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.RefError: A Ref of type f32[] cannot keep a value of grad of f ...

    Cure: make the Ref where it is used.
        >>> def f(x):
        ...     ref = pb.new_ref(x * x)
        ...     return ref[...]
        >>> pb.grad(f)(3.0)
        6.0:f32[]:cpu(0)
    """


class ShapeError(PullbackError, TypeError, ValueError):
    """Shapes that do not fit together, or that an operation cannot take.

    The message has the operation, all the shapes, and the line.

    Fails:
        >>> import pullback as pb
        >>> pb.numpy.ones(3) + pb.numpy.ones(4)
        Traceback (most recent call last):
            ...
        pullback.core.errors.ShapeError: ...add... cannot broadcast shapes (3,) and (4,): ...

    Cure: shapes broadcast when, aligned at their last axes, two sizes are equal or one of them is 1.
        >>> (pb.numpy.ones(3)[:, None] + pb.numpy.ones(4)).shape
        (3, 4)
    """


class DtypeError(PullbackError, TypeError, ValueError):
    """A dtype that an operation cannot take, or dtypes that do not go together.

    Fails: float8 dtypes are for storage, and never promote by themselves.
        >>> import pullback as pb
        >>> x, y = pb.numpy.ones(3, "float8_e5m2"), pb.numpy.ones(3, "float8_e4m3fn")
        >>> x + y
        Traceback (most recent call last):
            ...
        pullback.core.errors.DtypeError: ...float8_e5m2 and float8_e4m3fn have no common dtype...

    Cure: convert by hand.
        >>> x.astype("float32") + y.astype("float32")
        [2. 2. 2.]:f32[3]:cpu(0)

    Fails: an operation that is not one of this dtype.
        >>> pb.numpy.bitwise_and(1.5, 2)
        Traceback (most recent call last):
            ...
        pullback.core.errors.DtypeError: ...

    Cure: likewise.
        >>> pb.numpy.bitwise_and(pb.numpy.asarray(3.5).astype("int32"), 2)
        2:i32[]:cpu(0)
    """


class IndexDtypeError(DtypeError, IndexError):
    """An index that is neither an integer nor a bool, a slice, None or ....

    Fails: the result of a division.
        >>> import pullback as pb
        >>> x = pb.numpy.arange(4)
        >>> x[4 / 2]
        Traceback (most recent call last):
            ...
        pullback.core.errors.IndexDtypeError: An array is indexed with integers, bools, slices, None and ..., not 2.0...

    Cure: a division of integers.
        >>> x[4 // 2]
        2:i32[]:cpu(0)
    """


class AxisError(PullbackError, ValueError, IndexError, TypeError):
    """An axis that an array does not have, or that is no integer, or axes that do not go together.

    Fails: an axis out of range.
        >>> import pullback as pb
        >>> pb.numpy.sum(pb.numpy.ones((2, 3)), axis=2)
        Traceback (most recent call last):
            ...
        pullback.core.errors.AxisError: ...

    Cure: axes of an array with n axes are numbered from 0 to n - 1, or from -n to -1.
        >>> pb.numpy.sum(pb.numpy.ones((2, 3)), axis=-1)
        [3. 3.]:f32[2]:cpu(0)

    Fails: batches whose sizes differ; the message names each argument by its path.
        >>> pb.vmap(lambda x, y: x * y)(pb.numpy.ones(2), pb.numpy.ones(3))
        Traceback (most recent call last):
            ...
        pullback.core.errors.AxisError: vmap of <lambda> ... was given batches of different sizes: argument x has size 2 ...

    Cure: batch by axes of one size, and say by `in_axes` which arguments are not batched.
        >>> pb.vmap(lambda x, y: x * y, in_axes=(0, None))(pb.numpy.ones(2), pb.numpy.ones(3)).shape
        (2, 3)
    """


class AxisNameError(AxisError, NameError):
    """A collective operation names an axis that no transformation around it has given a name.

    Fails: a sum over an axis that has no such name here.
        >>> import pullback as pb
        >>> pb.vmap(lambda x: x / pb.lax.psum(x, "batch"))(pb.numpy.ones(2))
        Traceback (most recent call last):
            ...
        pullback.core.errors.AxisNameError: There is no axis named 'batch' here: ...

    Cure: name the axis where it is mapped over.
        >>> pb.vmap(lambda x: x / pb.lax.psum(x, "batch"), axis_name="batch")(pb.numpy.ones(2))
        [0.5 0.5]:f32[2]:cpu(0)
    """


class GradientError(PullbackError, TypeError, ValueError):
    """A derivative was asked of, or with respect to, something that has none.

    Fails: the gradient of a function that does not return one number.
        >>> import pullback as pb
        >>> pb.grad(lambda x: x**2)(pb.numpy.ones(3))
        Traceback (most recent call last):
            ...
        pullback.core.errors.GradientError: grad needs a function with a 0-d output, but <lambda> ... returned f32[3]...

    Cure: reduce to a number, or ask for the Jacobian.
        >>> pb.grad(lambda x: pb.numpy.sum(x**2))(pb.numpy.ones(3))
        [2. 2. 2.]:f32[3]:cpu(0)
        >>> pb.jacrev(lambda x: x**2)(pb.numpy.ones(3)).shape
        (3, 3)

    Fails: the gradient with respect to an integer.
        >>> pb.grad(lambda x: x * x)(3)
        Traceback (most recent call last):
            ...
        pullback.core.errors.GradientError: grad was asked for the derivative with respect to ...x, which is ...

    Cure: pass a floating-point number.
        >>> pb.grad(lambda x: x * x)(3.0)
        6.0:f32[]:cpu(0)

    Fails: the gradient of a complex function.
        >>> pb.grad(lambda z: z * z)(1j)
        Traceback (most recent call last):
            ...
        pullback.core.errors.GradientError: ...

    Cure: say that the function is holomorphic, if it is.
        >>> pb.grad(lambda z: z * z, holomorphic=True)(1j)
        2j:c64[]:cpu(0)
    """


class NotLinear(GradientError):
    """What is to be transposed is not linear: a function given to `linear_transpose`, or a rule for tangents.

    Fails: the transpose of a product of two unknowns.
        >>> import pullback as pb
        >>> pb.linear_transpose(lambda x: x * x, 3.0)(1.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.NotLinear: linear_transpose met 'mul' applied to an unknown value; it is not linear in ...

    Cure: the transpose of its derivative.
        >>> y, pull = pb.vjp(lambda x: x * x, 3.0)
        >>> pull(1.0)
        (6.0:f32[]:cpu(0),)
    """


class ClosedOverError(GradientError, EscapedTracerError):
    """A function with rules of its own is differentiated with respect to a value that it closes over.

    Fails: its rules speak of its arguments only.
        >>> import pullback as pb
        >>> def f(x):
        ...     g = pb.custom_jvp(lambda y: x * y)
        ...     g.defjvps(lambda t, out, y: x * t)
        ...     return g(3.0)
        >>> pb.grad(f)(2.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.ClosedOverError: The custom_jvp function ... is differentiated with respect to a value of type ...

    Cure: make the value an argument.
        >>> g = pb.custom_jvp(lambda x, y: x * y)
        >>> g.defjvps(lambda t, out, x, y: t * y, lambda t, out, x, y: x * t)
        >>> pb.grad(lambda x: g(x, 3.0))(2.0)
        3.0:f32[]:cpu(0)
    """


class StructureError(PullbackError, TypeError, ValueError):
    """Two pytrees that should have the same structure do not.

    Fails: a tangent whose structure is not that of its primal.
        >>> import pullback as pb
        >>> weights = {"a": 1.0, "b": 2.0}
        >>> pb.jvp(lambda w: w["a"] * w["b"], (weights,), ({"a": 1.0},))
        Traceback (most recent call last):
            ...
        pullback.core.errors.StructureError: ...

    Cure: give every leaf its partner, zero where there is nothing.
        >>> pb.jvp(lambda w: w["a"] * w["b"], (weights,), ({"a": 1.0, "b": 0.0},))[1]
        2.0:f32[]:cpu(0)

    Fails: `in_axes` for another tree than the arguments.
        >>> pb.vmap(lambda w: w["a"] * w["b"], in_axes=({"a": 0},))({"a": pb.numpy.ones(2), "b": pb.numpy.ones(2)})
        Traceback (most recent call last):
            ...
        pullback.core.errors.StructureError: vmap's in_axes for argument w, {'a': 0}, does not fit: w['b'] is a leaf where ...

    Cure: an axis for each leaf, or one for all.
        >>> pb.vmap(lambda w: w["a"] * w["b"], in_axes=({"a": 0, "b": 0},))({"a": pb.numpy.ones(2), "b": pb.numpy.ones(2)})
        [1. 1.]:f32[2]:cpu(0)
    """


class LeafError(PullbackError, TypeError):
    """A pytree holds something that is neither an array nor a number, nor a container that pullback knows.

    The message has the path to it.

    Fails:
        >>> import pullback as pb
        >>> pb.jit(lambda batch: batch["x"] * 2.0)({"x": 1.0, "name": "first"})
        Traceback (most recent call last):
            ...
        pullback.core.errors.LeafError: ...batch['name'] is 'first' of type str, which is neither an array nor a number...

    Cure: keep it out of what is traced, or convert it to an array.
        >>> pb.jit(lambda batch: batch["x"] * 2.0)({"x": 1.0})
        2.0:f32[]:cpu(0)
    """


class KeyReuseError(PullbackError, RuntimeError, TypeError):
    """In a `pb.random.checked_keys` block, or one of `pb.checking(keys="error")`, a random key was used a second time.

    Whatever draws with the same key gets the same bits: two layers of weights that should be independent would be equal.

    Fails:
        >>> import pullback as pb
        >>> key = pb.random.key(0)
        >>> with pb.random.checked_keys():
        ...     pb.random.normal(key) + pb.random.normal(key)
        Traceback (most recent call last):
            ...
        pullback.core.errors.KeyReuseError: normal was given a key that normal has used up already: ...

    Cure: divide the key before it is used; or, if the same bits are meant, say so with `pb.random.clone`.
        >>> with pb.random.checked_keys():
        ...     first, second = pb.random.split(key)
        ...     pb.random.normal(first) == pb.random.normal(second)
        False:bool[]:cpu(0)
    """


class StaticArgumentError(PullbackError, TypeError, ValueError):
    """A static argument of `jit` cannot serve as a cache key, or does not exist.

    A compiled program is kept for every value of its static arguments, so they must be hashable.

    Fails:
        >>> import pullback as pb
        >>> def scale(x, factors):
        ...     return [factor * x for factor in factors]
        >>> pb.jit(scale, static_argnames="factors")(1.0, factors=[2.0, 3.0])
        Traceback (most recent call last):
            ...
        pullback.core.errors.StaticArgumentError: Argument factors of scale ... is static, so it must be hashable, but ...

    Cure: a tuple instead of a list; or do not make it static.
        >>> pb.jit(scale, static_argnames="factors")(1.0, factors=(2.0, 3.0))
        [2.0:f32[]:cpu(0), 3.0:f32[]:cpu(0)]
    """


class DonatedBufferError(PullbackError, RuntimeError):
    """An array was used after its memory had been given to a compiled function.

    `donate_argnums` lets a function put its results where its arguments were; those are gone afterwards.

    Fails:
        >>> import pullback as pb
        >>> step = pb.jit(lambda x: x + 1.0, donate_argnums=0)
        >>> state = pb.numpy.zeros(3)
        >>> moved = step(state)
        >>> state + 1.0
        Traceback (most recent call last):
            ...
        pullback.core.errors.DonatedBufferError: This array (f32[3]) was donated to a compiled function...

    Cure: go on with the result, under the same name.
        >>> state = pb.numpy.zeros(3)
        >>> for _ in range(2):
        ...     state = step(state)
        >>> state
        [2. 2. 2.]:f32[3]:cpu(0)
    """

    array: object = None  # that was given away


class DeviceError(PullbackError, ValueError):
    """A device or platform that does not exist, or arrays that are on different devices in one computation.

    An array that was put on a device stays there, and what is computed from it too; nothing is moved between devices
    unless somebody says so.

    Fails:
        >>> import pullback as pb
        >>> pb.devices("abacus")
        Traceback (most recent call last):
            ...
        pullback.core.errors.DeviceError: There is no platform 'abacus'; known are 'cpu'...

    Cure: choose among the devices that exist, and move arrays with `device_put`.
        >>> pb.device_put(pb.numpy.ones(2), pb.devices()[0])
        [1. 1.]:f32[2]:cpu(0)
    """


class PluginMissing(DeviceError):
    """The plugin for a kind of accelerator is not installed, or does not go with the jaxlib that is.

    Fails: where there is none.
        >>> import pullback as pb
        >>> pb.devices("rocm")
        Traceback (most recent call last):
            ...
        pullback.core.errors.PluginMissing: No plugin for platform 'rocm' is installed: install ...

    Cure: install it, as the message says; for NVIDIA's devices, `pip install 'pullback[cuda]'`.
        >>> pb.devices("cpu")[0]
        cpu(0)
    """


class NoDevices(DeviceError):
    """The plugin for a kind of accelerator is installed, and finds no device.

    Fails: as if the plugin had said so.
        >>> import pullback as pb
        >>> raise pb.errors.NoDevices("The plugin for 'cuda' finds no device: No visible GPU devices.")
        Traceback (most recent call last):
            ...
        pullback.core.errors.NoDevices: The plugin for 'cuda' finds no device: No visible GPU devices...

    Cure: see whether the driver sees devices, and whether a variable of the environment hides them. What a program would take
    on devices that are not there can be planned all the same.
        >>> pb.parallel.plan(lambda x: x + 1.0, pb.ArrayType((8,), "float32"), mesh={"data": 8}, target="cpu").memory.arguments
        32
    """


class ShardingError(PullbackError, ValueError):
    """A mesh, a spec or a sharding that cannot be, or that does not fit an array.

    What is said of how arrays are divided is checked before XLA sees anything: it would compute wrong numbers, or end the
    process.

    Fails:
        >>> import pullback as pb
        >>> mesh = pb.sharding.AbstractMesh((2, 4), ("data", "model"))
        >>> pb.NamedSharding(mesh, pb.P("data", "model")).shard_shape((8,))
        Traceback (most recent call last):
            ...
        pullback.core.errors.ShardingError: P('data', 'model') divides 2 axes, but the array has 1...

    Cure: an entry for each axis of the array at most.
        >>> pb.NamedSharding(mesh, pb.P(("data", "model"))).shard_shape((8,))
        (1,)
    """


class UnknownAxis(ShardingError):
    """A spec names an axis that its mesh does not have.

    Fails:
        >>> import pullback as pb
        >>> mesh = pb.sharding.AbstractMesh((2, 4), ("data", "model"))
        >>> pb.NamedSharding(mesh, pb.P("batch"))
        Traceback (most recent call last):
            ...
        pullback.core.errors.UnknownAxis: P('batch') names the axis 'batch', but ... has the axes data, model...

    Cure: one of the names that the mesh was made with.
        >>> pb.NamedSharding(mesh, pb.P("data"))
        NamedSharding(AbstractMesh(data=2, model=4), P('data'))
    """


class AxisUsedTwice(ShardingError):
    """A spec names one axis of a mesh for two axes of an array.

    Fails:
        >>> import pullback as pb
        >>> mesh = pb.sharding.AbstractMesh((2, 4), ("data", "model"))
        >>> pb.NamedSharding(mesh, pb.P("data", "data"))
        Traceback (most recent call last):
            ...
        pullback.core.errors.AxisUsedTwice: P('data', 'data') names the axis 'data' twice...

    Cure: each mesh axis divides one axis of the array.
        >>> pb.NamedSharding(mesh, pb.P("data", "model")).shard_shape((8, 8))
        (4, 2)
    """


class UnevenShard(ShardingError):
    """An axis of an array cannot be divided into as many parts of one size as the sharding asks for.

    Fails:
        >>> import pullback as pb
        >>> mesh = pb.sharding.AbstractMesh((4,), ("data",))
        >>> pb.NamedSharding(mesh, pb.P("data")).shard_shape((6, 3))
        Traceback (most recent call last):
            ...
        pullback.core.errors.UnevenShard: Axis 0 of an array of shape (6, 3) has 6 elements, which (data,·)...

    Cure: pad the array, or divide another axis.
        >>> pb.NamedSharding(mesh, pb.P("data")).shard_shape((8, 3))
        (2, 3)
    """


class ShardingMismatch(ShardingError):
    """An argument lies on devices in another way than the function takes it.

    Nothing is moved between devices unless somebody says so: that may take longer than the computation.

    Fails:
        >>> import pullback as pb
        >>> mesh = pb.sharding.AbstractMesh((2,), ("data",))
        >>> f = pb.jit(lambda x: 2.0 * x, in_shardings=pb.NamedSharding(mesh, pb.P("data")))
        >>> f.lower(pb.ArrayType((4,), "float32", sharding=pb.NamedSharding(mesh, pb.P())))
        Traceback (most recent call last):
            ...
        pullback.core.errors.ShardingMismatch: Argument x of <lambda> ... lies as f32[4]@(·) on AbstractMesh(data=2), but ...

    Cure: move it where it is needed: `pb.device_put(x, sharding)`.
        >>> f.lower(pb.ArrayType((4,), "float32", sharding=pb.NamedSharding(mesh, pb.P("data")))).out_info
        f32[4]
    """


class VaryingOutput(ShardingError):
    """A result of a shard_map may differ between devices, but its spec says that they share one value.

    The result would be that of any one of the devices.

    Fails:
        >>> import pullback as pb
        >>> P, mesh = pb.P, pb.make_mesh((1,), ("data",))
        >>> total = pb.shard_map(pb.numpy.sum, mesh=mesh, in_specs=P("data"), out_specs=P())
        >>> total(pb.numpy.ones(4))
        Traceback (most recent call last):
            ...
        pullback.core.errors.VaryingOutput: shard_map of sum: output, of type f32[]{data} on each device, may differ ...

    Cure: make the devices agree, or join their shards (`out_specs=P("data")`).
        >>> f = lambda x: pb.lax.psum(pb.numpy.sum(x), "data")
        >>> pb.shard_map(f, mesh=mesh, in_specs=P("data"), out_specs=P())(pb.numpy.ones(4))
        4.0:f32[]@():cpu(0)
    """


class NotLocal(ShardingError):
    """The values of an array were asked for of which other processes hold a part.

    Fails:
        >>> import pullback as pb
        >>> sharding = pb.NamedSharding(pb.sharding.AbstractMesh((2,), ("data",)), pb.P("data"))
        >>> pb.device_put(pb.numpy.ones(4), sharding)
        Traceback (most recent call last):
            ...
        pullback.core.errors.NotLocal: device_put of x: AbstractMesh(data=2) has no devices ...

    Cure: a mesh of devices; and for values that other processes hold, `x.addressable_shards`, or `pb.parallel.gather(x)`.
        >>> pb.device_put(pb.numpy.ones(4), pb.NamedSharding(pb.make_mesh((1,), ("data",)), pb.P("data")))
        [1. 1. 1. 1.]:f32[4]@(data):cpu(0)
    """


class WorldError(PullbackError, RuntimeError):
    """The processes of a world do not find each other, or do not agree.

    Before any of them calls XLA, which would end the process, they meet at plain sockets: who is missing, who was started
    twice, and in which versions they differ is said there. What another process did, or did not do, comes as such an error.

    Fails:
        >>> import pullback as pb
        >>> pb.distributed.get_value("the learning rate")
        Traceback (most recent call last):
            ...
        pullback.core.errors.WorldError: This process is alone: pb.distributed.initialize lets it join others...

    Cure: start all processes, each with its own number and the address of number 0, and have each call `initialize` first;
    `python -m pullback.launch -n 2 script.py` starts them on one machine. A process by itself can ask how many there are.
        >>> pb.distributed.is_initialized(), pb.distributed.process_count()
        (False, 1)
    """


class ProgramsDiffer(WorldError):
    """Processes were about to run different programs together, which XLA would wait for without an end.

    Fails: as if two processes had said these values.
        >>> from pullback.parallel.world import compare
        >>> compare("the compiled programs", {0: "jit(step) 5e0b", 1: "jit(evaluate) 77aa"})
        Traceback (most recent call last):
            ...
        pullback.core.errors.ProgramsDiffer: The processes differ in the compiled programs: rank 0 has jit(step) 5e0b; ...

    Cure: every process calls the same functions in the same order, with arrays of the same types; what only one of them is
    to do, such as printing, comes after.
        >>> compare("the compiled programs", {0: "jit(step) 5e0b", 1: "jit(step) 5e0b"}) is None
        True
    """


class PeerLost(WorldError):
    """Another process of the world has ended, or has not been heard of for so long that it counts as lost.

    What needs it can never be computed. Arrays that had been computed before are alive: write them down, and end, or go on with
    those that are left (`pb.distributed.elastic.reform`).

    Fails: as if the keeper had said so.
        >>> from pullback.parallel.liveness import Losses
        >>> Losses(lost={1: "its process (pid 4711 on node7) has ended"}).raise_if_lost()
        Traceback (most recent call last):
            ...
        pullback.core.errors.PeerLost: Rank 1 is lost: its process (pid 4711 on node7) has ended...

    Cure: find out there why it ended. Here nobody is lost.
        >>> Losses().raise_if_lost() is None
        True
    """

    ranks: tuple[int, ...] = ()  # those that are lost


class Fenced(WorldError):
    """This process was taken for lost, since no heartbeat came from it for too long, and the others have gone on without it.

    It may have been stopped, or have waited for something that does not let other threads run.

    Fails: as if the keeper had said so.
        >>> from pullback.parallel.liveness import Losses
        >>> Losses(fenced="no heartbeat came from it for 10 s").raise_if_lost()
        Traceback (most recent call last):
            ...
        pullback.core.errors.Fenced: This process was taken for lost (no heartbeat came from it for 10 s), and the others ...

    Cure: let it end; or give processes more time, `pb.distributed.initialize(..., heartbeat_timeout_seconds=100)`.
        >>> Losses().raise_if_lost() is None
        True
    """


class ProgramError(PullbackError, ValueError):
    """A Program, or the JSON of one, breaks a rule of the IR.

    Fails: an output that nothing defines.
        >>> import pullback as pb
        >>> from pullback.program.checking import check_program
        >>> from pullback.program.program import Program, Variable
        >>> x, y = (Variable(pb.ArrayType((3,), "float32")) for _ in range(2))
        >>> check_program(Program([x], [], [y]))
        Traceback (most recent call last):
            ...
        pullback.core.errors.ProgramError: In Program main: its output 0 is a variable of type f32[3] that nothing defines...

    Cure: `check_program` says all rules; docs/program-format.md describes the JSON.
        >>> check_program(Program([x], [], [x]))
        >>> Program([x], [], [x])
        <Program main: (f32[3]) -> (f32[3]), 0 equations>

    Fails: a parameter that is a function cannot be written as JSON.
        >>> noted = pb.Primitive("noted", result_type=lambda x, note: x, evaluate=lambda x, note: x)
        >>> pb.xpr(lambda x: noted(x, note=print), 1.0).to_json()
        Traceback (most recent call last):
            ...
        pullback.core.errors.ProgramError: Parameter 'note' of noted is a builtin_function_or_method, which is not data, ...

    Cure: parameters that are data: numbers, strings, dtypes, tuples, enums, records.
        >>> program = pb.xpr(lambda x: noted(x, note="a remark"), 1.0)
        >>> Program.from_json(program.to_json(), {"noted": noted}) == program
        True
    """


class ExportError(PullbackError, ValueError):
    """A function cannot be exported, or bytes are no export that can be read here.

    What is exported runs without the Python that it was made by. So it cannot call Python: callbacks, prints, and the few
    functions that NumPy or SciPy compute for compiled code too are refused, each by its name.

    Fails:
        >>> import pullback as pb
        >>> def f(x):
        ...     pb.debug.print("x is {}", x)
        ...     return 2.0 * x
        >>> pb.export.export(pb.jit(f))(1.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.ExportError: jit of f ... cannot be exported, since its operation callback calls Python, ...

    Cure: leave it out of what is exported.
        >>> pb.export.export(pb.jit(lambda x: 2.0 * x))(1.0).call(1.0)
        2.0:f32[]:cpu(0)
    """


class ForeignExecutable(ExportError):
    """An executable was made by another jaxlib, for another processor, or for a platform that is not here.

    It is machine code: where it was not made for, it may compute something else, or end the process. So it is not loaded there.

    Fails: here it is this process that seems to have another jaxlib.
        >>> from unittest import mock
        >>> import pullback as pb
        >>> data = pb.jit(lambda x: 2.0 * x).lower(1.0).compile().serialize()
        >>> with mock.patch("pullback.engine.shipping.fingerprint", lambda there, options: {"jaxlib": "0.0.1"}):
        ...     pb.export.load_executable(data)
        Traceback (most recent call last):
            ...
        pullback.core.errors.ForeignExecutable: This executable of <lambda> was made for another machine: its jaxlib was ...

    Cure: export the function as StableHLO, which is compiled where it is loaded.
        >>> data = pb.export.export(pb.jit(lambda x: 2.0 * x))(1.0).serialize()
        >>> pb.export.deserialize(data).call(1.0)
        2.0:f32[]:cpu(0)
    """


class TierMismatch(PullbackError, ArithmeticError):
    """Native code and XLA gave different numbers for one Program: PULLBACK_NATIVE=check compares them.

    Results that differ by roundings are taken for equal: by up to 1e-3 of the largest element in float32, 1e-9 in float64.

    Fails: where a rounding decides what comes next, both may be right.
        >>> import numpy as np
        >>> import pullback as pb
        >>> from pullback.native.checked import compare
        >>> compare("f", [np.float32(1.0)], [np.float32(2.0)])
        Traceback (most recent call last):
            ...
        pullback.core.errors.TierMismatch: Result 0 of jit(f), of dtype float32, is not the same by native code as by XLA: ...

    Cure: report it, unless the function is chaotic; leave the function to XLA meanwhile.
        >>> with pb.native_mode("off"):
        ...     pb.jit(lambda x: x + 1.0)(1.0)
        2.0:f32[]:cpu(0)
    """


class UnsupportedJaxlib(PullbackError, ImportError):
    """The jaxlib that is installed is missing, or is of a version that this one of pullback was not tested with.

    Only compiled code needs jaxlib; it is loaded, and looked at, when something is compiled for the first time.

    Fails: here it is the range of versions that only seems to be another one.
        >>> from unittest import mock
        >>> from pullback.engine.jaxlib import Jaxlib
        >>> with mock.patch("pullback.engine.jaxlib.SUPPORTED_JAXLIB", ((99, 0, 0), (99, 1, 0))):
        ...     Jaxlib()
        Traceback (most recent call last):
            ...
        pullback.core.errors.UnsupportedJaxlib: jaxlib ... is installed, but pullback was tested with 99.0.0 up to ...

    Cure: install one of the versions that the message names.
        >>> Jaxlib().version.count(".")
        2
    """


class CheckpointError(PullbackError, RuntimeError):
    """A checkpoint could not be written, or is not there.

    Fails:
        >>> import tempfile, pullback as pb
        >>> directory = tempfile.TemporaryDirectory()
        >>> pb.checkpoint.restore(directory.name)
        Traceback (most recent call last):
            ...
        pullback.core.errors.CheckpointError: There is no checkpoint in ...

    Cure: `pb.checkpoint.steps(directory)` lists those that there are; `pb.checkpoint.save` writes one.
        >>> pb.checkpoint.steps(directory.name)
        []
        >>> directory.cleanup()
    """


class CorruptCheckpoint(CheckpointError):
    """A file of a checkpoint, or of safetensors, is missing or damaged; the message names it.

    Fails:
        >>> import os, tempfile, pullback as pb
        >>> directory = tempfile.TemporaryDirectory()
        >>> path = os.path.join(directory.name, "weights.safetensors")
        >>> with open(path, "wb") as file:
        ...     file.write(b"nonsense")
        8
        >>> pb.checkpoint.load_safetensors(path)
        Traceback (most recent call last):
            ...
        pullback.core.errors.CorruptCheckpoint: ...weights.safetensors: ...

    Cure: restore another version (`pb.checkpoint.steps(directory)`), or copy the file again.
        >>> pb.checkpoint.save_safetensors(path, {"w": pb.numpy.ones(2)})
        >>> pb.checkpoint.load_safetensors(path)
        {'w': [1. 1.]:f32[2]:cpu(0)}
        >>> directory.cleanup()
    """


class MissingPackage(PullbackError, ImportError):
    """A package is needed that is not installed, since few programs need it; the message says how to install it.

    Fails: here it is a module of another name that is looked for.
        >>> from pullback.checkpoints.stores import package
        >>> package("nonsense")
        Traceback (most recent call last):
            ...
        pullback.core.errors.MissingPackage: Checkpoints need nonsense, ...

    Cure: install it, `pip install 'pullback[checkpoint]'`.
        >>> package("json").__name__
        'json'
    """


class ImpureFunction(PullbackError, RuntimeError):
    """In a `pb.checking(purity="error")` block, a function was traced twice, and gave two different programs.

    What is traced is run by Python once, and then replayed: a counter, a list that grows, `np.random` or the time are read at
    the trace, and never again.

    Fails:
        >>> import numpy as np, pullback as pb
        >>> noisy = pb.jit(lambda x: x + np.random.normal())
        >>> with pb.checking(purity="error"):
        ...     noisy(1.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.ImpureFunction: jit of <lambda> ... gave a different program when it was traced again...

    Cure: pass what changes as an argument; for random numbers, a key.
        >>> noisy = pb.jit(lambda x, key: x + pb.random.normal(key))
        >>> with pb.checking(purity="error"):
        ...     noisy(1.0, pb.random.key(0)).shape
        ()
    """


class LargeConstant(PullbackError, ValueError):
    """In a `pb.checking(constants="error")` block, a function was traced that closes over more bytes than it may.

    An array that a traced function closes over is a constant of its program: it is kept with it, compiled into it, and
    compared and copied with it.

    Fails:
        >>> import pullback as pb
        >>> table = pb.numpy.ones(1000)
        >>> with pb.checking(constants="error", constant_bytes=1000):
        ...     pb.jit(lambda i: table[i])(3)
        Traceback (most recent call last):
            ...
        pullback.core.errors.LargeConstant: jit of <lambda> ... closes over 4,000 bytes...

    Cure: pass the array as an argument.
        >>> with pb.checking(constants="error", constant_bytes=1000):
        ...     pb.jit(lambda table, i: table[i])(table, 3)
        1.0:f32[]:cpu(0)
    """


class UnusedArgument(PullbackError, TypeError):
    """In a `pb.checking(unused="error")` block, the result of a function does not depend on the value of one of its arguments.

    Fails:
        >>> import pullback as pb
        >>> with pb.checking(unused="error"):
        ...     pb.jit(lambda x, scale: 2.0 * x)(1.0, 3.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.UnusedArgument: The result of jit of <lambda> ... does not depend on the value of argument scale...

    Cure: use it, or leave it out; one whose name begins with an underscore may be unused.
        >>> with pb.checking(unused="error"):
        ...     pb.jit(lambda x, _scale: 2.0 * x)(1.0, 3.0)
        2.0:f32[]:cpu(0)
    """


class DtypeWidened(DtypeError):
    """In a `pb.checking(widening="error")` block, an operation converted an array to a wider dtype.

    Fails:
        >>> import pullback as pb
        >>> x, n = pb.numpy.ones(3, "bfloat16"), pb.numpy.ones(3, "float32")
        >>> with pb.checking(widening="error"):
        ...     x * n
        Traceback (most recent call last):
            ...
        pullback.core.errors.DtypeWidened: mul converts bfloat16 to float32...

    Cure: say in which dtype they are to meet.
        >>> with pb.checking(widening="error"):
        ...     (x * n.astype("bfloat16")).dtype
        dtype(bfloat16)
    """


class RankPromoted(ShapeError):
    """In a `pb.checking(rank_promotion="error")` block, arrays of different numbers of axes were broadcast.

    Fails:
        >>> import pullback as pb
        >>> x, row = pb.numpy.ones((3, 3)), pb.numpy.ones(3)
        >>> with pb.checking(rank_promotion="error"):
        ...     x - row
        Traceback (most recent call last):
            ...
        pullback.core.errors.RankPromoted: sub broadcasts shapes (3, 3) and (3,), ...

    Cure: say where the axes go.
        >>> with pb.checking(rank_promotion="error"):
        ...     (x - row[None, :]).shape
        (3, 3)
    """


class NotFinite(PullbackError, FloatingPointError):
    """In a `pb.checking(nan="error")` or `infinity="error"` block, an operation made NaN, or infinity, of other numbers.

    The message names the operation, its operands and the line; `pb.find_nan(f, *args)` finds the same without such a block.

    Fails:
        >>> import pullback as pb
        >>> with pb.checking(nan="error"):
        ...     pb.numpy.log(-1.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.NotFinite: NaN made by log: log(-1.0)...

    Cure: keep the operand where the function is defined.
        >>> with pb.checking(nan="error"):
        ...     pb.numpy.log(pb.numpy.maximum(-1.0, 1e-6))
        -13.815511:f32[]:cpu(0)
    """


class CheckWarning(UserWarning):
    """What a `pb.checking` block finds, where it is to warn.

    Example:
        >>> import warnings
        >>> import pullback as pb
        >>> with warnings.catch_warnings(record=True, action="always") as seen, pb.checking(nan="warn"):
        ...     y = pb.numpy.log(-1.0)
        >>> seen[0].category.__name__, str(seen[0].message).split(":")[0]
        ('CheckWarning', 'NaN made by log')
    """


class LargeProgramWarning(UserWarning):
    """A function was traced into a program of very many equations, which takes long to trace, compile and differentiate.

    The environment variable `PULLBACK_LARGE_PROGRAM` says how many are too many; 0 says that none are.

    Example:
        >>> import warnings
        >>> import pullback as pb
        >>> with warnings.catch_warnings(record=True, action="always") as seen:
        ...     program = pb.xpr(lambda x: sum([x * x for _ in range(6000)]), 1.0)
        >>> seen[0].category.__name__, len(program.equations)
        ('LargeProgramWarning', 12000)
    """


def __dir__() -> list[str]:
    return sorted(__all__)
