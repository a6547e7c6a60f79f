"""sharding_constraint: the identity, of which it is said how devices divide the value."""

from __future__ import annotations

from pullback.core.primitive import Rules, primitive
from pullback.core.shardings import UNCONSTRAINED, NamedSharding, PartitionSpec


@primitive
class sharding_constraint(Rules):
    """x, divided among the devices of a mesh as `sharding` says."""

    cost = 0
    linear = True
    needs_axis = True

    def result_type(x, *, sharding: NamedSharding):
        sharding.shard_shape(x.shape)  # refuses what cannot be
        return x.placed(sharding, x.varying)

    def lower(write, x, *, sharding):
        return write.constrained(x, sharding)

    def transpose(cotangent, x, *, sharding):
        return (sharding_constraint(cotangent, sharding=sharding),)

    def vectorize(batch, args, axes, *, sharding):
        (x,) = args
        if axes[0] is None:
            return sharding_constraint(x, sharding=sharding), None
        batched = NamedSharding(sharding.mesh, PartitionSpec(batch.spmd or UNCONSTRAINED, *sharding.spec))
        return sharding_constraint(x, sharding=batched), 0

    def axis_map(x, *, sharding):
        return ({axis: axis for axis in range(x.ndim)},)

    def samples(rng):
        return iter(())
