"""What the tables of values share."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from pullback.control.call import call
from pullback.core.array import as_array
from pullback.core.tracing import type_of
from pullback.transforms.stage import stage

Values = list[np.ndarray[Any, Any]]


@pytest.fixture
def both() -> Callable[..., Values]:
    """The result of a function of arrays, evaluated on NumPy and compiled by XLA; their types are held against each other."""

    def run(function: Callable[..., Any], *args: Any, **params: Any) -> Values:
        arrays = [as_array(arg) for arg in args]
        eager = function(*arrays, **params)
        program, _ = stage(lambda *xs: [function(*xs, **params)], [type_of(array) for array in arrays])
        (compiled,) = call(*arrays, program=program)
        assert compiled.type is eager.type is program.output_types[0]
        return [np.asarray(eager.host), np.asarray(compiled.host)]

    return run
