"""Which strategy XLA should use for a module: for its loops, from what a step of each costs, its barriers, and its threads.

XLA for the CPU runs a loop with one of two strategies. By default it starts a kernel for every few operations of the body, at
some 0.3 us each, and passes matrix products on to a library. With `xla_cpu_small_while_loop_byte_threshold` above what the loop
touches it compiles the whole loop as one function, which starts nothing, but in which products are plain nested loops on one
thread.

How many times faster the second strategy is (jaxlib 0.10.2, two cores with AVX512, medians), by what a step costs:

    loop                             FLOPs a step     bytes     faster
    40 coupled scalars, gradient     300              2e3       36
    Lorenz, gradient, f64            400              2e3       12
    Kalman filter 4x4                3e3              2e4       15 to 23
    LSTM 32, gradient, f32           2e4 + 2e4        2e5       2.7
    LSTM 64, gradient, f32           7e4 + 8e4        7e5       2.0
    GRU 32, batch 4, gradient        5e4 + 7e4        2e5       0.84 to 1
    LSTM 128, f32                    3e5              6e5       0.97
    GRU 32, batch 32, gradient       4e5 + 6e5        9e5       0.59
    GRU 64, batch 16, gradient       8e5 + 1e6        1e6       0.95

It takes optimization barriers away before it fuses operations, and may then compute again, rounded otherwise, what stands in
front of one. It can keep them, but not in loops under the second strategy: a module with a barrier has no such loops.

It divides the elements of a kernel among threads as soon as each thread has some 10 us of work. To hand work to a thread and to
learn that it has been done takes as long, and several times as long where the processor has other work. So the kernels of a
module of small arrays are not divided. That changes no number, and nothing of matrix products, which libraries divide.
Microseconds, divided and undivided (float32, two cores, least of 60 turns):

    elements                      gelu        its gradient     exp         2x + 1
    2^12                          20     6     19    10        11     9     4     4
    2^14                          20    14     43    28        16    16     7     5
    2^16                          64    47    103   102        49    31    11    10
    2^18                         132   171    274   398        83   110    50    29

    step of AdamW, batch 64       divided, least and median     undivided
    128 units                     187  648                      163  179
    256 units                     703  3415                     620  725
    512 units                     1732 6678                     1642 7061

It gives reductions, with what is elementwise around them, to a library (YNNPACK) whose maximum and minimum leave NaN out: sums
of `maximum(x, 0)`, the largest elements of arrays and of windows were numbers where they are NaN (jaxlib 0.10.2, from 4096
elements on). So a module that takes extremes of floating-point numbers keeps its reductions. A sum of 2^20 numbers then takes
1.5 to 3 times as long, their largest 5 to 10 times: the native tier takes large extremes out of it (`ops/reduce.py`).

The library computes with 8-bit integers as if they were quantized numbers: `x + x`, `x * x`, `-x`, in front of a maximum, a
minimum, or a sum of floats, stay at the largest integer where they should wrap, and `x / 3` is rounded. So a module with such
arithmetic keeps its reductions as well.

It writes kernels through MLIR, or as LLVM at once. The latter takes a third of the time for the transposes that it puts around
convolutions, and three times as long for functions such as exp and tanh. So a module of convolutions in which there are no such
functions is written as LLVM. Milliseconds of processor time to compile, and to run, through MLIR and as LLVM (least of 3 and of
40; all results are the same to the last bit):

    convolution, 8 x 32 x 56 x 56 by 32 x 32 x 3 x 3, f32; f64    169   75     6.8   6.3;   174   77    13.6  13.6
    gradient with respect to the kernel; depthwise, 28 x 28       140   43     6.2   5.9;   153   55     1.9   1.6
    one of 3 x 16 x 16; in one dimension, 16 x 32 x 256           120   44     0.04  0.04;  125   53     0.60  0.62
    residual block with batch normalization, gradient             577  392     8.7   8.4
    with tanh behind it, channels last: not so                     54  149     5.4   7.0
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pullback.program.cost import Cost

# Up to these costs of a step the whole loop is compiled as one function.
SMALL_FLOPS = 100_000
SMALL_BYTES = 1_000_000

_STRATEGY = "xla_cpu_small_while_loop_byte_threshold"
_THRESHOLD = 1 << 40  # bytes, more than any loop touches

# What XLA gives to the library: by default these, and reductions.
LIBRARY = "xla_cpu_experimental_ynn_fusion_type"
_PRODUCTS = "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION"
_LEFT_OUT = re.compile(
    r"stablehlo\.(?:maximum|minimum)\b.*[x<]b?f(?:16|32|64)>|stablehlo\.(?:add|subtract|multiply|divide|negate|abs)\b.*[x<]u?i8>"
)

# How kernels are written.
_EMITTERS = "xla_cpu_use_fusion_emitters"
_CONVOLUTION = re.compile(r"stablehlo\.convolution\b.*\(tensor<[^>]*xf(?:32|64)>,")
_FUNCTIONS = re.compile(r"stablehlo\.(?:exp|log|tan|power|sine|cosine|cbrt|atan2|complex)|chlo\.")  # exponential, tanh, ... too

UNDIVIDED_BYTES = 1 << 18  # Kernels are not divided among threads where no array takes more.


def cpu_settings(steps: Sequence[Cost], barriers: bool, largest: int, text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """XLA's options for a module.

    Arguments:
        steps: what a step of each of its loops costs. barriers: whether barriers have to last.
        largest: the bytes of its largest array. text: the module.

    Returns:
        The options by their names: those that all platforms know, and those that the CPU's compiler alone does.
    """
    skipped = ["cse_barrier_expander"] * barriers + ["cpu-parallel-task-assigner"] * (largest <= UNDIVIDED_BYTES)
    options: dict[str, Any] = {"xla_disable_hlo_passes": ",".join(skipped)} if skipped else {}
    if _LEFT_OUT.search(text):
        options[LIBRARY] = _PRODUCTS
    if _CONVOLUTION.search(text) and not _FUNCTIONS.search(text):
        options[_EMITTERS] = False
    if barriers:
        return options, {_STRATEGY: 0}
    if not steps or any(step.work > SMALL_FLOPS or step.bytes > SMALL_BYTES for step in steps):
        return options, {}
    return options, {_STRATEGY: _THRESHOLD}
