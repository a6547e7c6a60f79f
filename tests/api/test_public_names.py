"""What a user finds in the public modules: public names only, all of which are there."""

import importlib
import inspect
import operator
import pathlib
import pickle
import pkgutil
import pydoc
import re
import subprocess
import sys
import types

import pytest

import pullback as pb
import pullback.numpy as pnp
from pullback.core.absent import ABSENT

PUBLIC = ["", "numpy", "lax", "nn", "tree", "debug", "sparse", "testing", "data", "compat", "compat.nabla", "core.errors"]
PRIVATE_MODULES = {"api", "cli", "control", "core", "engine", "ode", "ops", "program", "stablehlo", "transforms"}
PRIVATE_MODULES |= {"native", "launch", "checkpoints", "diagnose", "analysis", "explorer"}


@pytest.mark.parametrize("name", PUBLIC)
def test_dir_lists_public_names_and_every_one_is_there(name):
    module = importlib.import_module(f"pullback.{name}".rstrip("."))
    listed = dir(module)
    assert listed == sorted(module.__all__) and len(set(listed)) == len(listed) > 0
    for each in listed:
        found = getattr(module, each)
        assert not each.startswith("_") or each in ("__array_namespace_info__", "__array_api_version__")
        if isinstance(found, types.ModuleType):
            assert found.__name__.startswith("pullback"), f"{name}.{each} is a module that it only uses"
    assert inspect.getdoc(module)


def test_every_public_module_is_listed():
    modules = {info.name for info in pkgutil.iter_modules(pb.__path__) if not info.name.startswith("_")}
    listed = {name for name in pb.__all__ if isinstance(getattr(pb, name), types.ModuleType)}
    assert listed == (modules - PRIVATE_MODULES) | {"errors"}


def test_no_name_of_numpy_is_at_the_top():
    both = set(dir(pb)) & set(dir(pnp))
    assert both <= {"fft", "linalg"} and all(getattr(pb, name) is getattr(pnp, name) for name in both)
    for name in ("sin", "sum", "asarray", "array", "float32", "pi", "newaxis"):
        assert not hasattr(pb, name)


def test_what_is_not_there_is_an_attribute_error():
    assert not hasattr(pb, "no_such_room") and not hasattr(pnp, "no_such_function")
    with pytest.raises(AttributeError, match=r"module 'pullback' has no attribute 'sin'.*pb.numpy"):
        pb.sin  # noqa: B018


NOT_THERE = [
    (module, name, text) for module, texts in ABSENT.items() for names, text in texts.items() for name in names.split()
]


@pytest.mark.parametrize("module, name, text", NOT_THERE, ids=[f"{module}.{name}" for module, name, _ in NOT_THERE])
def test_a_name_of_jax_leads_to_its_counterpart(module, name, text):
    with pytest.raises(AttributeError, match=f"module '{module}' has no attribute '{name}': ") as raised:
        getattr(importlib.import_module(module), name)
    assert str(raised.value).endswith(text + ".")
    for path in re.findall(r"pb\.([\w.]*\w)", text):  # what it names is there
        assert operator.attrgetter(path)(pb) is not None


def test_other_names_are_explained_as_far_as_can_be():
    for module, name, text in (
        (pnp, "busday_count", "arrays hold numbers and bools alone."),
        (pb.lax, "dynamic_slise", "did you mean dynamic_slice?"),
        (pb, "gradd", "did you mean grad?"),
        (pb, "sin", "it is pb.numpy.sin."),
        (pb.lax, "hsplit", "it is pb.numpy.hsplit."),
        (pb.numpy, "relu", "it is pb.nn.relu."),
        (pb, "scan", "it is pb.lax.scan."),
        (pb, "AbstractMesh", "it is pb.sharding.AbstractMesh."),
        (pb.lax, "broadcast_to", "it is pb.numpy.broadcast_to."),
        (pb.tree, "tree_map", "it is pb.tree.map."),
        (pb.tree, "tree_flatten_with_path", "it is pb.tree.flatten_with_path."),
        (pb.tree, "tree_unflattn", "did you mean unflatten?"),
    ):
        with pytest.raises(AttributeError, match=re.escape(text)):
            getattr(module, name)


def test_looking_around_works():
    members = dict(inspect.getmembers(pb))
    assert members["grad"] is pb.grad and members["jit"] is pb.jit
    text = pydoc.render_doc(pb, renderer=pydoc.plaintext)
    assert "value_and_grad" in text and "NumPy's functions" in text


STUBS = sorted(pathlib.Path(pb.__file__).parent.rglob("__init__.pyi"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: str(stub.parent.name))
def test_a_stub_makes_each_name_public_for_type_checkers(stub):
    root = pathlib.Path(pb.__file__).parent.parent
    module = importlib.import_module(".".join(stub.parent.relative_to(root).parts))
    lines = [line for line in stub.read_text().splitlines() if line.startswith("from ")]
    public = [re.fullmatch(r"from (pullback[.\w]*) import (\w+) as (\w+)", line) for line in lines]
    assert [found[2] for found in public] == [found[3] for found in public] == module.__all__
    for home, name in [found.group(1, 2) for found in public]:
        assert inspect.unwrap(getattr(module, name)) is inspect.unwrap(getattr(importlib.import_module(home), name))
    # A file of a public name would take its place in the package once it is imported.
    files = {info.name for info in pkgutil.iter_modules(module.__path__)}
    assert all(isinstance(getattr(module, name), types.ModuleType) for name in files & set(module.__all__))


def printed(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_loads_what_eager_arrays_need_and_no_more():
    loaded = printed("import pullback, sys; print(*sys.modules)").split()
    subpackages = {name.split(".")[1] for name in loaded if name.startswith("pullback.")}
    assert subpackages == {"core", "numpy", "ops", "stablehlo"}
    assert not {"jaxlib", "optree", "scipy", "rich"} & set(loaded)


@pytest.mark.parametrize(
    "code",
    [
        "from pullback.core.array import as_array; print((as_array(1.0) + 1.0).tolist())",
        "from pullback.api.derivatives import grad; print(grad(lambda x: x * x)(1.0).tolist())",
        "import pullback; print(pullback.jit(lambda x: x + 1.0)(1.0).tolist())",
        "import pullback.tree, numpy; from pullback.core.array import Array; print((Array.__neg__ is not None) + 1.0)",
        "from pullback import *; print(float(errors.__name__ == 'pullback.core.errors') + len([grad]))",
    ],
)
def test_arrays_have_operators_and_an_engine_whatever_was_imported_first(code):
    assert printed(code) == "2.0\n"


def test_many_threads_may_be_the_first():
    code = """
import threading, pullback as pb
found, start = [], threading.Barrier(8)
def work():
    start.wait()
    found.append(pb.grad(lambda x: x["a"] * x["a"])({"a": 3.0})["a"].tolist())
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(found)"""
    assert printed(code) == f"{[6.0] * 8}\n"


@pytest.mark.parametrize("name", PUBLIC)
def test_what_is_public_can_be_pickled(name):
    module = importlib.import_module(f"pullback.{name}".rstrip("."))
    for each in module.__all__:
        found = getattr(module, each)
        if not isinstance(found, types.ModuleType):
            again = pickle.loads(pickle.dumps(found))
            assert again is found or again == found or again != again


def test_importing_numpy_loads_what_eager_work_needs_and_no_more():
    loaded = set(printed("import pullback.numpy, sys; print(*[name for name in sys.modules])").split())
    later = {"jaxlib", "jax", "optree", "scipy", "rich", "pullback.engine", "pullback.api", "pullback.program"}
    later |= {"pullback.control", "pullback.transforms", "pullback.lax", "pullback.testing"}
    assert not loaded & later
