"""Random numbers from explicit keys: the same key gives the same numbers, eagerly and compiled, alone and in a batch.

A key is an array of dtype `key<fry>`, made by `key` and divided by `split`; JAX's raw keys, two words of uint32, do as well.
The generator is threefry2x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and the numbers are
JAX's, to the last bit where nothing but the generator and the functions of one number make them.
"""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
