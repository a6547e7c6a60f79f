"""load_executable: compiled functions that were made into bytes, in another process."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from pullback.api.compiled import jit
from pullback.api.dispatch import Signature
from pullback.api.stages import Compiled
from pullback.core.array import Array
from pullback.core.bundles import unpack
from pullback.core.devices import Device
from pullback.core.errors import ExportError
from pullback.core.source import api_boundary
from pullback.core.tree_forms import tree_of_data
from pullback.engine.backend import CompileOptions
from pullback.engine.shipping import Shipped, land
from pullback.program.serialization import read_type


@api_boundary
def load_executable(data: bytes) -> Compiled:
    """The compiled function that `Compiled.serialize` made bytes of, without compiling.

    The bytes are machine code, which runs with your rights: load only those of somebody whom you trust.

    Arguments:
        data: the bytes.

    Returns:
        A `Compiled`. It is called like the function, without its static arguments.

    Raises:
        ForeignExecutable: it was made for another processor, by another jaxlib, or for a device that is not here.
        ExportError: these are other bytes, or damaged; their version is not known; or a container has a name that no class has.

    Example:
        >>> import pullback as pb
        >>> data = pb.jit(lambda x: 2.0 * x).lower(pb.ArrayType((2,), "float32")).compile().serialize()
        >>> pb.export.load_executable(data)(pb.numpy.ones(2))
        [2. 2.]:f32[2]:cpu(0)
    """
    header, (code, *blobs) = unpack("executable", data)
    types = [read_type(one) for one in header["in_types"]], [read_type(one) for one in header["out_types"]]
    trees = tree_of_data(header["in_tree"]), tree_of_data(header["out_tree"])
    constants = []
    for blob, type in zip(blobs, map(read_type, header["constants"])):
        constants.append(Array(type, np.frombuffer(blob, type.dtype).reshape(type.shape).copy()))
    options = CompileOptions(device=Device(*header["device"]), committed=header["committed"], native=False, keep_unused=True)
    found, donated = Shipped(code, constants, header["facts"]), tuple(header["donated"])
    program, executable = land(found, header["name"], types, options, donated)

    def stand_in(*args: Any, **kwargs: Any) -> NoReturn:
        raise ExportError(
            f"{header['name']} was loaded as an executable, without the function that it was made of. Export that"
            " (pb.export.export) to transform it or to export it again."
        )

    stand_in.__name__ = stand_in.__qualname__ = header["name"]
    signature = Signature(program, (), trees[0], (), trees[1], donated, options, executable=executable)
    return Compiled(jit(stand_in), signature)
