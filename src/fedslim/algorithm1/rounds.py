"""The loop around Algorithm 1 that SA and SO share: its questions, answered by rounds, until it ends or must."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedslim.algorithm1.search import Acceptance
from fedslim.mdl.questions import Supports

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from fedslim.algorithm1.search import Algorithm1Question, Algorithm1Search
    from fedslim.protocol.outcome import Ending
    from fedslim.protocol.variant import Replies, Round, Situation

    Answered = Callable[[Algorithm1Question], Generator[Round, Replies, Any]]


def run_search(search: Algorithm1Search, situation: Situation, answered: Answered) -> Generator[Round, Replies, Ending]:
    """Let the search run; returns how it ended.

    It may be stopped at any question but the first, without which there is no table at all, and not between the
    evaluation of an itemset and its acceptance: then the table would not be what the usages say.
    """
    questions = search.run()
    question = next(questions)
    try:
        while situation.ending is None or isinstance(question, (Supports, Acceptance)):
            question = questions.send((yield from answered(question)))
    except StopIteration:
        return "converged"
    return situation.ending
