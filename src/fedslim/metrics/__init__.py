"""Metrics: agreement of a code table with a reference, the discovery gap, and differences of frequencies.

These are the formulas of the paper's section 4.3, except for compression, which is in `CodeTable.compression`. A ratio
with an empty whole is 1: nothing was missed, and nothing was wrong.
"""

from __future__ import annotations

from fedslim.metrics.differences import Difference, differences
from fedslim.metrics.fidelity import Fidelity, fidelity, spearman, weighted_recall
from fedslim.metrics.gap import DiscoveryGap, GapRecovery, discovery_gap, gap_recovery, predict_gap
from fedslim.metrics.reference import load_reference

__all__ = [
    "Difference",
    "DiscoveryGap",
    "Fidelity",
    "GapRecovery",
    "differences",
    "discovery_gap",
    "fidelity",
    "gap_recovery",
    "load_reference",
    "predict_gap",
    "spearman",
    "weighted_recall",
]
