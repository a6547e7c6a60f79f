"""The primitives, a family in each module. What `jax.ops` has stands in `pullback` itself."""

from typing import NoReturn


def __getattr__(name: str) -> NoReturn:
    hint = f": it is pb.{name}." if name.startswith("segment_") else "."
    raise AttributeError(f"module 'pullback.ops' has no attribute {name!r}{hint}", name=name)
