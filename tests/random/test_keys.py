"""Keys: an array of one dtype that all movements of arrays take, and nothing that computes; and the watch on their use."""

import copy
import functools
import pickle

import numpy as np
import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback import errors, random
from pullback.ops.generators import FEW

KEY = random.key(0)
KEYS = random.split(KEY, 4)


def words(keys):
    return np.asarray(random.key_data(keys))


MOVES = {
    "index": (lambda k: k[1], lambda d: d[1]),
    "slice": (lambda k: k[::-2], lambda d: d[::-2]),
    "at a traced place": (lambda k: k[pnp.asarray(2) + 1], lambda d: d[3]),
    "reshape": (lambda k: k.reshape(2, 2).T, lambda d: d.reshape(2, 2, 2).transpose(1, 0, 2)),
    "concatenate": (lambda k: pnp.concatenate([k, k[:1]]), lambda d: np.concatenate([d, d[:1]])),
    "stack": (lambda k: pnp.stack([k, k]), lambda d: np.stack([d, d])),
    "where": (lambda k: pnp.where(pnp.arange(4) < 2, k, k[::-1]), lambda d: d[[0, 1, 1, 0]]),
    "set": (lambda k: k.at[0].set(k[3]), lambda d: d[[3, 1, 2, 3]]),
    "take": (lambda k: pnp.take(k, pnp.array([3, 0])), lambda d: d[[3, 0]]),
    "update slice": (lambda k: pb.lax.dynamic_update_slice(k, k[2:], (0,)), lambda d: d[[2, 3, 2, 3]]),
    "broadcast": (lambda k: pnp.broadcast_to(k[0], (3,)), lambda d: d[[0, 0, 0]]),
    "cond": (lambda k: pb.lax.cond(pnp.sum(words_of(k)) > 0, lambda: k[1], lambda: k[2]), lambda d: d[1]),
    "scan": (lambda k: pb.lax.scan(lambda c, x: (x, c), k[0], k)[1], lambda d: d[[0, 0, 1, 2]]),
    "while": (lambda k: pb.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, k[c[0]]), (0, k[3]))[1], lambda d: d[2]),
    "vmap": (lambda k: pb.vmap(lambda one: one, in_axes=1, out_axes=1)(k.reshape(2, 2)), lambda d: d.reshape(2, 2, 2)),
    "out of bounds": (lambda k: pnp.take(k, 9, mode="fill"), lambda d: np.full(2, 0xFFFFFFFF)),
}


def words_of(keys):
    return random.key_data(keys).astype("float32")


@pytest.mark.parametrize("name", MOVES)
def test_keys_move_as_their_words_do(name) -> None:
    move, expected = MOVES[name]
    for got in (move(KEYS), pb.jit(move)(KEYS)):
        assert got.dtype == KEYS.dtype
        np.testing.assert_array_equal(words(got), expected(words(KEYS)))


REFUSED = {
    "add": lambda k: k + k,
    "add a number": lambda k: k + 1,
    "negate": lambda k: -k,
    "astype": lambda k: k.astype("uint32"),
    "order": lambda k: k < k,
    "sum": lambda k: k.sum(),
    "sine": pnp.sin,
    "set a number": lambda k: k.at[0].set(0),
    "where with a number": lambda k: pnp.where(True, k, 0),
    "pad": lambda k: pnp.pad(k, 1),
    "callback": lambda k: pb.pure_callback(lambda x: 0.0, pnp.zeros(()), k),
}


@pytest.mark.parametrize("name", REFUSED)
def test_keys_are_no_numbers(name) -> None:
    for call in (REFUSED[name], pb.jit(REFUSED[name])):
        with pytest.raises(errors.DtypeError, match="andom keys"):
            call(KEYS)


@pytest.mark.parametrize(
    "ask",
    [np.asarray, lambda k: k.tolist(), lambda k: k[0].item(), lambda k: bool(k[0]), lambda k: float(k[0]), memoryview],
)
def test_numpy_sees_no_keys(ask) -> None:
    with pytest.raises((errors.DtypeError, TypeError)):
        ask(KEYS)


def test_no_derivative_with_respect_to_a_key() -> None:
    with pytest.raises(errors.GradientError, match="key"):
        pb.grad(lambda k: random.normal(k))(KEY)
    assert pb.grad(lambda x, k: x * random.normal(k))(1.0, KEY) == random.normal(KEY)


def test_keys_are_copied_pickled_printed_and_written_as_json() -> None:
    for same in (pickle.loads(pickle.dumps(KEYS)), copy.deepcopy(KEYS)):
        np.testing.assert_array_equal(words(same), words(KEYS))
    assert str(random.key(42)) == "[ 0 42]:key<fry>[]:cpu(0)"
    program = pb.xpr(lambda k: random.split(k)[1], KEY)
    again = type(program).from_json(program.to_json(), {p.name: p for p in pb.testing.all_primitives()})
    assert again == program and "key<fry>" in str(again)


def test_the_dtype_of_keys() -> None:
    assert pnp.issubdtype(KEY.dtype, random.prng_key) and not pnp.issubdtype(pnp.uint32, random.prng_key)
    assert random.key_dtype() == KEY.dtype and random.key_impl(KEY) == "threefry2x32"
    with pytest.raises(errors.DtypeError, match="random keys"):
        pnp.arange(3, dtype=KEY.dtype)
    with pytest.raises(ValueError, match="threefry2x32"):
        random.key(0, impl="other")


@pytest.mark.parametrize(
    ("seed", "narrow", "wide"),
    [(42, (0, 42), (0, 42)), (-1, (0, 0xFFFFFFFF), (0xFFFFFFFF,) * 2), (2**40 + 5, (0, 5), (256, 5))],
)
def test_seeds(seed, narrow, wide) -> None:
    assert tuple(words(random.key(seed))) == narrow
    with pb.default_bits(64):
        assert tuple(words(random.key(seed))) == wide
        assert tuple(words(pb.jit(random.key)(seed))) == wide
    assert tuple(words(random.key(np.int64(seed)))) == wide


def test_wrong_seeds_and_keys() -> None:
    for seed, error in ((1.5, errors.DtypeError), (np.zeros(2, int), errors.ShapeError), (2**64, OverflowError)):
        with pytest.raises(error):
            random.key(seed)
    for key in (0, np.zeros(3, np.uint32), np.zeros(2, np.int32), None):
        with pytest.raises(errors.LeafError, match="key"):
            random.normal(key)
    with pytest.raises(errors.ShapeError, match="vmap"):
        random.normal(KEYS)
    with pytest.raises(OverflowError):
        random.fold_in(KEY, -1)


def test_raw_keys_do_what_typed_ones_do() -> None:
    raw = random.PRNGKey(42)
    assert raw.dtype == np.uint32 and raw.shape == (2,)
    np.testing.assert_array_equal(random.split(raw, 3), words(random.split(random.key(42), 3)))
    np.testing.assert_array_equal(random.fold_in(np.asarray(raw), 3), words(random.fold_in(random.key(42), 3)))
    np.testing.assert_array_equal(random.normal(raw, (3,)), random.normal(random.wrap_key_data(raw), (3,)))


@pytest.mark.parametrize("draw", [random.split, lambda k: random.normal(k, (3,)), lambda k: random.fold_in(k, 7)])
def test_a_batch_of_keys_draws_as_a_loop_does(draw) -> None:
    def data(x):
        return words(x) if x.dtype == KEY.dtype else np.asarray(x)

    expected = np.stack([data(draw(key)) for key in KEYS])
    for batched in (pb.vmap(draw), pb.jit(pb.vmap(draw))):
        np.testing.assert_array_equal(data(batched(KEYS)), expected)


# ---- the watch on reuse --------------------------------------------------------------------------------------------------


REUSES = {
    "two draws": lambda k: (random.normal(k), random.bits(k)),
    "draw and split": lambda k: (random.normal(k), random.split(k)),
    "split twice": lambda k: (random.split(k), random.split(k)),
}


@pytest.mark.parametrize("name", REUSES)
def test_reuse_is_caught(name) -> None:
    call = REUSES[name]
    for key in (random.key(1), random.PRNGKey(1)):
        with random.checked_keys():
            with pytest.raises(errors.KeyReuseError, match="split"):
                call(key)
            with pytest.raises(errors.KeyReuseError):
                pb.jit(lambda k: call(k))(key)
            with pytest.raises(errors.KeyReuseError):
                pb.vmap(lambda k: call(k))(key[None])
        call(key)


def test_what_is_no_reuse() -> None:
    with random.checked_keys():
        first, second = random.split(KEY)
        random.normal(first), random.normal(second)
        random.normal(random.clone(first))
        random.fold_in(KEYS[3], 1), random.fold_in(KEYS[3], 1)
        with random.checked_keys(False):
            random.normal(first)
        pb.jit(lambda k: random.normal(k))(KEYS[3])
        with pytest.raises(errors.ShapeError):
            random.normal(KEYS[2], -1)
        random.normal(KEYS[2])


def test_reuse_of_batches_of_keys_is_caught() -> None:
    for keys in (KEYS, random.key_data(KEYS)):
        with random.checked_keys():
            pb.vmap(lambda k: random.normal(k))(keys)
            with pytest.raises(errors.KeyReuseError):
                pb.vmap(lambda k: random.uniform(k))(keys)
            with pytest.raises(errors.KeyReuseError):
                random.uniform(keys[1])
            pb.vmap(lambda k: random.normal(random.clone(k)))(keys)


def drawn(branch):
    return lambda k: pb.lax.switch(branch, [lambda: random.normal(k), lambda: random.uniform(k), lambda: 0.0])


ONE_OF_SEVERAL = {
    "one draw in each branch": (drawn(0), False),
    "branches in branches": (lambda k: pb.lax.cond(True, lambda: drawn(1)(k), lambda: random.normal(k)), False),
    "two draws in one branch": (lambda k: pb.lax.cond(True, lambda: drawn(0)(k) + random.normal(k), lambda: 0.0), True),
    "before it": (lambda k: (random.normal(k), drawn(0)(k)), True),
    "behind it, after the first branch": (lambda k: (drawn(2)(k), random.normal(k)), True),
    "behind it, after the last branch": (
        lambda k: (pb.lax.cond(True, lambda: 0.0, lambda: random.normal(k)), random.normal(k)),
        True,
    ),
}


@pytest.mark.parametrize("name", ONE_OF_SEVERAL)
@pytest.mark.parametrize("transform", [lambda f: f, pb.jit], ids=["known", "traced"])
def test_of_branches_that_close_over_a_key_one_alone_uses_it(name, transform) -> None:
    call, again = ONE_OF_SEVERAL[name]
    with random.checked_keys():
        if again:
            with pytest.raises(errors.KeyReuseError):
                transform(lambda k: call(k))(KEY)
        else:
            transform(lambda k: call(k))(KEY)


# ---- programs --------------------------------------------------------------------------------------------------------------


def test_a_loop_of_draws_compiles_small() -> None:
    def walk(key, steps):
        return pb.lax.fori_loop(0, steps, lambda i, x: x + random.normal(random.fold_in(key, i)), 0.0)

    short, long = (len(pb.jit(walk, static_argnums=1).lower(KEY, steps).as_text()) for steps in (3, 300))
    assert long < short + 100


def test_what_draws_are_broadcast_to_does_not_draw_them_again() -> None:
    """Where XLA fused the generator into what reads it, a mask of 1000 took as long as a million draws."""
    masked = pb.jit(lambda key, x: x * random.bernoulli(key, 0.5, (1000,)))
    optimized = masked.lower(KEY, pnp.ones((1000, 1000))).compile().as_text()
    assert " while(" in optimized and optimized.count("shift-left") < 100


def test_eager_numbers_are_the_compiled_ones() -> None:
    """However many there are: one integer of Python's holds few bits, NumPy draws more of them, and XLA many, in programs of a
    few sizes."""
    for shape in ((), (3,), (8,), (9,), (65,), (1000, 3), (40_000,), (0, 3)):
        for sample in (random.bits, random.uniform, random.normal):
            np.testing.assert_array_equal(sample(KEY, shape), pb.jit(lambda k: sample(k, shape))(KEY))
    for count in (FEW, FEW + 1):
        np.testing.assert_array_equal(random.bits(KEY, (count,)), random.bits(KEY, (FEW + 1,))[:count])
    last = random.split(random.wrap_key_data(np.full(2, (1 << 32) - 1, np.uint32)))  # with which all sums overflow
    np.testing.assert_array_equal(words(last), [[1094285764, 1314454335], [1355514454, 2365093262]])
    for count in (1, 2, 9):
        several = [pb.vmap(random.split), pb.vmap(lambda k: random.fold_in(k, (1 << 32) - 1))]
        for function in several:
            made = function(random.split(KEY, count))
            assert words(made).tolist() == words(pb.jit(function)(random.split(KEY, count))).tolist()


def test_keys_are_equal_where_their_words_are() -> None:
    expected = [False, True, False, False]
    assert (KEYS[1] == KEYS).tolist() == expected and (KEYS[1] != KEYS).tolist() == [True, False, True, True]
    assert pb.jit(pnp.equal)(KEYS, KEYS[1]).tolist() == expected
    assert pb.vmap(lambda one: one == KEYS[1])(KEYS).tolist() == expected
    assert random.key(1) == random.key(1) and random.key(1) != random.key(2)
    with pytest.raises(errors.DtypeError, match="lt takes bool"):
        KEY < KEY  # noqa: B015


@pytest.mark.parametrize("name", ["threefry2x32", "philox2x32", "rbg"])
def test_arrays_of_keys_are_made_as_others_are(name) -> None:
    """So that a tree of buffers can be made of the types of a state that holds keys."""
    keys = random.split(random.key(3, impl=name), 2)
    makers = {
        0: (pnp.zeros, pnp.empty, pnp.zeros_like, pnp.empty_like),
        1: (pnp.ones, pnp.ones_like),
        100: (functools.partial(pnp.full, fill_value=100), functools.partial(pnp.full_like, fill_value=100)),
    }
    for number, functions in makers.items():
        for i, make in enumerate(functions):
            like = 2 * i >= len(functions)
            for way in (lambda f: f, pb.jit):
                made = way(lambda keys, make=make, like=like: make(keys) if like else make((2,), dtype=keys.dtype))(keys)
                assert made.dtype is keys.dtype and made.shape == (2,)
                np.testing.assert_array_equal(words(made), np.full_like(words(keys), number))
    np.testing.assert_array_equal(words(pnp.full((3,), keys[0])), np.stack([words(keys[0])] * 3))
    np.testing.assert_array_equal(words(pnp.full_like(keys, keys[1])), np.stack([words(keys[1])] * 2))
    np.testing.assert_array_equal(words(pb.vmap(pnp.zeros_like)(keys)), np.zeros_like(words(keys)))
    with pytest.raises(errors.DtypeError, match="random keys are no numbers"):
        pnp.full((2,), 1.5, keys.dtype)


def test_the_dtype_of_keys_may_be_named_for_keys() -> None:
    for same in (pnp.array(KEYS, KEYS.dtype), pnp.asarray(KEYS, dtype=KEYS.dtype), KEYS.astype(KEYS.dtype)):
        assert same.dtype is KEYS.dtype and words(same).tolist() == words(KEYS).tolist()
    for wrong in (lambda: pnp.array([1, 2], KEYS.dtype), lambda: pnp.ones(2).astype(KEYS.dtype)):
        with pytest.raises(errors.DtypeError, match="random keys are no numbers"):
            wrong()
