"""The subpackages: imports go only to those above, at the top of a file; heavy packages have one wrapper module each."""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent / "pullback"
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {".".join(file.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): file for file in FILES}

# What each subpackage may import from. A file directly in pullback/ is its own subpackage, named after it.
ABOVE: dict[str, set[str]] = {
    "core": set(),
    "stablehlo": set(),
    "program": {"core"},
    "engine": {"core", "program", "stablehlo"},
    "ops": {"core", "stablehlo"},
    "transforms": {"core", "program", "ops"},
    "control": {"core", "program", "ops", "transforms", "stablehlo"},
    "native": {"core", "program", "engine", "stablehlo", "ops"},
    "api": {"core", "program", "ops", "transforms", "control", "engine", "native"},
    "analysis": {"core", "program", "engine", "ops", "transforms", "control", "api", "diagnose"},
    "numpy": {"core", "ops", "api"},
    "lax": {"core", "ops", "numpy", "program", "control", "transforms", "api", "parallel"},
    "nn": {"core", "ops", "numpy", "lax", "random", "api"},
    "image": {"core", "ops", "numpy", "lax"},
    "scipy": {"core", "ops", "numpy", "random", "lax", "nn", "api"},
    "flatten_util": {"core", "ops", "numpy", "api"},
    "linalg": {"numpy"},
    "fft": {"numpy"},
    "ode": {"core", "ops", "numpy", "api"},
    "random": {"core", "ops", "numpy", "lax", "api"},
    "optimizers": {"core", "numpy"},
    "parallel": {"core", "program", "stablehlo", "ops", "transforms", "control", "engine", "native", "api", "numpy", "lax"},
    "sharding": {"core", "parallel"},
    "checkpoints": {"core", "engine", "api", "parallel"},
    "tree": {"core"},
    "debug": {"core", "program", "control", "api"},
    "checks": {"core", "program", "control", "api"},
    "data": set(),
    "export": {"control", "core", "program", "engine", "native", "ops", "api"},
    "profiler": {"core", "engine", "api"},
    "testing": {"core", "program", "ops", "transforms", "control", "api", "numpy", "export"},
    "explorer": {"core", "program", "ops", "transforms", "control", "engine", "api", "diagnose", "analysis"},
    "distributed": {"core", "parallel"},
    "launch": {"core", "parallel"},
    "sparse": {"core", "program", "ops", "transforms", "control", "api", "numpy"},
    "diagnose": {"core", "program", "engine", "ops", "transforms", "control", "api", "numpy", "random"},
}
ANYTHING = {"__init__", "__main__", "cli", "compat"}  # they stand below everything else

# The one module through which each heavy package is loaded, when it is first needed.
WRAPPERS = {
    "jaxlib": "engine/jaxlib.py",
    "optree": "core/trees.py",
    "scipy": "ops/scipy_functions.py",
    "platformdirs": "engine/disk.py",
    "rich": "core/bars.py",
    "tensorstore": "checkpoints/stores.py",
    "opt_einsum": "numpy/products.py",
    "llvmlite": "native/compile.py",
}


def subpackage_of(file: pathlib.Path) -> str:
    parts = file.relative_to(ROOT).parts
    return parts[0] if len(parts) > 1 else file.stem


BY_NAME = {"lazy_module", "import_module"}  # functions that load the module that their argument names


def imported_modules(tree: ast.AST) -> list[tuple[str, int]]:
    """The modules that a file imports, also for type checking alone, and those that it loads by their names."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in BY_NAME:
            found += [(arg.value, node.lineno) for arg in node.args if isinstance(arg, ast.Constant)]
        elif isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative imports hide which subpackage they go to"
            for name in [f"{node.module}.{alias.name}" for alias in node.names]:
                found.append((name if name in MODULES else node.module or "", node.lineno))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_go_up(file: pathlib.Path) -> None:
    subpackage = subpackage_of(file)
    tree = ast.parse(file.read_text())
    for module, line in imported_modules(tree):
        package = module.split(".")[0]
        assert package not in ("jax", "torch"), f"{file}:{line} imports {package}"
        if package in WRAPPERS:
            assert str(file.relative_to(ROOT)) == WRAPPERS[package], (
                f"{file}:{line}: {package} is imported through {WRAPPERS[package]}"
            )
        if module.startswith("pullback.") and subpackage not in ANYTHING:
            target = module.split(".")[1]
            assert target == subpackage or target in ABOVE[subpackage], (
                f"{file}:{line}: {subpackage} may not import from {target}"
            )


def test_no_module_imports_itself_by_way_of_others() -> None:
    imports = {}
    for name, file in MODULES.items():
        imports[name] = {module for module, _ in imported_modules(ast.parse(file.read_text()))} & MODULES.keys()
    open_: list[str] = []
    done: set[str] = set()

    def visit(name: str) -> None:
        assert name not in open_, " imports ".join([*open_[open_.index(name) :], name])
        if name not in done:
            open_.append(name)
            for module in imports[name]:
                visit(module)
            done.add(open_.pop())

    for name in MODULES:
        visit(name)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_no_import_inside_a_function(file: pathlib.Path) -> None:
    for function in ast.walk(ast.parse(file.read_text())):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            for node in ast.walk(function):
                assert not isinstance(node, (ast.Import, ast.ImportFrom)), f"{file}:{node.lineno} imports inside a function"


@pytest.mark.parametrize("package", WRAPPERS)
def test_each_door_exists(package: str) -> None:
    text = (ROOT / WRAPPERS[package]).read_text()
    assert re.search(rf'(import_module|lazy_module|package)\("{package}', text), f"{WRAPPERS[package]} does not load {package}"


def lines_of_code(text: str) -> int:
    """Lines that are not blank, not a comment, and not in a docstring, nor in the documentation that a factory is given."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ">>> " in node.value:
            documented.update(range(node.lineno + 1, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(bool(line.strip()) and not line.strip().startswith("#") and number not in documented for number, line in lines)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_file_is_one_idea(file: pathlib.Path) -> None:
    assert lines_of_code(file.read_text()) <= 400, "past about 400 lines of code a file is two ideas"
