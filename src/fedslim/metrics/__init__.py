"""Metrics: agreement of a code table with a reference, and the discovery gap.

These are the formulas of the paper's section 4.3, except for compression, which is in `CodeTable.compression`. A ratio
with an empty whole is 1: nothing was missed, and nothing was wrong.
"""

from __future__ import annotations

from fedslim.metrics.fidelity import Fidelity, fidelity, spearman, weighted_recall
from fedslim.metrics.gap import (
    DiscoveryGap,
    GapItemset,
    GapPrediction,
    GapRecovery,
    Spread,
    discovery_gap,
    gap_recovery,
    local_gain_estimate,
    predict_gap,
)
from fedslim.metrics.reference import ReferenceItemset, ReferenceTable, load_reference

__all__ = [
    "DiscoveryGap",
    "Fidelity",
    "GapItemset",
    "GapPrediction",
    "GapRecovery",
    "ReferenceItemset",
    "ReferenceTable",
    "Spread",
    "discovery_gap",
    "fidelity",
    "gap_recovery",
    "load_reference",
    "local_gain_estimate",
    "predict_gap",
    "spearman",
    "weighted_recall",
]
