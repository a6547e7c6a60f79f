"""Devices that are not there: what is known of them, and programs compiled for many of them.

XLA compiles for a topology that is described to it, so a laptop can say what a program takes on thousands of accelerators.
Figures of the devices: the makers' data sheets, and, of NVIDIA's, the target configurations that XLA keeps
(openxla/xla, xla/backends/gpu/target_config/specs).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from pullback.core.brief import counted
from pullback.core.errors import DeviceError, PluginMissing
from pullback.engine.jaxlib import jaxlib, runtime_error
from pullback.engine.lower import lower_program
from pullback.engine.plugins import find_plugins, installed, load
from pullback.program.program import Program

GB, GiB, T = 10**9, 1 << 30, 10**12
MOST_CPUS = 2048  # XLA takes devices of the CPU with higher numbers for those of another process


class Gpu(NamedTuple):
    """What XLA wants to know of a device of NVIDIA's.

    Attributes:
        cores: how many multiprocessors it has. units, shared: of each, how many units for float32, and bytes of shared memory.
        clock: in GHz. bandwidth: bytes a second from memory. l2: bytes of cache. capability: the major number of its code.
    """

    cores: int
    units: int
    shared: int
    clock: float
    bandwidth: int
    l2: int
    capability: int


class Target(NamedTuple):
    """A kind of device.

    Attributes:
        name, platform: what it is called here, and whose plugin compiles for it. title: what it is.
        memory: how many bytes it has. None: it is not limited. most: how many devices a program may run on.
        flops, flops32: floating-point operations a second at most, in products of matrices of 16 bits, and of float32; None:
            that is not known.
        host: how many devices are joined by a link of their own. inside: how many bytes a second each of them sends over it.
        gpu: what XLA wants to know of one of NVIDIA's.
    """

    name: str
    platform: str
    title: str
    memory: int | None
    most: int
    flops: float | None = None
    flops32: float | None = None
    host: int = 1
    inside: float | None = None
    gpu: Gpu | None = None


_HOPPER = Gpu(132, 128, 233_472, 1.98, 3_352_320_000_000, 52_428_800, 9)
_AMPERE = Gpu(108, 64, 167_936, 1.41, 2_039_040_000_000, 41_943_040, 8)
_H100 = Target(
    "h100", "cuda", "NVIDIA H100 80GB HBM3", 84_942_979_072, 4096, 989 * T, 494 * T, host=8, inside=450 * GB, gpu=_HOPPER
)
TARGETS = {
    target.name: target
    for target in (
        _H100,
        _H100._replace(
            name="h200",
            title="NVIDIA H200 141GB HBM3e",
            memory=151_397_597_184,
            gpu=_HOPPER._replace(bandwidth=4_800_000_000_000),
        ),
        Target("a100", "cuda", "NVIDIA A100-SXM4-80GB", 85_100_068_864, 4096, 312 * T, 156 * T, 8, 300 * GB, _AMPERE),
        Target("tpu-v5e", "tpu", "TPU v5e", 16 * GiB, 256, 197 * T, host=256, inside=200 * GB),
        Target("tpu-v5p", "tpu", "TPU v5p", 95 * GiB, 4096, 459 * T, host=4096, inside=600 * GB),
        Target("tpu-v6e", "tpu", "TPU v6e", 32 * GiB, 256, 918 * T, host=256, inside=448 * GB),
        Target("cpu", "cpu", "devices into which a CPU is divided", None, MOST_CPUS),
    )
}


class Compiled(NamedTuple):
    """A program compiled for devices that are not there.

    Attributes:
        text: the optimized HLO. stats: XLA's account of the memory of each device, in bytes by name.
        by: which compiler made it, in words. exact: whether that is the target's own.
    """

    text: str
    stats: dict[str, int]
    by: str
    exact: bool


def compile_for(target: Target, program: Program, donated: Sequence[bool], count: int) -> Compiled:
    """A Program compiled for so many devices of a kind; where the compiler for NVIDIA's is not installed, for as many into
    which a CPU is divided.

    Raises:
        DeviceError: there cannot be so many, or no compiler for them is installed (`PluginMissing`).
    """
    if count > target.most:
        raise DeviceError(
            f"{counted(count, 'device')} are too many: plan a program for {target.title} on {target.most} of them at most."
        )
    if target.platform == "tpu" or (target.platform == "cuda" and "cuda" in find_plugins()):
        devices = _absent(target, count if count > 1 or target.platform != "tpu" else 4)[:count]  # TPUs come by fours
        made = _compile(target.platform, program, donated, devices)
        return Compiled(*_facts(made), f"XLA's compiler for {target.title}", True)
    if count > MOST_CPUS:
        raise PluginMissing(
            f"Without the CUDA plugin a plan is made by the CPU's compiler, for up to {MOST_CPUS} devices, and this one is for"
            f" {count}: pip install jax-cuda13-plugin=={jaxlib().version}, which needs no GPU for that."
        )
    devices = jaxlib().client_module.make_cpu_client(asynchronous=False, num_devices=count).local_devices()
    by = "XLA's compiler for the CPU, divided into so many devices"
    return Compiled(*_facts(_compile("cpu", program, donated, devices)), by, target.platform == "cpu")


def _absent(target: Target, count: int) -> list[Any]:
    if target.platform == "tpu":
        # else the library asks the cloud's metadata where it is, and waits; it is asked for nothing that is there
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
        interface, topology, given = load(installed("tpu")), tpu_topology(target, count), {}
    else:
        inside = math.gcd(count, target.host)
        interface, topology = load(installed("cuda")), ""
        given = {"target_config": _gpu_config(target), "topology": f"1x{count // inside}x{inside}"}
    if interface is None:
        raise DeviceError(f"jax has loaded the plugin for {target.platform!r} in this process: plan in another one.")
    try:
        return jaxlib().absent_devices(interface, topology, **given)
    except runtime_error() as error:
        raise DeviceError(
            f"There is no topology of {counted(count, 'device')} of {target.title}: {error}. Choose another number of devices."
        ) from error


def tpu_topology(target: Target, count: int) -> str:
    """So many chips of a kind as near to a square, or a cube, as can be: `v5e:16x16`. Hosts have 2 x 2 chips each."""
    sizes = [2, 2, 1] if target.name == "tpu-v5p" else [2, 2]
    rest, remainder = divmod(count, 4)
    if remainder or not count:
        raise DeviceError(f"Chips of {target.title} come by fours, and not {count} at once.")
    factors = []
    for factor in range(2, rest + 1):
        while rest % factor == 0:
            rest //= factor
            factors.append(factor)
    for factor in reversed(factors):  # the greatest first, each where the fewest chips are
        sizes[sizes.index(min(sizes))] *= factor
    return f"{target.name.removeprefix('tpu-')}:{'x'.join(map(str, sizes))}"


def _gpu_config(target: Target) -> str:
    """A device of NVIDIA's in the form in which XLA reads it: a GpuTargetConfigProto as text."""
    gpu: Any = target.gpu
    info = {
        "threads_per_block_limit": 1024,
        "threads_per_warp": 32,
        "threads_per_core_limit": 2048,
        "shared_memory_per_block": 48 << 10,
        "shared_memory_per_block_optin": gpu.shared - 1024,
        "shared_memory_per_core": gpu.shared,
        "registers_per_block_limit": 1 << 16,
        "registers_per_core_limit": 1 << 16,
        "block_dim_limit_x": (1 << 31) - 1,
        "block_dim_limit_y": (1 << 16) - 1,
        "block_dim_limit_z": (1 << 16) - 1,
        "core_count": gpu.cores,
        "fpus_per_core": gpu.units,
        "clock_rate_ghz": gpu.clock,
        "memory_bandwidth": gpu.bandwidth,
        "device_memory_size": target.memory,
        "l2_cache_size": gpu.l2,
    }
    facts = " ".join(f"{name}: {value}" for name, value in info.items())
    return (
        f"gpu_device_info {{ {facts} cuda_compute_capability {{ major: {gpu.capability} }} }} platform_name: 'CUDA'"
        f" dnn_version_info {{ major: 9 minor: 12 }} runtime_version {{ major: 13 }} device_description_str: '{target.title}'"
    )


def _compile(platform: str, program: Program, donated: Sequence[bool], devices: Sequence[Any]) -> Any:
    lib = jaxlib()
    lowered = lower_program(program, platform, donated)
    lib.prepare_lapack(lowered.text)
    options = lib.compile_options(tuple(lowered.options.items()), lowered.extra, devices)
    if platform != "cpu":
        return lib.compile_absent(lowered.text, devices, options)
    client = devices[0].client
    if lowered.callbacks:
        return client.compile_and_load(
            lib.parse(lowered.text), lib.jax.DeviceList(tuple(devices)), options, list(lowered.callbacks)
        )
    return client.compile_and_load(lowered.text, list(devices), options)


def _facts(made: Any) -> tuple[str, dict[str, int]]:
    stats = made.get_compiled_memory_stats()
    names = ("argument", "output", "alias", "temp", "generated_code")
    text = "\n".join([module.to_string() for module in made.hlo_modules()])
    return text, {name: int(getattr(stats, f"{name}_size_in_bytes")) for name in names}
