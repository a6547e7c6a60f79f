"""Functions as bytes: jitted ones as StableHLO, compiled ones as machine code, for processes without their source."""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
