"""The primitives as functions, by the names that they are known by. They neither promote nor broadcast; `pb.numpy` does.

A Python number beside an array takes its dtype.
"""

from pullback.core.namespaces import open_namespace

open_namespace(globals())
