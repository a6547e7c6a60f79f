"""The generators of random numbers: their bits are JAX's, eager and compiled, and their keys move about as all keys do."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import pullback as pb
from pullback import errors, lax, random
from pullback import numpy as pnp
from pullback.core.modes import overriding
from pullback.ops import generators

NAMES = [name for name in generators.GENERATORS if name != "threefry2x32"]

# Made by JAX 0.10.2 of key(1234): the words of the key, those of fold_in(key, 7) and of split(key, (2, 3))[0, 1]; the first
# five of 15 bytes, of 15 numbers of 16 bits, and of 32; the bits of the second and of the last of six keys, split(key, (2, 3)),
# under vmap; the first of seven normal numbers; and of 100000 the last.
RECORDED = {
    "rbg": [
        [0, 1234, 0, 1234],
        [3539328958, 3006788168, 3539328958, 3006788168],
        [2877103387, 1697627890, 2877103387, 1697627890],
        [143, 175, 144, 43, 107],
        [49551, 59055, 63120, 5419, 7531],
        [1676853647, 3962431151, 1276901008, 1565332779, 2103450987],
        [182285505, 2705754856, 2429462797],
        [3488448184, 1969935299, 2917885097],
        -0.2782171070575714,
        1.4664820432662964,
    ],
    "unsafe_rbg": [
        [0, 1234, 0, 1234],
        [2104303640, 250183001, 1106406590, 1983639396],
        [1328254359, 3435809816, 413654131, 3967365635],
        [143, 175, 144, 43, 107],
        [49551, 59055, 63120, 5419, 7531],
        [1676853647, 3962431151, 1276901008, 1565332779, 2103450987],
        [2768224176, 2774527532, 550143082],
        [1192828777, 2931872043, 460155346],
        -0.2782171070575714,
        1.4664820432662964,
    ],
    "threefry4x32": [
        [3563788860, 1666968687, 1079806586, 2878693046],
        [800227206, 1595515882, 3285679701, 2973169717],
        [3652120256, 2031744910, 2555438987, 3296265520],
        [58, 157, 42, 42, 166],
        [31034, 30109, 1066, 53034, 24486],
        [845773114, 3206182301, 583402538, 3961311018, 90857382],
        [1022963816, 3194443394, 3852213174],
        [2005779556, 1699345245, 1418349597],
        -0.852667510509491,
        1.4447969198226929,
    ],
    "philox2x32": [
        [1246922571],
        [1629738436],
        [3574324524],
        [233, 31, 150, 50, 185],
        [49641, 26655, 61078, 60978, 60857],
        [3992895977, 1642031135, 2453204630, 4040093234, 4154453433],
        [2657614843, 111490929, 4277773374],
        [1482937423, 3799694252, 3195598534],
        1.473326325416565,
        -0.08092224597930908,
    ],
    "philox4x32": [
        [1465684080, 1513956712],
        [3803475361, 870847745],
        [2771510942, 2832725433],
        [139, 77, 123, 45, 87],
        [53899, 34893, 22651, 13101, 63831],
        [3866808971, 594577485, 3366344827, 3763614509, 1016723799],
        [3471308147, 2876055303, 3801017878],
        [1386872730, 2750630792, 4131510766],
        1.2833292484283447,
        0.16767452657222748,
    ],
}


def words(keys: pb.Array) -> np.ndarray:
    return np.asarray(random.key_data(keys))


def measured(key: pb.Array) -> list:
    split = random.split(key, (2, 3))
    batch = pb.vmap(lambda key: random.bits(key, (3,)))(split.reshape(-1))
    return [
        words(key).tolist(),
        words(random.fold_in(key, 7)).tolist(),
        words(split[0, 1]).tolist(),
        *[random.bits(key, (3, 5), dtype).reshape(-1)[:5].tolist() for dtype in ("uint8", "uint16", "uint32")],
        batch[1].tolist(),
        batch[5].tolist(),
        random.normal(key, (7,))[0].item(),
    ]


@pytest.mark.parametrize("name", list(RECORDED))
def test_numbers_are_those_of_jax(name) -> None:
    recorded, far = RECORDED[name][:-1], RECORDED[name][-1]
    key = random.key(1234, impl=name)
    assert measured(key) == recorded
    assert random.normal(key, (100_000,))[-1].item() == far  # by XLA's generator, since there are many

    def compiled(key):
        return random.bits(key, (3, 5), "uint16"), random.fold_in(key, 7), random.split(key, (2, 3))

    bits, folded, split = pb.jit(compiled)(pb.jit(lambda seed: random.key(seed, impl=name))(1234))
    assert bits.reshape(-1)[:5].tolist() == recorded[4] and words(folded).tolist() == recorded[1]
    assert words(split[0, 1]).tolist() == recorded[2]
    batch = pb.jit(pb.vmap(lambda key: random.bits(key, (3,))))(split.reshape(-1))
    assert [batch[1].tolist(), batch[5].tolist()] == recorded[6:8]


@pytest.mark.parametrize(
    ("function", "key", "counter", "out"),
    [
        (generators.threefry2x32, [0, 0], [0, 0], "6b200159 99ba4efe"),
        (generators.threefry4x32, [0] * 4, [0] * 4, "9c6ca96a e17eae66 fc10ecd4 5256a7d8"),
        (generators.philox2x32, [0], [0, 0], "ff1dae59 6cd10df2"),
        (generators.philox4x32, [0, 0], [0] * 4, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ],
)
def test_hashes_are_those_of_random123(function, key, counter, out) -> None:
    made = function(*[[np.full(1, word, np.uint32) for word in words] for words in (key, counter)])
    assert " ".join(f"{word[0]:08x}" for word in made) == out


@pytest.mark.parametrize("name", NAMES)
def test_keys_move_about_unchanged(name) -> None:
    """Those of four words are complex numbers to XLA, some with NaN of all kinds for their parts."""
    generator = generators.GENERATORS[name]
    rows = np.random.default_rng(0).integers(0, 1 << 32, (6, generator.size), np.uint32)
    rows[0], rows[1], rows[2] = 0xFFFFFFFF, 0x7FF00001, 0xFFF00000
    keys = random.wrap_key_data(rows, impl=name)

    def moved(keys):
        chosen = pnp.where(pnp.arange(6) < 3, keys, keys[::-1])
        stacked = pnp.concatenate([chosen, keys[2:4]])
        looped, _ = lax.scan(lambda carry, one: (carry.at[0].set(one), None), stacked, keys)
        return stacked, looped, pnp.take(keys, pnp.array([4, 0])), keys.reshape(2, 3).T, keys[1]

    for eager, compiled in zip(moved(keys), pb.jit(moved)(keys)):
        np.testing.assert_array_equal(words(eager), words(compiled))
    np.testing.assert_array_equal(words(moved(keys)[0]), rows[[0, 1, 2, 2, 1, 0, 2, 3]])
    np.testing.assert_array_equal(words(pb.jit(lambda: keys)()), rows)
    assert (keys == keys).all() and not (keys == keys[::-1]).any() and pb.jit(lambda k: (k != k).any())(keys) == False  # noqa: E712
    one_bit = rows.copy()
    one_bit[:, -1] ^= 1 << 31
    assert (pb.jit(lambda x, y: x != y)(keys, random.wrap_key_data(one_bit, impl=name))).all()
    np.testing.assert_array_equal(words(pickle.loads(pickle.dumps(keys))), rows)
    program = pb.xpr(lambda k: random.split(k)[1], keys[0])
    again = type(program).from_json(program.to_json(), {p.name: p for p in pb.testing.all_primitives()})
    assert again == program and f"key<{generator.dtype.names[0]!s}>" in str(again)


def test_known_bits_of_streams_at_the_end_of_their_counter() -> None:
    """NumPy's and XLA's agree where 64 bits of the counter overflow into those above."""
    key = random.wrap_key_data(np.array([0xFFFFFFFF, 7, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32), impl="rbg")
    for dtype in ("uint8", "uint16", "uint32", "uint64"):
        np.testing.assert_array_equal(random.bits(key, (21,), dtype), pb.jit(lambda k: random.bits(k, (21,), dtype))(key))


@pytest.mark.parametrize("name", ["rbg", "unsafe_rbg", "philox2x32"])
def test_distributions(name) -> None:
    key = random.key(5, impl=name)
    assert abs(float(random.normal(key, (20_000,)).mean())) < 0.03
    assert abs(float(random.gamma(key, 3.0, (500,)).mean()) - 3) < 0.4
    assert sorted(random.permutation(key, 10).tolist()) == list(range(10))
    keys = random.split(key, 4)
    assert len({row.tobytes() for row in words(keys)}) == 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("rbg", [[0.18382954597473145, 0.8646818995475769], [0.35971468687057495, 0.4690760374069214]]),
        ("unsafe_rbg", [[0.1590835452079773, 1.3778836727142334], [0.23806361854076385, 2.896334409713745]]),
    ],
)
def test_gamma_numbers_of_batches_of_streams(name, expected) -> None:
    """Recorded from jax 0.10.2 on a CPU: each is drawn by itself, under vmap too."""
    keys = random.split(random.key(5, impl=name), 2)
    drawn = pb.vmap(lambda key: random.gamma(key, pnp.array([0.5, 2.0])))(keys)
    np.testing.assert_allclose(drawn, expected, rtol=1e-5)


def test_generators_are_chosen() -> None:
    with pytest.raises(ValueError, match="no generator of random numbers; those are 'threefry2x32', 'threefry4x32'"):
        random.key(0, impl="mersenne")
    with pytest.raises(ValueError, match="same thing"):
        random.key(0, impl="rbg", dtype=random.key_dtype("rbg"))
    with pytest.raises(errors.LeafError, match="words of keys of rbg, an array of uint32 whose shape ends with 4"):
        random.wrap_key_data(np.zeros(2, np.uint32), impl="rbg")
    with pytest.raises(errors.DtypeError, match="no common dtype"):
        pnp.concatenate([random.key(0, impl="rbg").reshape(1), random.key(0).reshape(1)])
    with overriding(generator="rbg"):
        assert random.key_impl(random.key(0)) == "rbg" and random.PRNGKey(0).shape == (4,)
        draw = pb.jit(random.bits)
        inside = draw(random.PRNGKey(3))
    assert inside == random.bits(random.key(3, impl="rbg"))


def test_gumbel_numbers_of_64_bits() -> None:
    """The sum was found with JAX 0.10.2, as were the first numbers."""
    drawn = random.gumbel(random.key(3), (2000,), mode="highest")
    assert drawn[:2].tolist() == [2.5647566318511963, -1.023512363433838]
    assert np.asarray(drawn).view(np.uint32).astype(np.uint64).sum() == 3662686647579
    assert random.gumbel(random.key(3), (3,), "float16", mode="highest").dtype == np.float16
    assert random.categorical(random.key(0), pnp.zeros(3), shape=(4,), mode="highest").shape == (4,)


def test_an_axis_of_a_permutation_of_a_number_is_looked_at() -> None:
    with pytest.raises(errors.AxisError):
        random.permutation(random.key(0), 10, axis=3)
