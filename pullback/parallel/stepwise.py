from typing import Any
def by_turns(*a: Any) -> Any:
    raise NotImplementedError
