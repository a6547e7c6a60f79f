"""What errors say of wrong arguments, word for word."""

from __future__ import annotations

import numpy as np
import pytest
from said import SAID

import pullback as pb
import pullback.numpy as pnp
from pullback import lax

NAMES = {"np": np, "pb": pb, "pnp": pnp, "lax": lax}


@pytest.mark.parametrize(("call", "error", "text"), SAID, ids=[call for call, _, _ in SAID])
def test_what_an_error_says(call: str, error: str, text: str) -> None:
    with pytest.raises(Exception) as caught:
        eval(compile(call, "call.py", "eval"), dict(NAMES))
    assert type(caught.value).__name__ == error
    assert str(caught.value).removesuffix(" At call.py:1 (<module>).") == text


def test_no_call_is_there_twice() -> None:
    assert len({call for call, _, _ in SAID}) == len(SAID) >= 90
