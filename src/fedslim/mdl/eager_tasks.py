"""The searches of tasks, for sources where a question is dear: they find what those of `tasks.py` find in one place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedslim.mdl.continued import ContinuedSearch, Table
from fedslim.mdl.eager_search import EagerSearch
from fedslim.mdl.local_search import LocalSearch

if TYPE_CHECKING:
    from collections.abc import Generator

    from fedslim.mdl.questions import Change, Question


class EagerContinuedSearch(ContinuedSearch, EagerSearch):
    """See `ContinuedSearch`."""


class EagerLocalSearch(LocalSearch, EagerSearch):
    """See `LocalSearch`. What the sources have done ahead is undone before the search leaves its way."""

    _marked_last: dict[int, Change]  # the marked state of `_last`: a slot may hold another element by now

    def _mark(self) -> Generator[Question, Any, None]:
        yield from self._come_back()
        yield from super()._mark()
        self._marked_last = self._last.copy()

    def _go_back(self) -> Generator[Question, Any, None]:
        yield from self._come_back()
        yield from super()._go_back()
        self._last = self._marked_last.copy()

    def _take_out(self, slots: tuple[int, ...]) -> Generator[Question, Any, None]:
        yield from self._come_back()
        yield from super()._take_out(slots)

    def _install(self, table: Table) -> Generator[Question, Any, None]:
        yield from self._come_back()
        yield from super()._install(table)
