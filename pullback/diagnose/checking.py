"""pb.checking: the block in which mistakes that compute something are told of."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from contextvars import ContextVar
from typing import Any, Never, Self

from pullback.core.bounded import Bounded
from pullback.core.brief import brief
from pullback.core.lazy import lazy_module
from pullback.core.modes import Block, current_mode, overriding
from pullback.core.source import api_class, forget_callers
from pullback.diagnose.checks import ERRORS, Checks
from pullback.diagnose.watching import Watcher
from pullback.random.keys import UsedKeys, used_keys
from pullback.transforms.finite import results

difflib = lazy_module("difflib")

# What True means, and what a block without options looks for
_SEVERE = ("purity", "keys", "leaks", "nan")
DEFAULTS = {option: "error" if option in _SEVERE else "warn" for option in ERRORS}
CONSTANT_BYTES = 1 << 20
MAX_AROUND = 16  # blocks around one that is entered again and again

_entered: ContextVar[tuple[ExitStack, ...]] = ContextVar("pullback_checking_entered", default=())

Choice = bool | str | None


def _check_names(names: Iterable[str]) -> None:
    """Raise for the name of an option that there is not."""
    options = [*DEFAULTS, "constant_bytes"]
    for name in names:
        near = difflib.get_close_matches(name, options, 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise TypeError(f"checking takes no option {name!r}.{meant} It takes {', '.join(options)}.")


@api_class
class checking(Block):
    """Tell of mistakes that compute something all the same, inside the `with` block, or the decorated function, in this thread.

    Each option is "warn", a `pb.errors.CheckWarning`; "error", an error of the class that is named below; True, what is said
    below; False, off; or None, as around the block, which is off where there is none. Without any option, all are True.

    What is looked for in functions that are traced (by jit, loops, branches, `xpr`) is looked for at the trace: a function that
    was traced before is traced anew in each block, and once in all calls of a function that is decorated.

    Arguments:
        purity: a traced function is traced twice, and the two Programs are compared (`ImpureFunction`; True: an error).
        constants: a traced function closes over arrays of more than `constant_bytes` in all (`LargeConstant`; True: a warning).
        keys: a random key is used twice, as `pb.random.checked_keys` has it (`KeyReuseError`; True: an error).
        leaks: a traced value outlives the call for which it was made (`EscapedTracerError`; True: an error). What the
            rules of a function with rules of its own close over may, since they are part of a Program.
        unused: the result of a function that is given to jit or xpr does not depend on an argument; or a gradient is zero,
            since nothing that has a derivative leads from an argument that it is taken with respect to. One whose name begins
            with an underscore may be unused (`UnusedArgument`; True: a warning).
        widening: an operation converts an array, not of bools, to another dtype, since it meets a wider one, or a number
            that it cannot hold (`DtypeWidened`; True: a warning).
        rank_promotion: arrays of different numbers of axes are broadcast (`RankPromoted`; True: a warning).
        nan, infinity: an operation makes NaN, or an infinite number, of operands without (`NotFinite`; True: an error for NaN,
            and a warning for infinity). Of a compiled function the results are looked at, and where they have one, its
            operations are run one by one.
        constant_bytes: how many bytes a function may close over; 1 MiB by default.

    Raises:
        ValueError: an option has none of these values, or `constant_bytes` is negative.
        TypeError: there is no such option.

    Example:
        >>> calls = []
        >>> @pb.jit
        ... def scaled(x):
        ...     calls.append(1)
        ...     return x * len(calls)
        >>> with pb.checking(purity="error"):
        ...     scaled(1.0)
        Traceback (most recent call last):
            ...
        pullback.core.errors.ImpureFunction: jit of scaled ... gave a different program when it was traced again: ...
    """

    def __init__(
        self,
        *,
        purity: Choice = None,
        constants: Choice = None,
        keys: Choice = None,
        leaks: Choice = None,
        unused: Choice = None,
        widening: Choice = None,
        rank_promotion: Choice = None,
        nan: Choice = None,
        infinity: Choice = None,
        constant_bytes: int | None = None,
        **unknown: Never,
    ) -> None:
        _check_names(unknown)
        given = {
            "purity": purity,
            "constants": constants,
            "keys": keys,
            "leaks": leaks,
            "unused": unused,
            "widening": widening,
            "rank_promotion": rank_promotion,
            "nan": nan,
            "infinity": infinity,
        }
        for option, choice in given.items():
            if not (choice is None or choice.__class__ is bool or (isinstance(choice, str) and choice in ("warn", "error"))):
                raise ValueError(f"checking takes {option}=True, False, None, 'warn' or 'error', not {brief(choice)}.")
        if constant_bytes is not None and (constant_bytes.__class__ is not int or constant_bytes < 0):
            raise ValueError(f"checking takes constant_bytes as a number that is not negative, not {brief(constant_bytes)}.")
        if all([choice is None for choice in given.values()]):
            given = dict.fromkeys(given, True)
        self._given = {**given, "constant_bytes": constant_bytes}
        chosen = {option: choice for option, choice in given.items() if choice is not None}
        self._chosen = {option: DEFAULTS[option] if choice is True else choice or "" for option, choice in chosen.items()}
        self._constant_bytes = constant_bytes
        # What it looks for, by what is looked for around it: the calls of a decorated function share it
        self._within: Bounded[Checks | None, Checks] = Bounded(MAX_AROUND)
        self._used = False

    def _checks(self) -> Checks:
        around: Checks | None = current_mode().checks
        found = self._within.get(around)
        if found is None:
            actions = {**(around.actions if around is not None else {}), **self._chosen}
            limit = self._constant_bytes
            if limit is None:
                limit = CONSTANT_BYTES if around is None else around.constant_bytes
            found = self._within.setdefault(around, Checks(actions, limit))
        return found

    def __enter__(self) -> None:
        self._used = True
        checks = self._checks()
        fields: dict[str, Any] = {"checks": checks}
        if "leaks" in self._chosen:
            fields["checks_leaks"] = {"warn": "warn", "error": True, "": False}[self._chosen["leaks"]]
        with ExitStack() as stack:
            stack.callback(forget_callers)
            stack.enter_context(overriding(**fields))
            if "keys" in self._chosen:
                around = used_keys.get()
                kept = around if around is not None and around.asks else UsedKeys(asks=True)  # keys of the block around count
                stack.enter_context(used_keys.setting(kept if "keys" in checks.actions else None))
            if not {"nan", "infinity"}.isdisjoint(self._chosen):
                watched = not {"nan", "infinity"}.isdisjoint(checks.actions)
                stack.enter_context(results.setting(Watcher(checks) if watched else None))
            _entered.set((*_entered.get(), stack.pop_all()))

    def __exit__(self, *error: object) -> None:
        if not _entered.get():
            raise RuntimeError(
                f"{self!r} ends no block: none was begun here. Write `with {self!r}:`, which begins and ends one."
            )
        *rest, stack = _entered.get()
        _entered.set(tuple(rest))
        stack.close()

    def _recreate_cm(self) -> Self:
        return self

    def __repr__(self) -> str:
        return f"checking({', '.join([f'{name}={choice!r}' for name, choice in self._given.items() if choice is not None])})"
