"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.core.tree_forms import register_container as register_container
from pullback.export.executables import load_executable as load_executable
from pullback.export.exported import Exported as Exported
from pullback.export.exporting import deserialize as deserialize
from pullback.export.exporting import export as export
from pullback.export.programs import primitives as primitives
