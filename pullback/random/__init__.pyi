"""The public names and the modules that they come from: for type checkers, and for `__init__.py`, which reads this file."""

from pullback.random.keys import PRNGKey as PRNGKey
from pullback.random.keys import checked_keys as checked_keys
from pullback.random.keys import clone as clone
from pullback.random.keys import fold_in as fold_in
from pullback.random.keys import key as key
from pullback.random.keys import key_data as key_data
from pullback.random.keys import key_dtype as key_dtype
from pullback.random.keys import key_impl as key_impl
from pullback.random.keys import prng_key as prng_key
from pullback.random.keys import split as split
from pullback.random.keys import wrap_key_data as wrap_key_data
from pullback.random.sampling import bits as bits
from pullback.random.sampling import normal as normal
from pullback.random.sampling import uniform as uniform
