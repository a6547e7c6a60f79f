"""Values, types, tracing and trees: what all of the package is made of. Whoever loads any of it gets arrays with operators."""

import pullback

pullback.assemble()
