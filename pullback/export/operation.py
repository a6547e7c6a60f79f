"""call_exported: an exported function as one operation, whose only rules are those that need nothing but its StableHLO."""

from __future__ import annotations

from pullback.api.loops import map as map_in_loop
from pullback.core.errors import ShapeError
from pullback.core.execution import engine
from pullback.core.primitive import Rules, primitive
from pullback.engine.portable import include


def _recorded(write, *values, function):
    """For the native tier: an operation that it has no code for, so that XLA runs the program."""
    return write.many("exported", values, write.result_types)


@primitive
class call_exported(Rules):
    """Apply an exported function to the leaves of its arguments."""

    multiple_results = True
    on_arrays = True

    def cost(operands, results, *, function):
        return function._module(function.platforms[0]).facts["cost"][0]

    def result_type(*types, function):
        if [type.strong() for type in types] != [type.strong() for type in function.in_types]:
            raise ShapeError(f"{function.fun_name} was exported for arguments {function.in_types}, but got {types}.")
        return function.out_types

    def evaluate(*arrays, function):
        return engine().run_operation(call_exported, arrays, {"function": function})

    def lower(write, *values, function):
        return include(write, function._module(write.platform), f"exported_{function.key[:32]}_", values)

    platforms = {"native": _recorded}  # noqa: RUF012  (a rule, not a default)

    def jvp(primals, tangents, *, function):
        raise function._no_derivative()

    def vectorize(size, args, axes, *, function):
        batched = [arg for arg, axis in zip(args, axes) if axis is not None]

        def one(elements):
            rest = iter(elements)
            given = [arg if axis is None else next(rest) for arg, axis in zip(args, axes)]
            return call_exported(*given, function=function)

        return map_in_loop(one, tuple(batched)), (0,) * len(function.out_types)
