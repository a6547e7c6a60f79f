"""Nobody can write to an Array: not through what leaves it, not through what it was made of. And a copy is a copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.primitive import Primitive

add_one = pb.jit(lambda x: x + 1)

ARRAYS: dict[str, Callable[[], Any]] = {
    "host": lambda: pnp.array([1.0, 2.0, 3.0]),
    "device": lambda: add_one(pnp.array([1.0, 2.0, 3.0])),
    "both": lambda: (x := pnp.array([1.0, 2.0]), add_one(x))[0],
    "scalar": lambda: pnp.asarray(2.0),
    "reduced": lambda: pnp.sum(pnp.array([1.0, 2.0])),
    "bfloat16": lambda: pnp.array([1.0, 2.0], "bfloat16"),
    "bfloat16 on a device": lambda: add_one(pnp.array([1.0, 2.0], "bfloat16")),
    "float8": lambda: pnp.array([1.0, 2.0], "float8_e5m2"),
    "complex": lambda: pnp.array([1j, 2.0]),
    "bool": lambda: pnp.array([True, False]),
    "empty": lambda: pnp.zeros((0, 3)),
    "large": lambda: pnp.array(np.ones((600, 600))),
    "strided": lambda: pnp.array([[1.0, 2.0], [3.0, 4.0]])[::2, ::-1],
    "transposed": lambda: pnp.array([[1.0, 2.0], [3.0, 4.0]]).T,
    "reshaped": lambda: pnp.array([[1.0, 2.0], [3.0, 4.0]]).reshape(-1),
    "broadcast": lambda: pnp.broadcast_to(pnp.array([1.0, 2.0]), (3, 2)),
    "shared zero": lambda: pb.grad(lambda a, b: a)(1.0, 2.0) * 0 + pb.grad(lambda a, b: a, 1)(1.0, 2.0),
    "shared one": lambda: pb.grad(lambda a: a)(1.0),
}
EXPORTS: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "__array__": lambda x: x.__array__(),
    "view": lambda x: x.view(),
    "host": lambda x: np.asarray(x.host) if isinstance(x.host, np.ndarray) else x.view(),
    "device_get": pb.device_get,
    "dlpack": np.from_dlpack,
    "view of a view": lambda x: np.asarray(x).view(),
    "one of a list": lambda x: np.asarray([np.asarray(x)][0])[...],
}


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("name", ARRAYS)
def test_what_leaves_cannot_be_made_writeable(name: str, export: str) -> None:
    x = ARRAYS[name]()
    if export == "dlpack" and x.dtype.isbuiltin != 1:
        with pytest.raises(BufferError):
            np.from_dlpack(x)
        return
    seen = EXPORTS[export](x)
    assert seen.dtype == x.dtype and seen.shape == x.shape and seen.tolist() == x.tolist()
    while isinstance(seen, np.ndarray):  # neither itself nor what it is a view of
        assert not seen.flags.writeable
        with pytest.raises(ValueError, match="WRITEABLE"):
            seen.flags.writeable = True
        with pytest.raises(ValueError, match="WRITEABLE"):
            seen.setflags(write=True)
        with pytest.raises(ValueError, match="read-only"):
            seen[...] = 5
        seen = seen.base


def test_a_consumer_that_knows_no_read_only_memory_gets_a_copy() -> None:
    class Legacy:
        def __init__(self, x: Any) -> None:
            self.x = x

        def __dlpack__(self, **options: Any) -> Any:
            return self.x.__dlpack__()  # no version: an unversioned capsule, which has no flag for read-only memory

        def __dlpack_device__(self) -> tuple[int, int]:
            found: tuple[int, int] = self.x.__dlpack_device__()
            return found

    x = pnp.array([1.0, 2.0])
    seen = np.from_dlpack(Legacy(x))
    assert x.tolist() == [1.0, 2.0] and not np.shares_memory(seen, np.asarray(x))
    with pytest.raises(BufferError):
        x.__dlpack__(copy=False)
    assert float(pb.grad(lambda x: x * x)(3.0)) == 6.0


def test_numpy_gets_a_copy_of_its_own_when_it_asks() -> None:
    x = pnp.array([1.0, 2.0])
    for mine in (np.array(x), np.array(x, copy=True), np.from_dlpack(x, copy=True), np.asarray(x, np.float64)):
        mine[...] = 5
    assert x.tolist() == [1.0, 2.0]


def _through_jit(x: Any) -> Any:
    return pb.jit(lambda x: x)(x)


ENTRANCES: dict[str, Callable[[Any], Any]] = {
    "array": pnp.array,
    "array without copy": lambda x: pnp.array(x, copy=False),
    "asarray": pnp.asarray,
    "from_dlpack": pnp.from_dlpack,
    "a list": lambda x: pnp.array([x])[0],
    "an operator": lambda x: pnp.reshape(x, (3,)),
    "jit": _through_jit,
    "device_put": pb.device_put,
    "identity": lambda x: pb.jvp(lambda y: y, (x,), (x,))[0],
}


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize("name", ENTRANCES)
def test_what_enters_is_copied(name: str, readonly: bool) -> None:
    mine = np.array([1.0, 2.0, 3.0], np.float32)
    given = mine.view()
    given.flags.writeable = not readonly  # a read-only view of memory to which its owner can write
    x = ENTRANCES[name](given)
    mine[...] = 7
    assert np.asarray(x).tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("readonly", [False, True])
def test_residuals_and_programs_keep_no_memory_of_the_caller(readonly: bool) -> None:
    from_numpy = np.array([1.0, 2.0], np.float32)
    given = from_numpy.view()
    given.flags.writeable = not readonly
    scale = pb.jit(lambda x, y: x * y)
    pulls = [
        pb.vjp(lambda y: pnp.sum(y * given), pnp.ones(2))[1],
        pb.vjp(lambda y: pnp.sum(scale(y, given)), pnp.ones(2))[1],
        pb.vjp(lambda y: pnp.sum(Product(y, given)), pnp.ones(2))[1],
    ]
    program = pb.jit(lambda y: y * given)
    program(pnp.ones(2))
    from_numpy[...] = 9
    for pull in pulls:
        assert pull(1.0)[0].tolist() == [1.0, 2.0]
    assert program(pnp.ones(2)).tolist() == [1.0, 2.0]


Product = Primitive(
    "Product",
    evaluate=lambda x, y: x * y,
    result_type=lambda x, y: x,
    partials=lambda out, x, y: (y, x),
    lower="stablehlo.multiply",
)


def test_a_rule_of_a_user_can_neither_write_to_its_operands_nor_keep_its_result() -> None:
    kept: list[Any] = []

    def evaluate(x: Any) -> Any:
        kept.append(x)
        out = np.zeros(2, np.float32)
        kept.append(out)
        return out

    primitive = Primitive("leaky", evaluate=evaluate, result_type=lambda x: x)
    x = pnp.array([1.0, 2.0])
    y = primitive(x)
    operand, out = kept
    with pytest.raises(ValueError, match="read-only"):
        operand += 1
    out[...] = 7
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("transformed", [lambda f: f, pb.jit], ids=["eager", "compiled"])
def test_a_callback_writes_to_a_copy_of_its_own(transformed: Any) -> None:
    written = []

    def spoil(x: Any) -> None:
        x[...] = 5
        written.append(x.tolist())

    x = pnp.array([1.0, 2.0])
    transformed(lambda x: pb.debug.callback(spoil, x))(x)
    doubled = transformed(lambda x: pb.pure_callback(lambda x: np.multiply(x, 2, out=x), x.type, x))(x)
    assert written == [[5.0, 5.0]] and doubled.tolist() == [2.0, 4.0]
    assert x.tolist() == [1.0, 2.0]


# ---- copies -----------------------------------------------------------------------------------------------------------

COPIES: dict[str, Callable[[Any], Any]] = {
    ".copy()": lambda x: x.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": lambda x: copy.deepcopy({"x": x})["x"],
    "array": pnp.array,
    "array(copy=True)": lambda x: pnp.array(x, copy=True),
    "asarray(copy=True)": lambda x: pnp.asarray(x, copy=True),
    "numpy.copy": pnp.copy,
    "astype(copy=True)": lambda x: x.astype(x.dtype, copy=True),
    "device_put": pb.device_put,
    "device_put to its device": lambda x: pb.device_put(x, x.device),
    "from_dlpack": pnp.from_dlpack,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
}


@pytest.mark.parametrize("where", ["host", "device", "both"])
@pytest.mark.parametrize("name", COPIES)
def test_a_copy_outlives_the_donation_of_its_original(name: str, where: str) -> None:
    donating = pb.jit(lambda x: x * 2, donate_argnums=0)
    original = ARRAYS[where]()
    values = np.array(original)
    made = COPIES[name](original)
    assert made is not original and made.type is original.type
    assert donating(original).tolist() == (2 * values).tolist()
    with pytest.raises(pb.errors.DonatedBufferError):
        np.asarray(original)
    assert made.tolist() == values.tolist()
    donating(made)
    with pytest.raises(pb.errors.DonatedBufferError):
        made.copy()


def test_the_average_of_parameters() -> None:
    step = pb.jit(lambda w: w - 1.0, donate_argnums=0)
    w = pnp.zeros(4)
    average = w.copy()
    for _ in range(3):
        w = step(w)
        average = 0.5 * average + 0.5 * w
    assert average.tolist() == [-2.125] * 4


def test_asarray_copies_only_what_it_must() -> None:
    x = pnp.array([1.0, 2.0])
    assert pnp.asarray(x) is x and pnp.asarray(x, copy=False) is x and x.astype(x.dtype) is x
    for foreign in (np.ones(2), 1.0, [1.0]):
        with pytest.raises(ValueError, match="without a copy"):
            pnp.asarray(foreign, copy=False)


def test_constants_shared_by_everyone_cannot_be_donated_away() -> None:
    def loss(used: Any, unused: Any) -> Any:
        return used

    donating = pb.jit(lambda g: g + 1.0, donate_argnums=0)
    for _ in range(3):  # a training loop whose step donates the gradients
        used, unused = pb.grad(loss, (0, 1))(2.0, pnp.ones(3))
        assert used == 1.0 and unused.tolist() == [0.0, 0.0, 0.0]
        donating(used)
        donating(unused)
        two = pb.grad(lambda x: 2.0 * x)(1.0)
        assert two == 2.0
        donating(two)
        assert pb.grad(lambda x: x * x)(3.0) == 6.0


@pytest.mark.parametrize("change", ["host.shape = (2, 2)", "host.dtype = np.int8"])
def test_what_is_done_to_the_shape_of_a_view_is_not_done_to_the_array(change: str) -> None:
    x = pnp.arange(4.0)
    host = x.host
    exec(change)
    assert host.shape != (4,)
    assert x.host.shape == (4,) and x.host.dtype == np.float32
    assert np.asarray(x).tolist() == [0.0, 1.0, 2.0, 3.0]
