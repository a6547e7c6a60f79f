"""chex: assertions, dataclasses, variants of a test, counts of tracings."""

import functools
import json

import chex
import jax
import jax.numpy as jnp
import numpy as np


@chex.dataclass
class Moments:
    mean: chex.Array
    variance: chex.Array
    count: int = 0


@chex.dataclass(frozen=True, mappable_dataclass=False)
class Settings:
    rate: float
    decay: float


@jax.jit
def update(moments, sample):
    count = moments.count + 1
    delta = sample - moments.mean
    mean = moments.mean + delta / count
    return moments.replace(mean=mean, variance=moments.variance + delta * (sample - mean), count=count)


moments = Moments(mean=jnp.zeros(3), variance=jnp.zeros(3), count=0)
for sample in np.random.RandomState(0).normal(size=(10, 3)).astype(np.float32):
    moments = update(moments, sample)
chex.assert_shape(moments.mean, (3,))
chex.assert_rank([moments.mean, moments["variance"]], 1)
chex.assert_type(moments.mean, jnp.float32)
chex.assert_tree_all_finite(moments)
chex.assert_equal_shape([moments.mean, moments.variance])
chex.assert_trees_all_close(moments, jax.tree.map(lambda leaf: leaf * 1.0, moments))
chex.assert_trees_all_equal_structs(moments, jax.tree.map(jnp.zeros_like, moments))
chex.assert_trees_all_equal_shapes_and_dtypes(moments.mean, jnp.ones(3))
chex.assert_tree_shape_prefix({"a": jnp.ones((2, 3)), "b": jnp.ones((2,))}, (2,))
chex.assert_axis_dimension(jnp.ones((4, 5)), 1, 5)
chex.assert_scalar_in(0.5, 0, 1)
chex.assert_is_broadcastable((3,), (4, 3))
chex.assert_max_traces(n=1)


def refused(check, *args):
    try:
        check(*args)
    except AssertionError:
        return 1.0
    return 0.0


@jax.jit
@functools.partial(chex.assert_max_traces, n=1)
def traced_once(x):
    return x * 2


traced_once(jnp.ones(2))
results = {
    "moments": [*np.asarray(moments.mean).tolist(), *np.asarray(moments.variance / 9).tolist(), float(moments.count)],
    "refused": [
        refused(chex.assert_shape, jnp.ones(3), (4,)),
        refused(chex.assert_rank, jnp.ones(3), 2),
        refused(chex.assert_type, jnp.ones(3), int),
        refused(chex.assert_trees_all_close, {"a": jnp.ones(2)}, {"a": jnp.zeros(2)}),
        refused(chex.assert_trees_all_equal_structs, {"a": 1}, {"b": 1}),
        refused(chex.assert_tree_all_finite, {"a": jnp.array([1.0, jnp.nan])}),
        refused(traced_once, jnp.ones(3)),
        refused(chex.assert_trees_all_equal_shapes, jnp.ones(2), jnp.ones(3)),
    ],
    "settings": [jax.tree.reduce(lambda a, b: a + b, Settings(rate=0.1, decay=0.2))],
    "gradient": [jax.grad(lambda s: s.rate**2 * s.decay)(Settings(rate=3.0, decay=2.0)).rate.item()],
    "vmap": np.asarray(
        jax.vmap(update)(
            Moments(mean=jnp.zeros((2, 3)), variance=jnp.zeros((2, 3)), count=jnp.arange(2)), jnp.ones((2, 3))
        ).mean
    )[:, 0].tolist(),
}


class Doubling(chex.TestCase):
    @chex.variants(with_jit=True, without_jit=True, with_device=True, without_device=True)
    def test_doubling(self):
        double = self.variant(lambda x: x * 2)
        np.testing.assert_allclose(double(jnp.ones(3)), 2.0)
        passed.append(1.0)

    @chex.variants(with_jit=True)
    def test_static(self):
        scale = self.variant(static_argnums=1)(lambda x, power: x**power)
        np.testing.assert_allclose(scale(3.0, 2), 9.0)
        passed.append(1.0)


passed = []
for name in dir(Doubling):
    if name.startswith("test_"):
        getattr(Doubling(name), name)()
with chex.fake_jit():
    results["fake jit"] = [float(jax.jit(lambda x: float(x) * 2)(3.0))]
with chex.fake_pmap():
    results["fake pmap"] = np.asarray(jax.pmap(lambda x: x * 2)(jnp.arange(3.0))).tolist()
results["variants"] = passed
print(json.dumps(results))
