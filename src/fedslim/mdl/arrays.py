"""Arrays that grow."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def lengthen(array: NDArray[Scalar], length: int, fill: float = 0) -> NDArray[Scalar]:
    """Return a longer copy of an array, padded with `fill`."""
    new = np.full((length, *array.shape[1:]), fill, array.dtype)
    new[: len(array)] = array
    return new
