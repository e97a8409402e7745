"""`Tensor`: how operators run on one at once, its updates in place, its conversions.

`backward`, and what it reads (`clock`, `recording`, `rebase`, `hooks`), lie below, beside this.
"""

from .exchange import place_and_dtype as place_and_dtype
from .tensor import Tensor as Tensor
from .tensor import as_tensor as as_tensor
from .tensor import is_floating_point as is_floating_point
from .tensor import is_tensor as is_tensor
from .tensor import numel as numel
from .tensor import result_type as result_type
from .tensor import tensor as tensor
