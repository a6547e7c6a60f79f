"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.parallel.arrays import from_process_data as from_process_data
from pullback.parallel.arrays import gather as gather
from pullback.parallel.arrays import make_array_from_callback as make_array_from_callback
from pullback.parallel.arrays import make_array_from_process_local_data as make_array_from_process_local_data
from pullback.parallel.arrays import make_array_from_single_device_arrays as make_array_from_single_device_arrays
from pullback.parallel.arrays import make_mesh as make_mesh
from pullback.parallel.arrays import reshard as reshard
from pullback.parallel.automatic import with_sharding_constraint as with_sharding_constraint
from pullback.parallel.input import Batches as Batches
from pullback.parallel.input import batches as batches
from pullback.parallel.mapping import shard_map as shard_map
from pullback.parallel.planning import Plan as Plan
from pullback.parallel.planning import plan as plan
from pullback.parallel.pmapping import pmap as pmap
