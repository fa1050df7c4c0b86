"""Which itemsets are more or less frequent in one data set than in another: exact tests, corrected for their number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedslim.errors import ParameterError

FALSE_DISCOVERY_RATE = 0.05  # itemsets whose q is at most this are called different: about one in twenty of them is not


@dataclass(frozen=True, slots=True)
class Difference:
    """The comparison of an itemset's supports: ratio of its rates, p-value, and p corrected for many tests (q)."""

    ratio: float | None  # None if it does not occur there
    p: float
    q: float

    @property
    def significant(self) -> bool:
        """Whether the itemset is among those with a false discovery rate of `FALSE_DISCOVERY_RATE`."""
        return self.q <= FALSE_DISCOVERY_RATE


def differences(  # noqa: PLR0913  # keyword-only options
    here: Sequence[int], n_here: int, there: Sequence[int], n_there: int, *, slack: int = 0, independent: bool = True
) -> list[Difference]:
    """Test each itemset: is its rate here another than there?

    The test is Fisher's (two-sided). q is p after Benjamini and Hochberg or, if the counts may depend on each other in
    any way, after Benjamini and Yekutieli.

    Args:
        here: In how many transactions each itemset occurs here.
        n_here: The number of transactions here.
        there: The same for the other data, in the same order.
        n_there: The number of transactions there.
        slack: By how much the counts there may be too low, if they were rounded down. A test then takes the count
            within the slack that differs least.
        independent: Whether the counts are independent of each other, or grow with each other.

    Examples:
        >>> from fedslim.metrics import differences
        >>> [(d.ratio, d.significant) for d in differences([30, 5], 100, [60, 55], 900)]
        [(4.5, True), (0.8181818181818182, False)]
    """
    if len(here) != len(there) or any(
        not (0 <= a <= n_here and 0 <= b <= n_there) for a, b in zip(here, there, strict=False)
    ):
        msg = "give a support here and there for each itemset, none below 0 or above the number of transactions"
        raise ParameterError(msg)
    if not here:
        return []
    from scipy.stats import false_discovery_control, fisher_exact  # noqa: PLC0415  # takes a second

    nearest = [
        max(b, min(b + slack, n_there, round(a / n_here * n_there if n_here else 0)))
        for a, b in zip(here, there, strict=True)
    ]
    p = [float(fisher_exact([[a, n_here - a], [b, n_there - b]]).pvalue) for a, b in zip(here, nearest, strict=True)]
    q = false_discovery_control([min(1.0, each) for each in p], method="bh" if independent else "by")
    return [
        Difference(a * n_there / (b * n_here) if b and n_here else None, one, float(corrected))
        for a, b, one, corrected in zip(here, nearest, p, q, strict=True)
    ]
