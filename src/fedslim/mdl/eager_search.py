"""A search for sources where a question is dear, as in a federation, where it is a round.

It finds the same table as `SlimSearch` with far fewer questions and somewhat more work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from fedslim.mdl.expectations import Expected, ExpectingSearch
from fedslim.mdl.objective import EXACT, standard_length
from fedslim.mdl.policy import Policy
from fedslim.mdl.questions import (
    Change,
    CoUsages,
    Fetch,
    Insert,
    Question,
    Remove,
    Restore,
    Together,
    Tried,
    TryInsertions,
    TryRemovals,
)
from fedslim.mdl.ranking import Candidate, UnknownRows
from fedslim.mdl.search import Usages
from fedslim.mdl.steps import Trial

Best = tuple[Candidate, ...] | UnknownRows

RARELY, MEMORY = 1 / 8, 16
"""Counts for the next step are not asked for with the first question of a step if it was enough so rarely, about as
measured by so many steps. Then a second one is needed anyway, which knows better what to ask for."""

FEW = 2
"""If no more rows are missing than this for each candidate of a step, those that seem to be next mostly are."""


class RemovedAhead(NamedTuple):
    """Trials, and the removal that the sources have carried out after them, since it was expected."""

    trials: dict[int, Change]
    slot: int | None
    fetched: Any = ()  # counts after all of them


class EagerSearch(ExpectingSearch):
    """Asks about all candidates of a step at once, presuming that those stay which were not rejected before.

    At the same time it asks what it will ask next. At the first candidate that turns out otherwise it undoes the rest,
    and asks again about those.
    """

    def __init__(self, n_items: int, policy: Policy) -> None:
        super().__init__(n_items, policy)
        self._ahead: tuple[tuple[Candidate, ...], TryInsertions, Tried] | None = None  # the next step, if all goes well
        self._removed: deque[RemovedAhead] = deque()  # what is expected to be removed next
        self._enough = 1.0  # how often the first question of a step was enough

    @property
    def touched(self) -> set[int]:
        """The elements whose covers changed in this step."""
        return self._touched

    # -- pruning ------------------------------------------------------------------------------------------------

    def _prune(self, pending: set[int], *, forced_only: bool, once: bool = False) -> Generator[Question, Any, int]:
        removed = yield from super()._prune(pending, forced_only=forced_only, once=once)
        if self._removed and self._removed[0].slot is None:
            self.ranking.settle((), self._removed[0].fetched)
        yield from self._restore_removed()
        return removed

    def _try_all(self, slots: set[int]) -> Generator[Question, Any, None]:
        """See `SlimSearch`. Most removals are not carried out, so the next candidates are asked for as well."""
        while unknown := tuple(sorted([s for s in slots if s not in self._tried])[: self.MAX_TRIALS]):
            yield from self._come_back()
            best = self.ranking.best()
            if isinstance(best, UnknownRows) or not (yield from self._go_ahead(best, unknown)):
                then = self._expect_pruning(slots, self._usage, self._tried)
                yield from self._ask_removals(tuple([s for s in unknown if not then or s != then[0].slot]), then, best)

    def _try_removals(self, queue: tuple[int, ...], *, once: bool) -> Generator[Question, Any, tuple[Change, ...]]:
        """See `SlimSearch`. If some are expected to be carried out, the sources do that, and try others after them."""
        if self._removed:
            self._note_trials(self._removed[0].trials)
        if queue[0] not in self._tried:
            yield from self._come_back()
            expected = self._expect(queue, self._usage, self._tried, once=once)
            if any(one.leaves for one in expected):
                yield from self._ask_removals((), expected, self.ranking.best())
            else:
                yield from self._try_all({one.slot for one in expected})
        return tuple([self._tried[s] for s in takewhile(self._tried.__contains__, queue)])

    def _ask_removals(self, slots: tuple[int, ...], then: list[Expected], best: Best) -> Generator[Question, Any, None]:
        """Ask what removals would change, then what removals change that are expected, which the sources carry out.

        The rows that the next candidates need are asked for as well, as they are before and as they will be.
        """
        questions: list[CoUsages | TryRemovals | Fetch] = [TryRemovals(slots)] if slots else []
        if isinstance(best, UnknownRows):
            questions.insert(0, CoUsages(best.slots))
        answers = deque((yield Together((*questions, *_carry_out(then)))))
        if isinstance(best, UnknownRows):
            self._learn_rows(best, answers.popleft())
        if slots:
            self._note_trials(dict(zip(slots, answers.popleft(), strict=True)))
        if then:
            self._note_removed(then, *answers)
            self._note_trials(self._removed[0].trials)

    def _note_removed(self, then: list[Expected], changes: tuple[Change, ...], fetched: Any) -> None:
        """Note what the sources have carried out; what they found holds only if all before it is as presumed."""
        trials: dict[int, Change] = {}
        for (slot, leaves, _), change in zip(then, changes, strict=True):
            trials[slot] = change
            if leaves:
                self._removed.append(RemovedAhead(trials, slot))
                trials = {}
        self._removed.append(RemovedAhead(trials, None, fetched))

    def _decide(self, slot: int, *, leaves: bool) -> Generator[Question, Any, None]:
        """See `SlimSearch`: if it is as expected, the sources have done it."""
        expected = bool(self._removed) and self._removed[0].slot == slot
        if leaves and expected:
            self._removed.popleft()
            return
        if leaves or expected:
            yield from self._come_back()
        if leaves:
            yield Remove(slot)

    # -- the next candidates ------------------------------------------------------------------------------------

    def _go_ahead(self, best: Best, removals: tuple[int, ...] = ()) -> Generator[Question, Any, bool]:
        """Ask about the next candidates together with removals that come before them, and are expected to fail.

        If rows are missing, ask for them, and about the candidates that seem to be next. Return False, and ask nothing,
        if too much is missing.
        """
        lacking = len(best.slots) if isinstance(best, UnknownRows) else 0
        candidates = best.known if isinstance(best, UnknownRows) else best
        if not candidates or not self._entry_is_known or lacking > FEW * self.ranking.width:
            return False
        question, _ = self._presume(candidates, tuple([c.together for c in candidates]), self._later, removals)
        if isinstance(best, UnknownRows):
            question = _only(question, len(candidates))
            rows, answer = yield Together((CoUsages(best.slots), question))
            self._learn_rows(best, rows)
        else:
            answer = yield question
        self._note_trials(dict(zip(removals, answer.before, strict=True)))
        self._ahead = (candidates, question, answer)
        return True

    def _learn_rows(self, unknown: UnknownRows, rows: Any) -> None:
        self.tally.rows += len(unknown.slots)
        self.ranking.learn(unknown.slots, rows)

    def _come_back(self) -> Generator[Question, Any, None]:
        """Undo what the sources have done ahead, since something else comes first."""
        if self._ahead is not None:
            yield from self._take_back(self._ahead[1], 0)
            self._ahead = None
        yield from self._restore_removed()

    def _restore_removed(self) -> Generator[Question, Any, None]:
        yield from self._restore(tuple([one.slot for one in self._removed if one.slot is not None]))
        self._removed.clear()

    def _next_candidates(self) -> Generator[Question, Any, tuple[Candidate, ...]]:
        self.fresh.clear()
        while isinstance(best := self.ranking.best(), UnknownRows):
            yield from self._come_back()
            if not (yield from self._go_ahead(best)):
                self._learn_rows(best, (yield CoUsages(best.slots)))
        if self._ahead is not None:
            yield from self._keep_common(best)
        return best

    def _keep_common(self, best: tuple[Candidate, ...]) -> Generator[Question, Any, None]:
        """Undo what was done ahead from the first candidate on that is not next after all."""
        assert self._ahead is not None  # noqa: S101
        seemed, question, answer = self._ahead
        same = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(seemed, best, strict=False))))
        if same == 0:
            yield from self._come_back()
        elif len(seemed) > same or len(best) > same:
            yield from self._take_back(question, same)
            self._ahead = (best, _only(question, same), Tried((), answer.changes[:same], ()))

    def _try(  # noqa: C901  # a case for each way to turn out
        self, candidates: tuple[Candidate, ...]
    ) -> Generator[Question, Any, int]:
        """Try candidates in order, until one turns out otherwise than presumed; return how many are done with."""
        first = not self._touched
        entries = yield from self._ask_entries(candidates)
        if not entries:
            self._fail(candidates[0])
            return 1
        if self._ahead is None:
            question, then = self._presume(candidates, entries, self._later | self._shrunk, ahead=True)
            answer = yield from self._ask_with_next(question, candidates, then)
        else:
            (_, question, answer), self._ahead = self._ahead, None
        self._remember(candidates, question, answer)
        for k, (move, keep, change) in enumerate(zip(question.moves, question.keep, answer.changes, strict=True)):
            candidate = candidates[k]
            skipped = bool({candidate.x, candidate.y} & self._touched)
            self._standard[move.slot] = standard_length(move.itemset, self._item_lengths)
            trial = Trial(candidate, move, change, 0.0 if skipped else self._bits_changed(change))
            stays = not skipped and self._pays(trial)
            if stays != keep:
                self._enough -= self._enough / MEMORY * first
                yield from self._come_back()
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
        enough = all(s in self._tried for s in self._later | self._shrunk if s in self._table.itemsets)
        self._enough += (enough - self._enough) / MEMORY * first
        return len(question.moves)

    def _ask_with_next(
        self, question: TryInsertions, candidates: tuple[Candidate, ...], leaving: list[Expected]
    ) -> Generator[Question, Any, Tried]:
        """Ask about candidates; if all of them will most likely be rejected, also about those that come then."""
        answer: Tried
        if leaving:
            answer, changes, fetched = yield Together((question, *_carry_out(leaving, question)))
            self._note_removed(leaving, changes, fetched)
            return answer
        if not any(question.keep) and len(question.moves) == len(candidates) and not self._later | self._shrunk:
            then = self.ranking.best_without(candidates)
            if then and not isinstance(then, UnknownRows) and self._entry_is_known:
                following, _ = self._presume(then, tuple([c.together for c in then]), set())
                answer, later = yield Together((question, following))
                self._ahead = (then, following, later)
                return answer
        answer = yield question
        return answer

    def _presume(
        self,
        candidates: tuple[Candidate, ...],
        entries: tuple[int, ...],
        pending: set[int],
        before: tuple[int, ...] = (),
        *,
        ahead: bool = False,
    ) -> tuple[TryInsertions, list[Expected]]:
        """Ask what candidates change; insert those that are presumed to stay, and ask what comes next.

        All stay but those that were rejected before, and those that only another estimate than the exact one proposes.
        Each takes from its two parents as much usage as estimated, and nothing else changes.
        """
        free = self._table.free_slots(len(entries) + 1)
        self._reserve(max(free))
        slots = iter(free)
        slot = next(slots)
        usage, touched, shrunk = self._usage.copy(), set[int](), set[int]()
        now = Usages(usage, self._total, self._in_use)
        moves: list[Insert] = []
        keeps: list[bool] = []
        expected: list[Change] = []
        for candidate, entry in zip(candidates, entries, strict=False):
            moves.append(self._move(slot, candidate, entry))
            change = self._expect_insertion(candidate, slot, usage)
            expected.append(change)
            keep = self.ranking.charge == EXACT and not self.ranking.was_rejected(candidate)
            keeps.append(
                keep := keep and not {candidate.x, candidate.y} & touched and self._bits_changed(change, now) < 0
            )
            if not keep:
                continue
            net = change.won - change.lost
            now = now.after(change)
            touched.update(change.slots.tolist())
            shrunk.update(change.slots[net < 0].tolist())
            slot = next(slots)
            rare = change.slots[(usage[change.slots] > 0) & (usage[change.slots] < self.policy.min_count)]
            if any(s in self._table.itemsets for s in rare.tolist()):
                break  # it has to be removed before the next candidate is tried
        known = (tuple(moves), tuple(keeps))
        if not any(keeps) or len(moves) < len(candidates):
            return TryInsertions(*known, before=before, expected=tuple(expected)), []
        itemsets = [s for s in pending | shrunk if s in self._table.itemsets]
        rank = self._table.elements.rank
        gone = tuple(sorted([s for s in itemsets if usage[s] == 0]))
        removals = sorted([s for s in itemsets if usage[s] > 0], key=lambda s: (usage[s], rank[s]))
        sure = bool(self._touched) or self._enough > RARELY
        then = self._expect_pruning(set(removals), usage, {}) if ahead and sure else []
        trials = tuple([s for s in removals if not then or s != then[0].slot][: self.MAX_TRIALS])
        question = TryInsertions(
            *known, gone, trials if self.policy.pruning else (), before, tuple(expected), whole=sure
        )
        return question, then

    def _take_back(self, question: TryInsertions, first: int) -> Generator[Question, Any, None]:
        """Undo what was presumed from this candidate on."""
        yield from self._restore_removed()
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
            yield from self._restore_removed()
            yield from self._restore(question.gone)
            return
        for slot in question.gone:
            self._leave(slot, None)
        self._note_trials(dict(zip(question.removals, answer.trials, strict=True)))
        if self._removed:
            self._note_trials(self._removed[0].trials)
        kept = [move for move, keep in zip(question.moves, question.keep, strict=True) if keep]
        self.ranking.settle(kept, answer.fetched)


def _carry_out(expected: list[Expected], after: TryInsertions | None = None) -> Sequence[TryRemovals | Fetch]:
    """Ask to carry out removals, and for counts that will be useful then."""
    if not expected:
        return ()
    leaving = tuple([(one.slot, one.change) for one in expected if one.leaves])
    return TryRemovals(*zip(*expected, strict=True)), Fetch(leaving, after)


def _only(question: TryInsertions, first: int) -> TryInsertions:
    """Return the question without what comes before and after the first insertions."""
    return TryInsertions(question.moves[:first], question.keep[:first], expected=question.expected[:first])
