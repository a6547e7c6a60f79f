"""The tour: what pullback does to a function, step by step, and then a classifier. Five minutes to read, seconds to run."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import pullback as pb
import pullback.numpy as pnp
from pullback.cli.terminal import heading, progress, quote, quote_program, remark, say, use_color
from pullback.data import load_digits

HLO_LINES = 14
SHADES = " .:-=+*#%@"  # from a blank pixel to a full one


def f(x: Any) -> Any:
    return pnp.sum(x * pnp.sin(x))


def show() -> None:
    """Print the tour on standard output.

    Example:
        >>> show()  # doctest: +SKIP
    """
    began = time.perf_counter()
    heading("pullback: a tour")
    say(
        "pullback takes a function of arrays that you wrote, and makes others of it: its derivative, the same over a batch,"
        " a compiled one. You can look at each. This tour does so with one line of mathematics, and then trains a classifier."
    )
    _transform()
    _classify()
    say("That was the tour. Now a function of your own:")
    quote("python -m pullback xpr model.py:loss 'f32[10]' --apply grad\npython -m pullback xpr --help")
    remark(f"({time.perf_counter() - began:.1f} seconds)")


def _transform() -> None:
    x = pnp.asarray([0.0, 1.0, 2.0])
    rows = pnp.asarray([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])

    heading("1. A function")
    say("It is plain Python. Called with an array it computes, at once, as NumPy would.")
    quote(_source(f))
    quote(f"f({_short(x)})\n  = {f(x)}")

    heading("2. Its Program")
    say(
        "pb.xpr(f, x) runs f on a stand-in for x that knows its shape and dtype only, and records what f does: one"
        " operation a line, each result with its type and its place."
    )
    quote_program(pb.xpr(f, x))
    say("Look at c: x is multiplied by its sine, and only then is anything summed.")

    heading("3. Its gradient's Program")
    say(
        "pb.grad(f) is a function too, so it has a Program as well. Nothing in it is estimated: these are the operations"
        " that the chain rule makes of f's."
    )
    quote_program(pb.xpr(pb.grad(f), x))
    say("Look for cos: f has none. It came in as the derivative of sin.")
    host = np.asarray(x)
    quote(f"grad(f)({_short(x)})\n  = {pb.grad(f)(x)}\nsin(x) + x cos(x), by hand:\n    {np.sin(host) + host * np.cos(host)}")

    heading("4. The gradient of a batch")
    say(
        "pb.vmap(pb.grad(f)) takes many x at once, as rows of one array, and finds each one's gradient. There is no loop:"
        " every operation does all rows."
    )
    program = pb.xpr(pb.vmap(pb.grad(f)), rows)
    quote_program(program)
    blue = " (blue, here)" if program.batch_axes and use_color() else ""
    say(f"Look at the types: the 2 in front{blue} is the batch. The operations are those of step 3.")
    quote(f"vmap(grad(f))([[0, 1, 2], [3, 4, 5]])\n{pb.vmap(pb.grad(f))(rows)}")

    heading("5. Compiled")
    say("pb.jit hands the Program to the compiler XLA. It is written in StableHLO first, a language that compilers share:")
    compiled = pb.jit(pb.vmap(pb.grad(f)))
    lowered = compiled.lower(rows)
    quote(lowered.as_text(), cut=True)
    say("XLA then rewrites it for this machine. This is where it begins to compute:")
    quote(_computation(lowered.compile().as_text()), cut=True)
    say("Look for fusion: XLA made one loop of all these operations, which reads each number once and writes each result once.")
    quote(f"jit(vmap(grad(f)))([[0, 1, 2], [3, 4, 5]])\n{compiled(rows)}")
    say("The last digits can differ from those above: XLA has its own sine.")


def _source(function: Callable[..., Any]) -> str:
    """A function as it is written in these files, without the annotations, which say nothing here."""
    return re.sub(r": (Any|Params)\b| -> [^:\n]+(?=:\n)", "", inspect.getsource(function))


def _short(x: Any) -> str:
    return np.array2string(np.asarray(x), separator=", ")


def _computation(text: str) -> str:
    """The first lines of an optimized program, from the first computation on, without where they come from."""
    lines = re.sub(r", metadata=\{[^}]*\}", "", text).strip().split("\n")
    begin = next((i for i, line in enumerate(lines) if line.startswith(("%", "ENTRY"))), 0)
    rest = lines[begin:]
    return "\n".join([*rest[:HLO_LINES], *([f"... and {len(rest) - HLO_LINES} more lines"] if len(rest) > HLO_LINES else [])])


def _classify() -> None:
    (images, labels), (test_images, test_labels) = load_digits()

    heading("6. A classifier of handwritten digits")
    say(
        f"{len(images)} digits of 8 by 8 pixels to learn from, and {len(test_images)} others to be tested with. The loss is"
        " written for one image; vmap makes it one of a batch, value_and_grad finds how each parameter changes it, and jit"
        " compiles the whole step, update and all:"
    )
    quote(_source(loss) + "\n" + _source(batch_loss) + "\n" + _source(step))
    params = start(seed=0)
    speed = {name: pnp.zeros_like(value) for name, value in params.items()}
    compiled_step = pb.jit(step)
    total = EPOCHS * (len(images) // BATCH)
    losses = []
    for batch in progress(batches(images, labels, seed=0), total, "training"):
        value, params, speed = compiled_step(params, speed, *batch)
        losses.append(value)
    found = np.asarray(pb.jit(predict)(params, test_images))
    right = found == test_labels
    say(
        f"{total} steps brought the loss from {float(losses[0]):.2f} to {float(np.mean([float(v) for v in losses[-24:]])):.4f}."
    )
    quote(f"Test accuracy: {np.mean(right):.3f} ({np.sum(right)} of {len(right)})")

    heading("7. What each image taught")
    say(
        "The length of one image's own gradient says how hard that image would pull at the network: how surprising it is."
        " There is no loop over the images: it is vmap around grad."
    )
    quote(_source(pull))
    pulls = np.asarray(pb.jit(pb.vmap(pull, in_axes=(None, 0, 0)))(params, test_images, test_labels))
    most = int(np.argmax(pulls))
    say(
        f"Of the {len(pulls)} test images, the middle one pulls with {np.median(pulls):.4f}, and number {most} with"
        f" {pulls[most]:.2f}. It was meant as a {test_labels[most]}, and the network reads a {found[most]}. See for yourself:"
    )
    quote(_picture(test_images[most]))

    heading("8. Compiled against not compiled")
    say("The same step, with the same numbers, once operation by operation and once as one compiled program:")
    batch = images[:BATCH], labels[:BATCH]
    eager = _seconds(lambda: step(params, speed, *batch), 5)
    fast = _seconds(lambda: compiled_step(params, speed, *batch), 50)
    quote(
        f"eager     {1e6 * eager:8.0f} microseconds\ncompiled  {1e6 * fast:8.0f} microseconds, {eager / fast:.1f} times as fast"
    )


def _picture(image: Any) -> str:
    """An image in characters, two for a pixel since they are narrow."""
    rows = ["".join([2 * SHADES[int(pixel * (len(SHADES) - 1))] for pixel in row]) for row in image]
    return "\n".join(["+" + "-" * 16 + "+", *[f"|{row}|" for row in rows], "+" + "-" * 16 + "+"])


def _seconds(call: Callable[[], Any], repeats: int) -> float:
    """The shortest time that a call took."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)


# ---- the classifier: its network and optimizer are written out, as a reader would write their own --------------------------

Params = dict[str, Any]

HIDDEN = 64
EPOCHS = 30
BATCH = 64
RATE = 0.1
MOMENTUM = 0.9


def start(seed: int) -> Params:
    """Random parameters of a network with one hidden layer: 64 pixels, `HIDDEN` units, 10 digits."""
    rng = np.random.default_rng(seed)

    def normal(rows: int, columns: int) -> Any:
        return pnp.asarray((rng.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32))

    return {"w1": normal(64, HIDDEN), "b1": pnp.zeros(HIDDEN), "w2": normal(HIDDEN, 10), "b2": pnp.zeros(10)}


def scores(params: Params, image: Any) -> Any:
    """How much an image, of shape (8, 8), looks like each of the ten digits: shape (10,)."""
    hidden = pnp.tanh(pnp.reshape(image, (64,)) @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def loss(params: Params, image: Any, label: Any) -> Any:
    """Minus the logarithm of the probability given to the label."""
    found = scores(params, image)
    top = pnp.max(found)
    return top + pnp.log(pnp.sum(pnp.exp(found - top))) - found[label]


def batch_loss(params: Params, images: Any, labels: Any) -> Any:
    """The mean loss of many images."""
    losses = pb.vmap(loss, in_axes=(None, 0, 0))(params, images, labels)
    return pnp.mean(losses)


def step(params: Params, speed: Params, images: Any, labels: Any) -> tuple[Any, Params, Params]:
    """One step of gradient descent with momentum."""
    value, slope = pb.value_and_grad(batch_loss)(params, images, labels)
    speed = {k: MOMENTUM * speed[k] - RATE * slope[k] for k in params}
    params = {k: params[k] + speed[k] for k in params}
    return value, params, speed


def predict(params: Params, images: Any) -> Any:
    """The digit that each image looks most like."""
    return pnp.argmax(pb.vmap(scores, in_axes=(None, 0))(params, images), axis=1)


def pull(params: Params, image: Any, label: Any) -> Any:
    """The length of the gradient of one image's loss."""
    slope = pb.grad(loss)(params, image, label)
    return pnp.sqrt(sum(pnp.sum(slope[k] ** 2) for k in slope))


def batches(images: Any, labels: Any, seed: int) -> Iterator[tuple[Any, Any]]:
    """Shuffled batches, `EPOCHS` times through the training set; what is left over of it each time is left out."""
    rng = np.random.default_rng(seed)
    for _ in range(EPOCHS):
        order = rng.permutation(len(images))
        for begin in range(0, len(order) - BATCH + 1, BATCH):
            chosen = order[begin : begin + BATCH]
            yield images[chosen], labels[chosen]
