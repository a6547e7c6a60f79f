"""Images made larger and smaller, by the names and signatures of `jax.image`."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
