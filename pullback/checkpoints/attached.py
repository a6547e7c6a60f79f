"""`pb.checkpoint`, the transformation, with the functions that save and restore checkpoints on disk as attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pullback.api import memory
from pullback.api.functions import P, R
from pullback.checkpoints import restoring, safetensors, saving


class _Checkpoint:
    """What type checkers know of it."""

    save = staticmethod(saving.save)
    save_async = staticmethod(saving.save_async)
    restore = staticmethod(restoring.restore)
    types = staticmethod(restoring.types)
    steps = staticmethod(restoring.steps)
    latest = staticmethod(restoring.latest)
    delete = staticmethod(restoring.delete)
    save_safetensors = staticmethod(safetensors.save_safetensors)
    load_safetensors = staticmethod(safetensors.load_safetensors)

    def __call__(
        self,
        fun: Callable[P, R],
        *,
        policy: Callable[..., bool] | None = None,
        budget: int | str | None = None,
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Iterable[str] = (),
        prevent_cse: bool = True,
    ) -> Callable[P, R]:
        raise NotImplementedError


_function: Any = memory.checkpoint
vars(_function).update({name: one.__func__ for name, one in vars(_Checkpoint).items() if isinstance(one, staticmethod)})
checkpoint: _Checkpoint = _function
