"""Arrays that grow, and copies of arrays, to return to a former state without computing it anew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Scalar = TypeVar("Scalar", bound=np.generic)


def lengthen(array: NDArray[Scalar], length: int, fill: float = 0) -> NDArray[Scalar]:
    """Return a longer copy of an array, padded with `fill`."""
    new = np.full((length, *array.shape[1:]), fill, array.dtype)
    new[: len(array)] = array
    return new


class KeptArrays:
    """Copies of some arrays, in memory that is used again for the next copies."""

    def __init__(self) -> None:
        self._memory: list[NDArray[Any]] = []
        self._copies: list[NDArray[Any]] = []

    def keep(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy these arrays, or the parts of them that matter."""
        if not self._memory:
            self._memory = [np.empty(0, a.dtype) for a in arrays]
        self._copies = []
        for k, array in enumerate(arrays):
            if self._memory[k].size < array.size:
                # Touching new memory costs more than copying, so there is room for more.
                self._memory[k] = np.empty(array.size + array.size // 4, array.dtype)
            copy = self._memory[k][: array.size].reshape(array.shape)
            np.copyto(copy, array)
            self._copies.append(copy)

    def put_back(self, arrays: Sequence[NDArray[Any]]) -> None:
        """Copy everything back to where it was; an array may have become longer, and keeps what comes after."""
        for copy, array in zip(self._copies, arrays, strict=True):
            array[: len(copy)] = copy
