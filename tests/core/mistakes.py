"""The mistakes that beginners make most, each with what the error says: what was expected, what came, what to do.

A row is a program of a few lines, of which the one that the traceback ends at is marked `# here`.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """A program that fails, and words of its error."""

    code: str
    error: str
    expected: str
    got: str
    cure: str


STATIC = "make the argument that it depends on static (static_argnums in pb.jit)"

MISTAKES: dict[str, Mistake] = {
    # ---- Python asks for a value ----
    "if": Mistake(
        "def relu(x):\n    if x > 0:  # here\n        return x\n    return 0.0\n\npb.jit(relu)(1.0)",
        "TracerBoolConversionError", "Python needed True or False", "a traced value of type bool[]", "pb.lax.cond",
    ),
    "while": Mistake(
        "def f(x):\n    while x < 10:  # here\n        x = x * 2\n    return x\n\npb.jit(f)(1.0)",
        "TracerBoolConversionError", "Python needed True or False", "in jit of f", "pb.lax.while_loop",
    ),
    "and": Mistake(
        "@pb.jit\ndef f(x, y):\n    return pnp.where(x > 0 and y > 0, x, y)  # here\n\nf(1.0, 2.0)",
        "TracerBoolConversionError", "Python needed True or False", "made at", STATIC,
    ),
    "in a tuple": Mistake(
        "def f(x):\n    return x in (1, 2)  # here\n\npb.jit(f)(1.0)",
        "TracerBoolConversionError", "Python needed True or False", "traced value", "(x == y).any()",
    ),
    "max": Mistake(
        "def f(x):\n    return max(x, 0.0)  # here\n\npb.vmap(f)(pnp.ones(3))",
        "TracerBoolConversionError", "Python needed True or False", "in vmap of f", "pb.numpy.maximum",
    ),
    "range": Mistake(
        "def f(x, n):\n    for i in range(n):  # here\n        x = x + i\n    return x\n\npb.jit(f)(1.0, 3)",
        "TracerIntegerConversionError", "Python needed a number", "~i32[] (argument n)", "pb.lax.fori_loop",
    ),
    "a list's index": Mistake(
        "def f(i):\n    return [1.0, 2.0][i]  # here\n\npb.jit(f)(1)",
        "TracerIntegerConversionError", "Python needed a number", "(argument i)", "Index with x[i] of an array",
    ),
    "a shape": Mistake(
        "def f(n):\n    return pnp.zeros(n)  # here\n\npb.jit(f)(3)",
        "TracerIntegerConversionError", "shapes must be known", "~i32[] (argument n)", STATIC,
    ),
    "a reshape": Mistake(
        "def f(x, n):\n    return x.reshape(n, -1)  # here\n\npb.jit(f)(pnp.ones(6), 3)",
        "TracerIntegerConversionError", "shapes must be known", "(argument n)", STATIC,
    ),
    "a mask": Mistake(
        "def f(x):\n    return x[x > 0]  # here\n\npb.jit(f)(pnp.ones(3))",
        "NonConcreteBooleanIndexError", "how many elements it chooses is not known", "bool[3]", "pb.numpy.where(mask, x, 0)",
    ),
    "nonzero": Mistake(
        "def f(x):\n    return pnp.nonzero(x)  # here\n\npb.jit(f)(pnp.ones(3))",
        "TracerIntegerConversionError", "how many elements it chooses is not known", "bool[3]", "with size=",
    ),
    "NumPy": Mistake(
        "import numpy as np\ndef f(x):\n    return np.sin(x)  # here\n\npb.grad(f)(1.0)",
        "TracerArrayConversionError", "NumPy was given", "a traced value of type ~f32[] in grad of f", "pb.numpy's function",
    ),
    "math": Mistake(
        "import math\ndef f(x):\n    return math.sin(x)  # here\n\npb.grad(f)(1.0)",
        "TracerArrayConversionError", "Python needed a number", "~f32[] in grad of f", "pb.lax.stop_gradient(x)",
    ),
    "a format": Mistake(
        "def f(x):\n    print(f'{x:.3f}')  # here\n    return x\n\npb.jit(f)(1.0)",
        "TracerArrayConversionError", "Python needed a number", "(argument x)", "pb.debug.print('{:.3f}', x)",
    ),
    "item": Mistake(
        "def f(x):\n    return x.item()  # here\n\npb.jit(f)(1.0)",
        "TracerArrayConversionError", "Python needed its values", "(argument x)", "Keep it an array",
    ),
    "iteration": Mistake(
        "def f(n):\n    return [i for i in n]  # here\n\npb.jit(f)(3.0)",
        "TypeError", "cannot be iterated over", "0-d ~f32[]", "use range(int(x)), or fori_loop",
    ),
    "the truth of an array": Mistake(
        "x = pnp.ones(3)\nif x > 0:  # here\n    pass",
        "ValueError", "truth of an array of 3 elements", "bool[3]", "use .any() or .all()",
    ),
    "a leak": Mistake(
        "kept = []\n@pb.jit\ndef f(x):\n    kept.append(x * 2)\n    return x\n\nf(1.0)\nprint(kept[0] + 1)  # here",
        "EscapedTracerError", "belongs to jit of f", "It was made at", "Return it as an output",
    ),
    # ---- derivatives ----
    "grad of an array": Mistake(
        "def f(x):\n    return x ** 2\n\npb.grad(f)(pnp.ones(3))  # here",
        "GradientError", "needs a function with a 0-d output", "returned f32[3]", "Reduce it to a number",
    ),
    "grad by an integer": Mistake(
        "def f(x):\n    return x * x\n\npb.grad(f)(3)  # here",
        "GradientError", "integers and bools have none", "argument x, which is ~i32[]", "2.0 instead of 2",
    ),
    "grad by integers in a tree": Mistake(
        "def f(p):\n    return pnp.sum(p['w'] ** 2)\n\npb.grad(f)({'w': pnp.arange(3)})  # here",
        "GradientError", "integers and bools have none", "argument p['w'], which is i32[3]", "Pass floating-point numbers",
    ),
    "grad without a return": Mistake(
        "def f(x):\n    y = x ** 2\n\npb.grad(f)(3.0)  # here",
        "GradientError", "needs a function with one 0-d output", "returned None", "is a return missing?",
    ),
    "grad of a number": Mistake(
        "def f(x):\n    return x ** 2\n\npb.grad(f(3.0))  # here",
        "TypeError", "grad takes a function", "9.0 of type float", "Write grad(f)(x), not grad(f(x))",
    ),
    "grad of a pair": Mistake(
        "def f(x):\n    return x ** 2, x\n\npb.grad(f)(3.0)  # here",
        "GradientError", "needs a function with one 0-d output", "a tuple of 2 arrays", "has_aux=True",
    ),
    "argnums": Mistake(
        "def f(x, y):\n    return x * y\n\npb.grad(f, argnums=2)(3.0, 2.0)  # here",
        "GradientError", "argnums=2", "no argument 2 among the 2", "passed by position",
    ),
    "grad of a complex function": Mistake(
        "pb.grad(lambda z: pnp.sin(z))(1j)  # here",
        "GradientError", "needs real floating-point outputs", "returned ~c64[]", "holomorphic=True",
    ),
    "a tangent of another structure": Mistake(
        "def f(p):\n    return p['a'] * p['b']\n\npb.jvp(f, ({'a': 1.0, 'b': 2.0},), ({'a': 1.0},))  # here",
        "StructureError", "takes tangents like the primals", "tangents[0]['b'] is missing", "where primals[0] has a leaf",
    ),
    "jvp without tuples": Mistake(
        "pb.jvp(lambda x: x * x, 1.0, 1.0)  # here",
        "TypeError", "takes its primals as a tuple", "got 1.0", "Write (primals,)",
    ),
    "a cotangent of another structure": Mistake(
        "y, pull = pb.vjp(lambda x: (x, x), 1.0)\npull(1.0)  # here",
        "StructureError", "a tree like the output", "cotangent is a leaf", "the output has a tuple",
    ),
    "a cotangent of another shape": Mistake(
        "y, pull = pb.vjp(lambda x: x * 2, pnp.ones(3))\npull(1.0)  # here",
        "ShapeError", "shapes must be equal", "cotangent has type ~f32[]", "its output has type f32[3]",
    ),
    "a missing rule": Mistake(
        "sq = pb.Primitive('sq', evaluate=lambda x: x * x, result_type=lambda x: x)\npb.grad(lambda x: sq(x))(2.0)  # here",
        "MissingRule", "grad needs it", "primitive 'sq'", "Define it with @sq.def_jvp",
    ),
    "a missing rule of jit": Mistake(
        "sq = pb.Primitive('sq', evaluate=lambda x: x * x, result_type=lambda x: x)\npb.jit(lambda x: sq(x))(2.0)  # here",
        "MissingRule", "jit (compilation) needs it", "primitive 'sq'", "@sq.def_lower",
    ),
    "custom_vjp without rules": Mistake(
        "@pb.custom_vjp\ndef f(x):\n    return pnp.sum(x)\n\npb.grad(f)(pnp.ones(3))  # here",
        "MissingRule", "has no rule yet", "custom_vjp function f", "f.defvjp(fwd, bwd)",
    ),
    "custom_vjp with too few cotangents": Mistake(
        "@pb.custom_vjp\ndef f(x, y):\n    return x * y\nf.defvjp(lambda x, y: (x * y, y), lambda y, g: (g * y,))\n"
        "pb.grad(f)(1.0, 2.0)  # here",
        "StructureError", "a tuple with a cotangent for each argument, 2 of them", "returned (~f32[],)", "must return",
    ),
    "custom_vjp with a cotangent of another shape": Mistake(
        "@pb.custom_vjp\ndef f(x):\n    return pnp.sum(x)\nf.defvjp(lambda x: (pnp.sum(x), x), lambda x, g: (g,))\n"
        "pb.grad(f)(pnp.ones(3))  # here",
        "ShapeError", "argument 0 has f32[3]", "cotangents[0] is f32[]", "backward rule (bwd) of f",
    ),
    "custom_vjp without residuals": Mistake(
        "@pb.custom_vjp\ndef f(x):\n    return pnp.sum(x)\nf.defvjp(lambda x: pnp.sum(x), lambda x, g: (g * x,))\n"
        "pb.grad(f)(pnp.ones(3))  # here",
        "StructureError", "the output and the residuals", "returned f32[]", "must return a pair",
    ),
    "custom_jvp without a pair": Mistake(
        "@pb.custom_jvp\ndef f(x):\n    return x * x\nf.defjvp(lambda primals, tangents: 2 * primals[0] * tangents[0])\n"
        "pb.grad(f)(1.0)  # here",
        "StructureError", "the output and its tangent", "returned ~f32[]", "must return a pair",
    ),
    "forward mode through custom_vjp": Mistake(
        "@pb.custom_vjp\ndef f(x):\n    return x * x\nf.defvjp(lambda x: (x * x, x), lambda x, g: (2 * g * x,))\n"
        "pb.jvp(f, (1.0,), (1.0,))  # here",
        "GradientError", "it has a vjp rule, but no jvp rule", "cannot go through f", "@f.defjvp",
    ),
    # ---- vmap ----
    "in_axes of another length": Mistake(
        "def f(x, y):\n    return x + y\n\npb.vmap(f, in_axes=(0,))(pnp.ones(3), pnp.ones(3))  # here",
        "StructureError", "in_axes=(0,), of length 1", "passed by position is 2", "the number of arguments",
    ),
    "in_axes out of range": Mistake(
        "def f(x, y):\n    return x + y\n\npb.vmap(f, in_axes=(0, 1))(pnp.ones(3), pnp.ones(3))  # here",
        "AxisError", "batch argument y along axis 1", "type f32[3]", "whose only axis is 0",
    ),
    "in_axes as text": Mistake(
        "pb.vmap(lambda x: x, in_axes='x')(pnp.ones(3))  # here",
        "AxisError", "in_axes must be an int, None, a tuple", "got 'x'", "an entry for each argument",
    ),
    "nothing batched": Mistake(
        "pb.vmap(lambda x: x, in_axes=None)(pnp.ones(3))  # here",
        "AxisError", "no batched argument", "the number of batch elements is unknown", "pass axis_size",
    ),
    "a batch of a number": Mistake(
        "def f(x, y):\n    return x + y\n\npb.vmap(f)(pnp.ones(3), 2.0)  # here",
        "AxisError", "batch argument y along axis 0", "~f32[], which has no axes", "use None for what is not batched",
    ),
    "batches of two sizes": Mistake(
        "def loss(p, x):\n    return pnp.sum(p['w'] * x)\n\npb.vmap(loss)({'w': pnp.ones(3)}, pnp.ones((8, 3)))  # here",
        "AxisError", "argument p['w'] has size 3", "argument x has size 8", "None in in_axes",
    ),
    "an axis without a name": Mistake(
        "pb.vmap(lambda x: x / pb.lax.psum(x, 'batch'))(pnp.ones(3))  # here",
        "AxisNameError", "no axis named 'batch'", "no vmap or shard_map is around", "axis_name='batch'",
    ),
    # ---- jit ----
    "a static list": Mistake(
        "def f(x, shape):\n    return pnp.reshape(x, shape)\n\npb.jit(f, static_argnums=1)(pnp.ones(4), [2, 2])  # here",
        "StaticArgumentError", "Argument shape of f", "of type list: [2, 2]", "Pass a tuple instead of a list",
    ),
    "a static array": Mistake(
        "def f(x, n):\n    return x * n\n\npb.jit(f, static_argnums=1)(pnp.ones(4), pnp.array(2))  # here",
        "StaticArgumentError", "must be hashable", "of type Array", "do not make it static",
    ),
    "an object": Mistake(
        "class Model:\n    w = 1.0\n\npb.grad(lambda m, x: m.w * x)(Model(), 1.0)  # here",
        "LeafError", "neither an array nor a number", "argument m is <", "pb.tree.register_node",
    ),
    "a text": Mistake(
        "def f(x, mode):\n    return x\n\npb.jit(f)(1.0, 'train')  # here",
        "LeafError", "neither an array nor a number", "argument mode is 'train' of type str", "static_argnums",
    ),
    "a donated array": Mistake(
        "step = pb.jit(lambda s: s + 1, donate_argnums=0)\nstate = pnp.zeros(3)\nnew = step(state)\nprint(state)  # here",
        "DonatedBufferError", "was donated to a compiled function", "This array (f32[3])", "Keep using the function's result",
    ),
    "a donated argument": Mistake(
        "step = pb.jit(lambda s: s + 1, donate_argnums=0)\nstate = pnp.zeros(3)\nstep(state)\nstep(state)  # here",
        "DonatedBufferError", "Argument s of <lambda>", "was donated before", "Keep using the function's result",
    ),
    # ---- loops and branches ----
    "a carry that grows": Mistake(
        "def f(c, x):\n    return pnp.concatenate([c, x[None]]), c\n\npb.lax.scan(f, pnp.zeros(1), pnp.ones(3))  # here",
        "ShapeError", "must return the carry as it takes it", "carry is f32[2] where it takes f32[1]", "change the one",
    ),
    "scan without a pair": Mistake(
        "def f(c, x):\n    return c + x\n\npb.lax.scan(f, 0.0, pnp.ones(3))  # here",
        "StructureError", "must return a pair (carry, y)", "it returned f32[]", "scan's body f",
    ),
    "scan of one argument": Mistake(
        "def f(c):\n    return c, c\n\npb.lax.scan(f, 0.0, pnp.ones(3))  # here",
        "TypeError", "scan calls its function as f(carry, x)", "here with 2 arguments", "f() takes 1 positional argument",
    ),
    "scan of two lengths": Mistake(
        "def f(c, x):\n    return c, c\n\npb.lax.scan(f, 0.0, (pnp.ones(3), pnp.ones(4)))  # here",
        "AxisError", "needs one number of steps", "xs[0] has 3, xs[1] has 4", "scan of f",
    ),
    "fori_loop without an index": Mistake(
        "pb.lax.fori_loop(0, 3, lambda x: x + 1, 0.0)  # here",
        "TypeError", "as body_fun(i, value)", "here with 2 arguments", "takes 1 positional argument",
    ),
    "a condition that is no bool": Mistake(
        "pb.lax.while_loop(lambda x: x, lambda x: x - 1.0, 3.0)  # here",
        "DtypeError", "must return a 0-d bool", "it returned ~f32[]", "compare it with something",
    ),
    "while_loop of another shape": Mistake(
        "pb.lax.while_loop(lambda x: x[0] < 3, lambda x: pnp.sum(x), pnp.ones(3))  # here",
        "ShapeError", "must return the value as it takes it", "value is f32[] where it takes f32[3]", "(.astype, reshape)",
    ),
    "grad of a while_loop": Mistake(
        "pb.grad(lambda x: pb.lax.while_loop(lambda x: x < 10, lambda x: x * 2, x))(1.0)  # here",
        "GradientError", "needs a bound on the number of its steps", "through the while_loop of <lambda>", "max_steps=n",
    ),
    "branches of two structures": Mistake(
        "@pb.jit\ndef f(x):\n    return pb.lax.cond(x > 0, lambda x: x, lambda x: (x, x), x)  # here\n\nf(1.0)",
        "StructureError", "must return the same structure", "output is a leaf", "returns a tuple",
    ),
    "branches of two shapes": Mistake(
        "@pb.jit\ndef f(x):\n    return pb.lax.cond(x.sum() > 0, lambda x: x, lambda x: x[:2], x)  # here\n\nf(pnp.ones(3))",
        "ShapeError", "must return the same shapes", "output as f32[2]", "Broadcast or reshape one of them",
    ),
    "cond of values": Mistake(
        "pb.lax.cond(True, 1.0, 2.0)  # here",
        "TypeError", "cond takes a function as true_fun", "got 1.0 of type float", "a function",
    ),
    "cond of an array": Mistake(
        "pb.lax.cond(pnp.ones(3) > 0, lambda x: x, lambda x: -x, 1.0)  # here",
        "ShapeError", "cond takes a 0-d predicate", "got bool[3]", "use pb.numpy.where",
    ),
    # ---- arrays ----
    "matmul": Mistake(
        "def f(w, x):\n    return x @ w  # here\n\npb.jit(f)(pnp.ones((3, 4)), pnp.ones((8, 4)))",
        "ShapeError", "matmul of f32[8,4] and f32[3,4]", "of the first has size 4", "the last but one of the second 3",
    ),
    "broadcasting": Mistake(
        "def f(x, b):\n    return x + b  # here\n\npb.jit(f)(pnp.ones((8, 4)), pnp.ones(5))",
        "ShapeError", "add cannot broadcast", "shapes (8, 4) and (5,)", "two sizes must be equal, or one of them 1",
    ),
    "concatenate of two sizes": Mistake(
        "pnp.concatenate([pnp.ones((2, 3)), pnp.ones((2, 4))])  # here",
        "ShapeError", "needs arrays that agree in all other axes", "f32[2,3], f32[2,4]", "along axis 0",
    ),
    "concatenate without a list": Mistake(
        "pnp.concatenate(pnp.ones((2, 3)), pnp.ones((2, 4)))  # here",
        "AxisError", "takes an int as axis", "one of type f32[2,4]", "concatenate([a, b])",
    ),
    "stack": Mistake(
        "pnp.stack([pnp.ones(3), pnp.ones(4)])  # here",
        "ShapeError", "takes arrays of one shape", "f32[3], f32[4]", "stack takes",
    ),
    "einsum": Mistake(
        "pnp.einsum('ij,jk->ik', pnp.ones((2, 3)), pnp.ones((4, 5)))  # here",
        "ShapeError", "label 'j' has size 3 in operand 0", "but 4 in operand 1", "One label must stand for one size",
    ),
    "reshape": Mistake(
        "pnp.ones((3, 4)).reshape(5, -1)  # here",
        "ShapeError", "which has 12 elements", "the shape (5, -1)", "Sizes must multiply to that number",
    ),
    "an axis that is not there": Mistake(
        "pnp.sum(pnp.ones((2, 3)), axis=2)  # here",
        "AxisError", "an array with axes 0 to 1", "axis 2 is out of bounds", "Count them from 0",
    ),
    "a ragged list": Mistake(
        "pnp.array([[1, 2], [3]])  # here",
        "ShapeError", "form no array", "the nested lists are ragged", "Pad them to one length",
    ),
    "a number that does not fit": Mistake(
        "pnp.array([300], 'int8')  # here",
        "OverflowError", "which holds those from -128 to 127", "an integer in the list does not fit into int8", "a wider dtype",
    ),
    "a dtype that is none": Mistake(
        "pnp.ones(3, dtype='float23')  # here",
        "DtypeError", "not a dtype that an array can have", "'float23'", "those are bool, int8",
    ),
    "a bitwise operation on floats": Mistake(
        "pnp.ones(3) & pnp.ones(3)  # here",
        "DtypeError", "and_ takes bool or integer operands", "got f32[3], f32[3]", "Convert with .astype()",
    ),
    "a list in place of an array": Mistake(
        "pnp.mean([1, 2, 3])  # here",
        "LeafError", "mean takes arrays and numbers", "[1, 2, 3] of type list", "pb.numpy.asarray",
    ),
    "an index out of bounds": Mistake(
        "x = pnp.arange(3)\nx[5]  # here", "IndexError", "axis 0 of size 3", "Index 5", "out of bounds",
    ),
    "a fraction as an index": Mistake(
        "x = pnp.arange(4)\nx[len(x) / 2]  # here",
        "IndexDtypeError", "indexed with integers", "not 2.0", "bools, slices, None and ...",
    ),
    "too many indices": Mistake(
        "x = pnp.arange(4)\nx[0, 1]  # here", "IndexError", "shape (4,), which takes 1 at most", "indices: 2", "at most",
    ),
    "an assignment": Mistake(
        "x = pnp.arange(4)\nx[0] = 1  # here", "TypeError", "Arrays are immutable", "x[0] = y", "x = x.at[0].set(y)",
    ),
    "an array as a key": Mistake(
        "{pnp.array(1): 2}  # here", "TypeError", "cannot be hashed", "An Array", "use id(x)",
    ),
    # ---- random numbers, names, other libraries' ways ----
    "a key used twice": Mistake(
        "key = pb.random.key(0)\nwith pb.random.checked_keys():\n    x = pb.random.normal(key)\n"
        "    y = pb.random.normal(key)  # here",
        "KeyReuseError", "both would draw the same bits", "a key that normal has used up", "pb.random.split(key)",
    ),
    "a seed as a key": Mistake(
        "pb.random.normal(0, (3,))  # here", "LeafError", "takes a random key first", "got ~i32[]", "pb.random.key(seed)",
    ),
    "a shape as a key": Mistake(
        "pb.random.normal((3,))  # here", "LeafError", "takes a random key first", "(3,) of type tuple", "pb.random.key(seed)",
    ),
    "a misspelled name": Mistake("pb.gard(abs)  # here", "AttributeError", "module 'pullback'", "'gard'", "did you mean grad?"),
    "PyTorch's backward": Mistake(
        "x = pnp.ones(3)\n(x * x).sum().backward()  # here", "AttributeError", "'Array' object", "'backward'", "pb.grad(f)(x)",
    ),
    "PyTorch's numpy": Mistake(
        "pnp.ones(3).numpy()  # here", "AttributeError", "'Array' object", "'numpy'", "numpy.asarray(x)",
    ),
    "trees of two structures": Mistake(
        "pb.tree.map(lambda x, y: x + y, {'a': 1}, {'b': 1})  # here",
        "StructureError", "the first tree has keys 'a'", "a dict of keys 'b'", "must have what the first one has",
    ),
    "a function by its result": Mistake(
        "pb.jit(pnp.ones(3))  # here", "TypeError", "jit takes a function", "of type Array", "Write jit(f)(x), not jit(f(x))",
    ),
    "vjp by its result": Mistake(
        "pb.vmap(2.0)  # here", "TypeError", "vmap takes a function", "2.0 of type float", "Write vmap(f)(x), not vmap(f(x))",
    ),
    "a device that is not there": Mistake(
        "pb.devices('abacus')  # here", "DeviceError", "no platform 'abacus'", "'abacus'", "known are 'cpu'",
    ),
}  # fmt: skip
