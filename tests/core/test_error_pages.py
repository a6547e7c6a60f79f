"""Errors end with the address of the page on their class, whoever prints them; the page is there, and a command prints it."""

import copy
import io
import logging
import pathlib
import pickle
import subprocess
import sys
import traceback
import zipfile

import pytest

import pullback as pb
from pullback.cli import pages, terminal
from pullback.core import error_pages
from pullback.core.error_pages import Explained, address, page_of

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"
CLASSES = sorted(pages.classes().items())


def failing():
    pb.numpy.ones(3) + pb.numpy.ones(4)


def caught(function=failing):
    with pytest.raises(pb.errors.PullbackError) as found:
        function()
    return found.value


def last_lines(error):
    return "".join(traceback.format_exception(error)).splitlines()


MORE = "More: `python -m pullback help ShapeError`, or docs/errors/ShapeError.md"


@pytest.mark.parametrize(("name", "error"), CLASSES)
def test_each_class_has_a_page_with_all_of_its_docstring(name, error):
    assert error.page == str(DOCS / "errors" / f"{name}.md")
    text = pathlib.Path(error.page).read_text(encoding="utf-8")
    assert f"\n# {name}\n" in text and "\n## What fails" in text and "\n## Cure" in text
    words = " ".join(text.split())
    for line in (error.__doc__ or "").split("\n"):
        line = line.strip().removeprefix("Fails:").removeprefix("Cure:").strip()
        assert " ".join(line[1:].split()) in words, line


def test_no_page_is_left_over():
    assert {file.stem for file in (DOCS / "errors").glob("*.md")} == {name for name, _ in CLASSES}
    assert {"ShapeError", "NaNError", "CheckFailure", "MissingPackage", "AxisNameError"} <= {name for name, _ in CLASSES}


def test_a_traceback_ends_with_the_address():
    error = caught()
    assert last_lines(error)[-1] == MORE
    assert (DOCS.parent / MORE.rpartition(" ")[2]).is_file()
    assert "More" not in str(error) and str(error).endswith("pb.numpy.ones(3) + pb.numpy.ones(4).")
    assert error.page == pb.errors.ShapeError.page == type(error).page


def test_logging_and_the_interpreter_print_it_too():
    text = io.StringIO()
    logger = logging.Logger("of this test")
    logger.addHandler(logging.StreamHandler(text))
    try:
        failing()
    except pb.errors.ShapeError:
        logger.exception("failed")
    assert text.getvalue().splitlines()[-1] == MORE
    code = "import pullback as pb; pb.numpy.ones(3) + pb.numpy.ones(4)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == MORE


def again(error):
    raise error


def raised_again():
    try:
        failing()
    except pb.errors.ShapeError as error:
        error.args = (f"In the first layer: {error}",)
        raise


def raised_as_another():
    try:
        failing()
    except pb.errors.ShapeError as error:
        raise pb.errors.StructureError(f"The layers differ: {error}") from None


def printed_and_raised():
    error = caught()
    last_lines(error)
    raise error


def noted_between():
    error = caught()
    last_lines(error)
    error.add_note("(in the first layer)")
    last_lines(error)
    error.add_note("(of two)")
    raise error


CARRIED = {
    "once": failing,
    "raised again": raised_again,
    "as another": raised_as_another,
    "printed, then raised": printed_and_raised,
    "with notes": noted_between,
    "pickled": lambda: again(pickle.loads(pickle.dumps(caught(noted_between)))),
    "copied": lambda: again(copy.copy(caught())),
    "through jit": lambda: pb.jit(lambda x: failing())(1.0),
    "through nested transformations": lambda: pb.jit(pb.vmap(pb.grad(lambda x: failing())))(pb.numpy.ones(2)),
    "through a loop": lambda: pb.lax.scan(lambda c, x: (failing(), x), 0.0, pb.numpy.ones(2)),
    "through a callback": lambda: pb.jit(lambda x: pb.pure_callback(lambda x: failing(), x, x))(1.0),
}


@pytest.mark.parametrize("how", CARRIED)
def test_an_error_carries_the_address_once(how):
    error = caught(CARRIED[how])
    lines = last_lines(error)
    assert sum(line.startswith("More: ") for line in lines) == 1, lines
    assert lines[-1] == MORE.replace("ShapeError", type(error).__name__)


def test_notes_of_others_stand_before_it_in_their_order():
    error = caught(noted_between)
    assert error.__notes__ == ["(in the first layer)", "(of two)", MORE]
    assert error.__notes__ is error.__notes__
    error.__notes__ = ["alone"]
    assert error.__notes__ == ["alone", MORE]
    error.__notes__.append("appended")
    assert error.__notes__ == ["alone", "appended", MORE]
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["alone", "appended", MORE]


def test_a_users_own_class_has_the_page_of_what_it_derives_from():
    class ShapeError(pb.errors.DtypeError):  # the name of another class of ours
        pass

    assert page_of(ShapeError) == pb.errors.DtypeError.page
    assert last_lines(ShapeError("mine"))[-1].endswith("docs/errors/DtypeError.md")
    assert page_of(ValueError) is None and address(ValueError) is None


def test_without_pages_a_message_ends_as_it_did(monkeypatch, capsys):
    monkeypatch.setattr(error_pages, "_FOLDERS", ("/nowhere",))
    error = caught()
    assert error.page is None and error.__notes__ == [] and last_lines(error)[-1].endswith(str(error))
    pages.print_page(pb.errors.ShapeError)
    assert "Cure: shapes broadcast when" in capsys.readouterr().out


def test_an_installed_package_has_its_pages_inside(tmp_path, monkeypatch):
    folder = tmp_path / "pullback" / "docs" / "errors"
    folder.mkdir(parents=True)
    (folder / "ShapeError.md").write_text("# ShapeError\n")
    monkeypatch.setattr(error_pages, "_AROUND", str(tmp_path))
    monkeypatch.setattr(error_pages, "_FOLDERS", (str(folder), str(DOCS / "errors")))
    assert caught().__notes__ == [MORE.replace("or docs", "or pullback/docs")]


def test_a_wheel_brings_the_pages(tmp_path):
    pytest.importorskip("setuptools", "69")
    build = "from setuptools import build_meta; import sys; build_meta.build_wheel(sys.argv[1])"
    source = tmp_path / "source"
    for file in ["pyproject.toml", "setup.py", "README.md", "LICENSE", "pullback/__init__.py", "docs/errors/ShapeError.md"]:
        (source / file).parent.mkdir(parents=True, exist_ok=True)
        (source / file).write_bytes((DOCS.parent / file).read_bytes())
    done = subprocess.run([sys.executable, "-c", build, str(tmp_path)], cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as wheel:
        page = (DOCS / "errors" / "ShapeError.md").read_bytes()
        assert wheel.read("pullback/docs/errors/ShapeError.md") == page


# ---- python -m pullback help ------------------------------------------------------------------------------------------


def run(*words):
    command = [sys.executable, "-m", "pullback", "help", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=DOCS)


def test_help_prints_a_page():
    done = run("ShapeError")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith("# ShapeError\n") and "<!--" not in done.stdout and "](" not in done.stdout
    assert "what fails" in done.stdout.lower() and done.stdout.endswith(f"This page is {pb.errors.ShapeError.page}.\n")


@pytest.mark.parametrize("name", ["pb.errors.ShapeError", "pullback.core.errors.ShapeError", "shapeerror"])
def test_help_takes_names_as_tracebacks_have_them(name, capsys):
    pages.show(type("Options", (), {"name": name}))
    assert capsys.readouterr().out.startswith("# ShapeError\n")


def test_help_without_a_name_lists_all(capsys):
    pages.show(type("Options", (), {"name": None}))
    text = capsys.readouterr().out
    for name, _ in CLASSES:
        assert f"\n{name}: " in f"\n{text}"


def test_help_of_what_has_no_page():
    done = run("ShapError")
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("pullback: there is no page on 'ShapError'") and "Did you mean 'ShapeError'?" in done.stderr
    assert done.stderr.count("\n") == 1


def test_on_a_terminal_the_page_is_laid_out(monkeypatch, capsys):
    monkeypatch.setattr(pages, "use_color", lambda: True)
    monkeypatch.setattr(terminal, "use_color", lambda: True)
    pages.print_page(pb.errors.GradientError)
    text = capsys.readouterr().out
    assert "```" not in text and "##" not in text and ">>> pb.grad(lambda x: x**2)" in text


# ---- the example of docs/errors.md ------------------------------------------------------------------------------------

TRAIN = """\
import pullback as pb
import pullback.numpy as pnp

def predict(params, x):
    return pnp.dot(x, params["w"])


def loss(params, x):
    return pnp.mean(predict(params, x) ** 2)


pb.jit(loss)({"w": pnp.ones(12)}, pnp.ones((64, 10)))
"""


def test_the_traceback_on_the_page_of_errors_is_what_python_prints(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = subprocess.run([sys.executable, "train.py"], capture_output=True, text=True, check=False, cwd=tmp_path)
    lines = [line for line in done.stderr.splitlines() if line.strip(" ^~")]  # which parts of a line Python marks depends on it
    shown = "\n".join(lines).replace(f"{tmp_path}/", "").replace("or docs/", "or pullback/docs/")
    assert f"```\n{shown}\n```" in (DOCS / "errors.md").read_text(encoding="utf-8")


def test_the_base_class_itself_is_a_plain_mixin():
    assert issubclass(pb.errors.PullbackError, Explained) and issubclass(pb.checks.CheckError, (Explained, ValueError))
