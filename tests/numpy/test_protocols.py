"""Python's and NumPy's protocols on Arrays, and what a traced value answers instead."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_text():
    assert repr(pnp.array([1.0, 2.0, 3.0])) == "[1. 2. 3.]:f32[3]:cpu(0)"
    assert str(pnp.asarray(25.5)) == "25.5:f32[]:cpu(0)"
    assert str(pnp.ones((1, 2), pnp.bfloat16)) == "[[1. 1.]]:bf16[1,2]:cpu(0)"
    assert f"{pnp.asarray(2.5):.2f}" == "2.50" and f"{pnp.asarray(3)}" == "3:i32[]:cpu(0)"


def test_conversion_to_python_and_numpy():
    x = pnp.asarray(X)
    assert len(x) == 2 and [row.tolist() for row in x] == X.tolist() and 3.0 in x and 9.0 not in x
    assert float(x[0, 1]) == 1.0 and int(x[1, 2]) == 5 and complex(x[0, 1]) == 1 and bool(x[0, 1]) and not x[0, 0]
    assert [10, 20, 30][pnp.asarray(1)] == 20 and list(range(pnp.asarray(2))) == [0, 1]
    assert x.tolist() == X.tolist() and x[0, 2].item() == 2.0 and x.item(4) == 4.0 and x.tobytes() == X.tobytes()
    seen = np.asarray(x)
    assert seen.dtype == np.float32 and not seen.flags.writeable and seen is not np.array(x)
    assert np.asarray(x, np.float64).dtype == np.float64
    assert np.array(x, copy=True).flags.writeable
    assert (
        np.sum(x) == 15.0
        and np.max(x, axis=0).tolist() == [3, 4, 5]
        and np.clip(x, 1, 2).shape == (2, 3)
        and isinstance(np.sin(x), np.ndarray)
    )


def test_refusals():
    x = pnp.asarray(X)
    with pytest.raises(ValueError, match=r"\.any\(\)"):
        bool(x)
    with pytest.raises(TypeError, match="one element"):
        float(x)
    with pytest.raises(TypeError, match="integers"):
        [1][pnp.asarray(0.5)]
    with pytest.raises(TypeError, match="no axes"):
        len(pnp.asarray(1.0))
    with pytest.raises(TypeError, match="iterated"):
        iter(pnp.asarray(1.0))
    with pytest.raises(TypeError, match=r"cannot be hashed.*id\(x\)"):
        hash(x)
    with pytest.raises(TypeError, match=r"x\.at\[0, 1:2\]\.set\(y\)"):
        x[0, 1:2] = 1.0


def test_copies_and_pickles():
    x = pnp.asarray(X)
    for same in (copy.copy(x), copy.deepcopy({"x": x})["x"], x.copy()):
        assert same is not x and same.type is x.type and same.tolist() == X.tolist()
    for value in (x, pnp.asarray(2.0), pnp.ones((2,), pnp.bfloat16), pnp.zeros((0, 3))):
        back = pickle.loads(pickle.dumps(value))
        assert back.type is value.type and back.tobytes() == value.tobytes()


def test_other_libraries():
    x = pnp.asarray(X)
    assert np.from_dlpack(x).tolist() == X.tolist()
    assert x.__dlpack_device__()[0] == 1
    assert pnp.from_dlpack(X).tolist() == X.tolist()
    assert x.__array_namespace__() is pnp
    if sys.version_info >= (3, 12):
        assert memoryview(x).tolist() == X.tolist()


METHODS = {
    "reshape": (3, 2),
    "ravel": (),
    "flatten": (),
    "transpose": (1, 0),
    "swapaxes": (0, 1),
    "sum": (0,),
    "mean": (),
    "max": (1,),
    "min": (),
    "prod": (),
    "any": (),
    "all": (),
    "argmax": (1,),
    "argmin": (),
    "std": (),
    "var": (0,),
    "dot": (X.T,),
    "squeeze": (),
    "clip": (1, 3),
    "round": (1,),
    "conj": (),
    "take": ([1, 0],),
    "diagonal": (),
    "repeat": (2,),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_as_numpy(name):
    args = METHODS[name]
    expected = getattr(X, name)(*args)
    got = getattr(pnp.asarray(X), name)(*args)
    np.testing.assert_allclose(np.asarray(got), expected, rtol=1e-6)
    np.testing.assert_allclose(np.asarray(pb.jit(lambda x: getattr(x, name)(*args))(X)), expected, rtol=1e-6)


def test_attributes():
    x = pnp.asarray(X)
    assert (x.T.shape, x.mT.shape, x.real is x, x.nbytes, x.itemsize, x.ndim, x.size) == ((3, 2), (3, 2), True, 24, 4, 2, 6)
    assert x.imag.tolist() == np.zeros((2, 3)).tolist() and not x.weak_type and pnp.asarray(1).weak_type
    assert x.astype(int).dtype == np.int32 and x.block_until_ready() is x and x.trace().tolist() == 4.0
    assert x.devices() == {x.device} and x.to_device(x.device) is x
    assert pb.jit(lambda x: x.T.astype("float16") * x.nbytes)(X).dtype == np.float16


# ---- traced values ----------------------------------------------------------------------------------------------------


def loss(x):
    if x.sum() > 0:
        return x
    return -x


def test_a_traced_truth_names_everything():
    with pytest.raises(pb.errors.TracerBoolConversionError) as caught:
        pb.jit(loss)(X)
    text = str(caught.value)
    for part in ("bool[]", "jit of loss", "test_protocols.py", "pb.lax.cond", "pb.numpy.where", "static_argnums"):
        assert part in text, part
    with pytest.raises(pb.errors.TracerBoolConversionError, match="vmap of loss"):
        pb.vmap(loss)(X)
    with pytest.raises(pb.errors.TracerBoolConversionError, match="jit"):
        pb.jit(pb.grad(lambda x: x if x > 0 else -x))(1.0)


def test_a_traced_number_names_its_argument():
    with pytest.raises(pb.errors.TracerIntegerConversionError, match="argument n"):
        pb.jit(lambda n: list(range(n)))(3)
    with pytest.raises(pb.errors.TracerArrayConversionError, match="astype"):
        pb.jit(lambda x: float(x))(3.0)
    with pytest.raises(pb.errors.TracerArrayConversionError, match=r"pb.numpy's function"):
        pb.jit(lambda x: np.sin(x))(X)
    with pytest.raises(pb.errors.TracerIntegerConversionError, match="static"):
        pb.jit(lambda n: pnp.zeros(n))(3)
    with pytest.raises(pb.errors.TracerIntegerConversionError, match="static"):
        pb.jit(lambda x, n: x.reshape(n, -1))(X, 3)
    with pytest.raises(TypeError, match=r"\.at\[0\]\.set"):
        pb.jit(lambda x: x.__setitem__(0, 1.0))(X)
    with pytest.raises(TypeError, match="hashed"):
        pb.jit(lambda x: {x: 1})(X)
    with pytest.raises(pb.errors.TracerArrayConversionError):
        pb.grad(lambda x: np.sin(x))(1.0)


def test_an_escaped_value_says_so():
    kept = []
    pb.jit(lambda x: kept.append(x) or x)(X)
    for use in (lambda x: x + 1, bool, float, np.asarray):
        with pytest.raises(pb.errors.EscapedTracerError, match="escaped"):
            use(kept[0])


def test_traced_text():
    seen = []
    pb.jit(lambda x: seen.append(str(x)) or x)(X)
    pb.grad(lambda x: seen.append(f"{x:.1f}") or x)(2.0)
    assert seen[0].startswith("Traced<f32[2,3]> in jit of") and seen[1].startswith("2.0")


# ---- error messages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call,error,parts",
    [
        (lambda: pnp.ones(3) + pnp.ones(4), pb.errors.ShapeError, ["(3,)", "(4,)", "test_protocols.py"]),
        (lambda: pnp.multiply(pnp.ones((2, 3)), pnp.ones((3, 2))), pb.errors.ShapeError, ["multiply", "(2, 3)", "(3, 2)"]),
        (lambda: pnp.add([1.0], 2.0), pb.errors.LeafError, ["add", "argument 0", "list", "pnp.asarray"]),
        (lambda: pnp.sin("x"), pb.errors.LeafError, ["sin", "'x'", "str"]),
        (lambda: pnp.sum(pnp.ones(3), axis=1), pb.errors.AxisError, ["sum", "axis 1", "axis 0 alone"]),
        (lambda: pnp.sum(pnp.ones(3), axis=(0, 0)), pb.errors.AxisError, ["twice"]),
        (lambda: pnp.max(pnp.ones((0,))), ValueError, ["max", "no"]),
        (lambda: pnp.ones((2, 3)) @ pnp.ones((2, 3)), pb.errors.ShapeError, ["matmul", "f32[2,3]", "size 3"]),
        (lambda: pnp.reshape(pnp.ones(6), (4, -1)), pb.errors.ShapeError, ["reshape", "6 elements"]),
        (lambda: pnp.concatenate([pnp.ones(3), pnp.ones((2, 2))]), pb.errors.ShapeError, ["concatenate", "f32[3]"]),
        (lambda: pnp.stack([pnp.ones(3), pnp.ones(2)]), pb.errors.ShapeError, ["stack", "f32[2]"]),
        (lambda: pnp.array([[1, 2], [3]]), pb.errors.ShapeError, ["ragged"]),
        (lambda: pnp.array(object()), pb.errors.LeafError, ["array", "object"]),
        (lambda: pnp.einsum("ij,jk", pnp.ones((2, 3)), pnp.ones((4, 5))), pb.errors.ShapeError, ["'j'", "3", "4"]),
        (lambda: pnp.einsum("ij->k", pnp.ones((2, 3))), pb.errors.ShapeError, ["letters"]),
        (lambda: pnp.broadcast_to(pnp.ones(3), (4,)), pb.errors.ShapeError, ["(3,)", "(4,)"]),
        (lambda: pnp.squeeze(pnp.ones(3), 0), pb.errors.ShapeError, ["squeeze", "f32[3]"]),
        (lambda: pnp.transpose(pnp.ones((2, 3)), (0, 0)), pb.errors.AxisError, ["transpose"]),
        (lambda: pnp.split(pnp.ones(5), 2), pb.errors.ShapeError, ["split", "2 equal parts"]),
        (lambda: pnp.zeros(3, "U5"), pb.errors.DtypeError, ["float32"]),
        (lambda: pnp.asarray(2**40), OverflowError, ["int32", "default_bits"]),
    ],
)
def test_messages(call, error, parts):
    with pytest.raises(error) as caught:
        call()
    for part in parts:
        assert part in str(caught.value), str(caught.value)


def test_import_is_light():
    heavy = ("jaxlib", "scipy", "rich", "optree", "matplotlib", "jax")
    code = f"import sys, pullback; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="nonsense"):
        pb.nonsense  # noqa: B018
    assert pb.nn.relu(-1.0) == 0.0 and "nn" in dir(pb)


_VIEWED = ["bool", "int8", "uint16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.parametrize("of", _VIEWED)
@pytest.mark.parametrize("to", _VIEWED)
def test_the_bits_of_an_array_read_as_another_dtype(of, to):
    of, to = pnp.dtype(getattr(pnp, of, of)), pnp.dtype(getattr(pnp, to, to))
    bits = np.random.default_rng(0).integers(0, 2 if pnp.bool_ in (of, to) else 60, (2, 32), np.uint8)
    x = bits.view(of)
    for view in (lambda x: x.view(to), pb.jit(lambda x: x.view(to))):
        out = view(pnp.asarray(x))
        assert out.dtype == to and out.shape == x.view(to).shape and np.asarray(out).tobytes() == bits.tobytes()


def test_what_cannot_be_divided_into_elements_has_no_view():
    for shape in ((), (3,)):
        with pytest.raises(pb.errors.ShapeError, match="no whole number of them"):
            pnp.zeros(shape, "int8").view("int16")
    with pytest.raises(pb.errors.DtypeError, match="keys"):
        pb.random.key(0).view("uint32")
