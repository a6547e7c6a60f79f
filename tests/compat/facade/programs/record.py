"""Run the programs here with JAX, and keep what each printed in values.json: `python record.py [names]`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
VALUES = HERE / "values.json"


def rounded(value: Any) -> Any:
    """The same, with numbers of seven digits."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    return [rounded(part) for part in value] if isinstance(value, list) else float(f"{value:.7g}")


def main() -> None:
    values = json.loads(VALUES.read_text()) if VALUES.exists() else {}
    for name in sys.argv[1:] or [path.stem for path in HERE.glob("*.py") if path.stem != "record"]:
        out = subprocess.run([sys.executable, HERE / f"{name}.py"], capture_output=True, text=True, check=True).stdout
        values[name] = rounded(json.loads(out))
    lines = [f"  {json.dumps(name)}: {json.dumps(values[name])}" for name in sorted(values)]
    VALUES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
