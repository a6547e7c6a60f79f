"""The public names of this namespace and the modules that they come from: `__init__.py` reads them here."""

from pullback.image.resizing import ResizeMethod as ResizeMethod
from pullback.image.resizing import resize as resize
from pullback.image.resizing import scale_and_translate as scale_and_translate
