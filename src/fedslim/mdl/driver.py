"""Puts the questions of a search to a source, watches the time, and reports progress."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedslim.mdl.questions import Question, Source
    from fedslim.mdl.search import SearchResult, SlimSearch


def drive(search: SlimSearch, source: Source, *, deadline: float | None = None) -> SearchResult:
    run = search.run()
    answer: Any = None
    try:
        question: Question = next(run)
        while True:
            answer = question.put_to(source)
            if deadline is not None and time.monotonic() > deadline:
                return search.result()
            question = run.send(answer)
    except StopIteration as stop:
        return stop.value
