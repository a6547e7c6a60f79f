"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.core.meshes import AbstractMesh as AbstractMesh
from pullback.core.meshes import Mesh as Mesh
from pullback.core.meshes import get_mesh as get_mesh
from pullback.core.meshes import set_mesh as set_mesh
from pullback.core.shardings import UNCONSTRAINED as UNCONSTRAINED
from pullback.core.shardings import NamedSharding as NamedSharding
from pullback.core.shardings import P as P
from pullback.core.shardings import PartitionSpec as PartitionSpec
from pullback.core.shardings import Shard as Shard
from pullback.core.shardings import Sharding as Sharding
from pullback.core.shardings import SingleDeviceSharding as SingleDeviceSharding
from pullback.parallel.arrays import make_mesh as make_mesh
