"""A search for sources where a question is dear, as in a federation, where it is a round.

It finds the same table as `SlimSearch` with far fewer questions and somewhat more work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from fedslim.mdl.bounded_ranking import BoundedRanking
from fedslim.mdl.objective import standard_length
from fedslim.mdl.questions import Remove, Restore, TryInsertions
from fedslim.mdl.ranking import UnknownRows
from fedslim.mdl.search import SlimSearch
from fedslim.mdl.steps import Trial

if TYPE_CHECKING:
    from collections.abc import Generator

    from fedslim.mdl.policy import Policy
    from fedslim.mdl.questions import Insert, Question, Tried
    from fedslim.mdl.ranking import Candidate, CandidateRanking


class EagerSearch(SlimSearch):
    """Asks about all candidates of a step at once, presuming that those stay which were not rejected before.

    At the same time it asks what it will ask next. At the first candidate that turns out otherwise it undoes the rest,
    and asks again about those.
    """

    RANKING: ClassVar[type[CandidateRanking]] = BoundedRanking
    MAX_TRIALS: ClassVar[int] = 64
    ranking: BoundedRanking

    def __init__(self, n_items: int, policy: Policy) -> None:
        super().__init__(n_items, policy)
        self._ahead: tuple[tuple[Candidate, ...], TryInsertions, Tried] | None = None  # the next step, if all goes well

    def _go_ahead(self) -> Generator[Question, Any, None]:
        """Ask about the next candidates together with what comes before: removals to try, and rows to rank by.

        Most removals are not carried out, and most candidates are those that were to be expected.
        """
        pending = [s for s in self._shrunk if s in self._table.itemsets] if self.policy.pruning else []
        unknown = tuple(sorted([s for s in pending if s not in self._tried]))
        best = self.ranking.best()
        rows = best.slots if isinstance(best, UnknownRows) else ()
        candidates = self.ranking.presumed(rows) if isinstance(best, UnknownRows) else best
        if candidates and self._entry_is_known and (unknown or rows):
            question = self._presume(candidates, tuple([c.together for c in candidates]), unknown, rows)
            answer = yield question
            self._tried |= dict(zip(unknown, answer.before, strict=True))
            self.tally.rows += len(rows)
            self.ranking.learn(rows, answer.rows)
            self._ahead = (candidates, question, answer)

    def _come_back(self) -> Generator[Question, Any, None]:
        """Undo the insertions of the next candidates, since something else comes first."""
        if self._ahead is not None:
            yield from self._take_back(self._ahead[1], 0)
            self._ahead = None

    def _next_candidates(self) -> Generator[Question, Any, tuple[Candidate, ...]]:
        best = yield from super()._next_candidates()
        if self._ahead is not None and self._ahead[0] != best:
            yield from self._come_back()
        return best

    def _try(  # noqa: C901  # a case for each way to turn out
        self, candidates: tuple[Candidate, ...]
    ) -> Generator[Question, Any, int]:
        """Try candidates in order, until one turns out otherwise than presumed; return how many are done with."""
        entries = yield from self._ask_entries(candidates)
        if not entries:
            self._fail(candidates[0])
            return 1
        if self._ahead is None:
            question = self._presume(candidates, entries)
            answer = yield question
        else:
            (_, question, answer), self._ahead = self._ahead, None
        for k, (move, keep, change) in enumerate(zip(question.moves, question.keep, answer.changes, strict=True)):
            candidate = candidates[k]
            skipped = bool({candidate.x, candidate.y} & self._touched)
            self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
            trial = Trial(candidate, move, change, 0.0 if skipped else self._bits_changed(change))
            stays = not skipped and self._pays(trial)
            if stays != keep:
                yield from self._take_back(question, k if keep else k + 1)
            if stays:
                if not keep:
                    yield move
                self._enter(trial)
                if rare := self._rare():
                    if keep:
                        yield from self._take_back(question, k + 1)
                    yield from self._remove_rare(rare, candidate)
                    return k + 1
                self._open = None
            elif not skipped:
                self._fail(candidate)
            if stays != keep:
                return k + 1
        yield from self._confirm(question, answer)
        return len(question.moves)

    def _presume(
        self,
        candidates: tuple[Candidate, ...],
        entries: tuple[int, ...],
        before: tuple[int, ...] = (),
        rows: tuple[int, ...] = (),
    ) -> TryInsertions:
        """Ask what candidates change; insert those that are presumed to stay, and ask what comes next.

        All stay but those that were rejected before. Each takes from its two parents as much usage as estimated, and
        nothing else changes.
        """
        slots = iter(self._table.free_slots(len(entries) + 1))
        slot = next(slots)
        moves: list[Insert] = []
        keeps: list[bool] = []
        left: dict[int, int] = {}
        uses: list[int] = []
        for candidate, entry in zip(candidates, entries, strict=False):
            parents = (candidate.x, candidate.y)
            moves.append(self._move(slot, candidate, entry))
            keeps.append(keep := not self.ranking.was_rejected(candidate))
            if not keep:
                continue
            slot = next(slots)
            uses.append(candidate.together)
            after = {s: int(self._usage[s]) - candidate.together for s in parents}
            left |= after
            if any(0 < u < self.policy.min_count and s in self._table.itemsets for s, u in after.items()):
                break  # it has to be removed before the next candidate is tried
        if not uses or len(moves) < len(candidates):
            return TryInsertions(tuple(moves), tuple(keeps), before=before, rows=rows)
        itemsets = [s for s in left if s in self._table.itemsets]
        rank = self._table.elements.rank
        gone = tuple(sorted([s for s in itemsets if left[s] == 0]))
        removals = sorted([s for s in itemsets if left[s] > 0], key=lambda s: (left[s], rank[s]))
        trials = tuple(removals) if self.policy.pruning else ()
        return TryInsertions(tuple(moves), tuple(keeps), gone, trials, tuple(uses), before, rows)

    def _take_back(self, question: TryInsertions, first: int) -> Generator[Question, Any, None]:
        """Undo what was presumed from this candidate on."""
        yield from self._restore(question.gone)
        for k in reversed(range(first, len(question.moves))):
            if question.keep[k]:
                yield Remove(question.moves[k].slot)

    def _restore(self, slots: tuple[int, ...]) -> Generator[Question, Any, None]:
        for slot in reversed(slots):
            yield Restore(slot, self._table.itemsets[slot], self._table.entries[slot])

    def _confirm(self, question: TryInsertions, answer: Tried) -> Generator[Question, Any, None]:
        """Take in what was asked for in case that all candidates stay, which they do."""
        if question.gone != self._unused():
            yield from self._restore(question.gone)
            return
        for slot in question.gone:
            self._leave(slot, None)
        self._tried |= dict(zip(question.removals, answer.trials, strict=True))
        kept = [move for move, keep in zip(question.moves, question.keep, strict=True) if keep]
        self.ranking.settle(kept, answer.fetched)
