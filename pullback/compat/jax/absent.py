"""Names of JAX's that are not here: why, and what there is in their place. Errors read this, and so does the documentation."""

from __future__ import annotations

_DEVICES = "it is about several devices or processes, which come later"

# By module, then by names that share a reason; "*" stands for all names of the module, and of those in it.
ABSENT: dict[str, dict[str, str]] = {
    "jax.distributed": {"*": _DEVICES},
    "jax.experimental.multihost_utils": {"broadcast_one_to_all process_allgather assert_equal": _DEVICES},
    "jax.experimental.custom_partitioning": {"*": _DEVICES},
    "jax.experimental.mesh_utils": {"*": _DEVICES},
}


def reason(module: str, name: str) -> str:
    """Why a name of JAX's is not here; empty where nothing is said of it."""
    while module:
        for names, text in ABSENT.get(module, {}).items():
            if names == "*" or name in names.split():
                return text
        module, _, name = module.rpartition(".")
    return ""
