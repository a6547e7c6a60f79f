"""Every primitive, staged on each of its samples: the Program keeps the rules, and comes back from its text and its JSON."""

import numpy as np
import pytest

from pullback.control.call import call
from pullback.core.array import as_array
from pullback.core.checking import check_program
from pullback.core.errors import DtypeError, ShapeError
from pullback.core.program import Program
from pullback.core.tracing import type_of
from pullback.testing.primitives import all_primitives
from pullback.testing.values import in_dtype, is_generic, parse_dtypes
from pullback.transforms.stage import stage

PRIMITIVES = {one.name: one for one in (*all_primitives(), call)}


def samples(primitive):
    for args, params in primitive.samples(np.random.default_rng(0)):
        if is_generic(args):
            for dtype in parse_dtypes(None, primitive.kinds):
                typed = in_dtype(args, dtype)
                if typed is not None:
                    yield typed, params
        else:
            yield [as_array(np.asarray(arg)) for arg in args], params


def staged(primitive, args, params):
    def flat(*xs):
        out = primitive(*xs, **params)
        return out if primitive.multiple_results else [out]

    return stage(flat, [type_of(arg) for arg in args], name=primitive.name)[0]


# Collectives have samples only inside a vmap with a named axis.
WITH_SAMPLES = [one for one in PRIMITIVES.values() if one.samples is not None and any(True for _ in samples(one))]


def test_most_primitives_are_tried():
    assert len(WITH_SAMPLES) > 0.9 * len(PRIMITIVES)


@pytest.mark.parametrize("primitive", WITH_SAMPLES, ids=lambda p: p.name)
def test_staged_samples_are_right_and_come_back(primitive):
    count = 0
    for args, params in samples(primitive):
        try:
            program = staged(primitive, args, params)
        except (DtypeError, ShapeError):
            continue  # the sample is one of another dtype
        check_program(program)
        again = Program.parse(program.text(), PRIMITIVES)
        assert again == program, program.text()
        check_program(again)
        assert Program.from_json(program.to_json(), PRIMITIVES) == program
        count += 1
    assert count
