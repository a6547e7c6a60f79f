"""debug.print and debug.callback: in every transformation, in order, as often as promised."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from processes import run

import pullback as pb
from pullback.engine import failures, jaxlib

pnp = pb.numpy


def talkative(seen):
    def function(x):
        pb.debug.callback(lambda v: seen.append(("first", float(v))), x)
        y = pnp.sin(x)
        pb.debug.callback(lambda v: seen.append(("second", round(float(v), 4))), y)
        return y * 2.0

    return function


ONCE = [("first", 1.0), ("second", 0.8415)]
ROUTES = {
    "eager": lambda f: f(1.0),
    "jit": lambda f: pb.jit(f)(1.0),
    "nested jit": lambda f: pb.jit(lambda x: pb.jit(f)(x))(1.0),
    "grad": lambda f: pb.grad(f)(1.0),
    "grad of jit": lambda f: pb.grad(pb.jit(f))(1.0),
    "jit of grad": lambda f: pb.jit(pb.grad(f))(1.0),
    "jvp": lambda f: pb.jvp(f, (1.0,), (1.0,)),
    "jvp of jit": lambda f: pb.jvp(pb.jit(f), (1.0,), (1.0,)),
    "second derivative": lambda f: pb.grad(pb.grad(f))(1.0),
    "vmap of an unbatched value": lambda f: pb.vmap(lambda x: f(1.0) * x)(np.ones(3)),
}


@pytest.mark.parametrize("route", ROUTES)
def test_once_and_in_order(route):
    seen = []
    ROUTES[route](talkative(seen))
    assert seen == ONCE


BATCHED = {
    "vmap": lambda f: pb.vmap(f),
    "vmap of jit": lambda f: pb.vmap(pb.jit(f)),
    "jit of vmap": lambda f: pb.jit(pb.vmap(f)),
    "vmap of grad of jit": lambda f: pb.vmap(pb.grad(pb.jit(f))),
}


@pytest.mark.parametrize("route", BATCHED)
def test_once_for_every_example(route):
    seen = []
    BATCHED[route](talkative(seen))(np.array([0.0, 1.0], np.float32))
    assert seen == [("first", 0.0), ("first", 1.0), ("second", 0.0), ("second", 0.8415)]


@pytest.mark.parametrize("wrap", [lambda f: f, pb.jit])
def test_two_batch_axes(wrap):
    seen = []

    def function(x, y):
        pb.debug.callback(lambda *v: seen.append(tuple(map(int, v))), x, y)
        return x + y

    wrap(pb.vmap(pb.vmap(function, in_axes=(None, 0)), in_axes=(0, None)))(np.arange(2), np.arange(3))
    assert seen == [(i, j) for i in range(2) for j in range(3)]


def test_every_call_runs_it_again():
    seen = []
    compiled = pb.jit(talkative(seen))
    for _ in range(3):
        compiled(1.0)
    assert seen == ONCE * 3


def test_print(capsys):
    @pb.jit
    def function(x):
        pb.debug.print("x = {:.2f}, tree {t[a]}", x, t={"a": x * 2.0})
        return x

    function(1.5)
    pb.vmap(function)(np.array([1.0, 2.0]))
    assert capsys.readouterr().out == "x = 1.50, tree 3.0\nx = 1.00, tree 2.0\nx = 2.00, tree 4.0\n"


def test_print_wants_a_format():
    with pytest.raises(pb.errors.LeafError):
        pb.debug.print(3.0)


class Mine(Exception):
    pass


@pytest.mark.parametrize("route", ["eager", "jit", "grad of jit", "nested jit"])
def test_exceptions_come_out_as_themselves(route):
    def function(x):
        pb.debug.callback(raising, x)
        return pnp.sin(x)

    def raising(x):
        raise Mine("here")

    for _ in range(2):
        with pytest.raises(Mine, match="here"):
            ROUTES[route](function)


def test_a_failed_call_leaves_the_function_sound():
    fails = [False, True, False]

    def perhaps(x):
        if fails.pop():
            raise Mine

    @pb.jit
    def function(x):
        pb.debug.callback(perhaps, x)
        return x + 1.0

    assert float(function(1.0)) == 2.0
    with pytest.raises(Mine):
        function(1.0)
    assert float(function(1.0)) == 2.0


def test_callbacks_may_use_pullback():
    seen = []
    inner = pb.jit(lambda x: x * 3.0)

    @pb.jit
    def function(x):
        pb.debug.callback(lambda v: seen.append(float(inner(v) + pb.grad(pnp.sin)(0.0))), x)
        return x

    function(2.0)
    assert seen == [7.0]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float64", "complex64", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(), (2, 3), (0,)])
def test_every_dtype_arrives(dtype, shape):
    seen = []
    x = np.ones(shape, pb.core.dtypes.DTYPES[dtype])
    pb.jit(lambda x: pb.debug.callback(seen.append, x))(x)
    assert seen[0].dtype == x.dtype and seen[0].shape == shape and seen[0].tobytes() == x.tobytes()


def test_what_is_kept_stays():
    seen = []
    compiled = pb.jit(lambda x: pb.debug.callback(seen.append, x * 2.0))
    for value in (1.0, 2.0, 3.0):
        compiled(np.full(100, value, np.float32))
    assert [x[0] for x in seen] == [2.0, 4.0, 6.0]


def test_they_are_not_written_to_disk(own_cache):
    pb.jit(lambda x: pb.debug.callback(print, x) or pnp.sin(x) * pnp.cos(x))(np.ones((10, 10)))
    assert not own_cache.exists() or not list(own_cache.iterdir())


# ---- failures, threads, interruptions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [AttributeError, TypeError, KeyError, RuntimeError, Mine, KeyboardInterrupt])
@pytest.mark.parametrize("arguments", [(np.ones(3, np.float32),), (1.0, 2.0), (pnp.ones(3), pnp.ones(3))])
def test_an_effect_that_fails_has_run_once(error, arguments):
    """Whatever it raises: nothing that looks a call up may take it for a sign that the call was another one."""
    runs, fails = [], []

    def effect(x):
        runs.append(1)
        if fails:
            raise error("on purpose")

    @pb.jit
    def function(*args):
        pb.debug.callback(effect, args[0])
        return args[-1] * 2.0

    for _ in range(3):
        function(*arguments)
    fails.append(1)
    for _ in range(3):
        with pytest.raises(error, match="on purpose"):
            function(*arguments)
    assert len(runs) == 6


def test_exceptions_stay_with_the_calls_that_raised_them():
    def effect(x):
        if int(x) % 3 == 0:
            raise Mine(int(x))

    @pb.jit
    def function(x):
        pb.debug.callback(effect, x)
        return x + 1

    wrong = []

    def work(seed):
        for number in range(seed * 1000, seed * 1000 + 300):
            try:
                found = int(function(np.int32(number))) - 1
            except Mine as error:
                found = error.args[0] if number % 3 == 0 else None
            else:
                found = found if number % 3 else None
            if found != number:
                wrong.append((number, found))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))  # raises what a thread has raised
    assert not wrong and not failures._waiting


def test_failures_that_nobody_reports_are_bounded():
    for number in range(3 * failures.MAX_WAITING):
        failures.stand_in(Mine(number))
    assert len(failures._waiting) == failures.MAX_WAITING
    failures._waiting.clear()


def test_a_failure_inside_a_failing_callback_is_another_one():
    def inner(x):
        raise KeyError("inner")

    def outer(x):
        try:
            pb.jit(lambda y: pb.debug.callback(inner, y))(x)
        except KeyError as error:
            raise Mine("outer") from error

    with pytest.raises(Mine, match="outer") as caught:
        pb.jit(lambda x: pb.debug.callback(outer, x))(1.0)
    assert isinstance(caught.value.__cause__, KeyError)


def test_interrupts_leave_compiled_functions_sound():
    """Ctrl-C again and again, while a compiled function runs that calls Python; heard only where it is awaited, so that none
    falls into the lines that count them."""
    script = """
import _thread, signal, threading, time
import numpy as np, pullback as pb
@pb.jit
def f(x):
    pb.debug.callback(lambda v: time.sleep(0.0005), x)
    return x + 1.0
x = np.zeros(3, np.float32)
f(x); f(x)
awaited, caught, stop = False, 0, threading.Event()
def heard(number, frame):
    global awaited
    if awaited:
        awaited = False
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, heard)
def interrupt():
    while not stop.wait(0.003):
        _thread.interrupt_main()
thread = threading.Thread(target=interrupt, daemon=True)
thread.start()
while caught < 40:
    try:
        awaited = True
        while True:
            assert float(f(x)[0]) == 1.0
    except KeyboardInterrupt:
        caught += 1
stop.set()
thread.join()
for i in range(10):
    assert np.all(np.asarray(f(np.full(3, i, np.float32))) == i + 1)
print("sound")
"""
    done = run(script)
    assert done.stdout == "sound\n", done.stderr


@pytest.mark.parametrize("name", ["erf", "sinh", "nextafter", "digamma", "lgamma"])
def test_beside_operations_of_another_dialect(name):
    function = getattr(pb.lax, name, None) or getattr(pnp, name)
    args = (0.5, 2.0) if name == "nextafter" else (0.5,)
    seen = []

    @pb.jit
    def both(*args):
        pb.debug.callback(lambda v: seen.append(float(v)), args[0])
        return function(*args)

    np.testing.assert_allclose(float(both(*args)), float(function(*args)), rtol=1e-6)
    assert seen == [0.5]


class Same:
    def __call__(self, x):
        return x


def test_what_a_callback_holds_is_freed_with_the_function():
    def use(held):
        assert float(pb.jit(lambda x: pb.pure_callback(held, pb.ArrayType((), "float32"), x))(1.0)) == 1.0
        return weakref.ref(held)

    alive = use(Same())
    pb.clear_caches()
    gc.collect()
    assert alive() is None
    assert sum([isinstance(getattr(callback, "args", [0])[0], jaxlib._Collector) for callback in gc.callbacks]) == 1


@pytest.mark.parametrize("route", [lambda f: f, pb.jit, pb.vmap, lambda f: pb.jit(pb.vmap(f)), lambda f: pb.vmap(pb.jit(f))])
def test_what_is_no_array_is_handed_on(route, capsys):
    thing, names, seen = object(), np.array(["a", "b"]), []

    @route
    def function(x):
        pb.debug.print("{} {name} {}", "first", x, name=None)
        pb.debug.callback(lambda *args, **named: seen.append((args, named)), ["s", x], thing, {1}, k={"a": names, "f": len})
        return x

    function(np.array([1, 2], np.int32))
    batched = len(seen) == 2
    assert capsys.readouterr().out == ("first None 1\nfirst None 2\n" if batched else "first None [1 2]\n")
    for (parts, other, unhashable), named in seen:
        assert parts[0] == "s" and isinstance(parts[1], np.ndarray) and other is thing and unhashable == {1}
        assert named["k"]["a"] is names and named["k"]["f"] is len


def test_functions_that_hand_on_different_things_are_kept_apart():
    seen = []
    for word in ("one", "two", "one"):
        pb.jit(lambda x, word=word: pb.debug.callback(lambda *args: seen.append(args[0]), word, x))(1.0)
    assert seen == ["one", "two", "one"]


def test_an_argument_of_a_callback_that_is_no_array_is_named():
    with pytest.raises(pb.errors.LeafError, match=r"argument name\['k'\] is 's'"):
        pb.pure_callback(lambda name: 1.0, pb.ArrayType(()), {"k": "s"})
