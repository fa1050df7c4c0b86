"""Attack 5, high, by a member: membership inference with invented data. NOT stopped.

A member adds 400 copies of a chosen itemset, which brings it into the code table. The published support minus 400 is
the others' exact count. No exact method can stop this, only noise, as the threat model states. If this test ever fails,
the threat model must change.
"""

from __future__ import annotations

from pathlib import Path

from wire import of_numbers, recorded, sprinkled

TARGET, COPIES = (3, 11, 17, 25), 400


def test_the_published_support_less_the_copies_is_the_count_of_the_others():
    honest = sprinkled(5, 30, 2, 400, noise=0.05)
    honest[0] += [{*TARGET, 7}, {*TARGET}, {*TARGET, 1, 2}]
    named = of_numbers([[set(TARGET)] * COPIES, *honest], 30)
    truth = sum(set(TARGET) <= row for part in honest for row in part)
    assert truth > 0
    _, outcome, _ = recorded(named, "x", min_support=20, min_count=5, min_members_with=2)
    (found,) = [e for e in outcome.table.itemsets if tuple(e.items) == TARGET]
    assert found.support - COPIES == truth


def test_the_threat_model_says_so():
    page = (Path(__file__).parents[2] / "docs" / "explanation" / "threat-model.md").read_text("utf-8")
    assert "invented data" in page.lower()
