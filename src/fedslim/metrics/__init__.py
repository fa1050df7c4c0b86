"""Metrics: agreement of a code table with a reference, the discovery gap, and differences of frequencies.

These are the formulas of the paper's section 4.3, except for compression, which is in `CodeTable.compression`. A ratio
with an empty whole is 1: nothing was missed, and nothing was wrong.
"""

from __future__ import annotations

from fedslim.metrics.differences import FALSE_DISCOVERY_RATE, Difference, differences
from fedslim.metrics.fidelity import Fidelity, fidelity, spearman, weighted_recall
from fedslim.metrics.gap import (
    DiscoveryGap,
    GapItemset,
    GapPrediction,
    GapRecovery,
    discovery_gap,
    gap_recovery,
    local_gain_estimate,
    predict_gap,
    supports_in,
)
from fedslim.metrics.reference import ReferenceItemset, ReferenceTable, load_reference

__all__ = [
    "FALSE_DISCOVERY_RATE",
    "Difference",
    "DiscoveryGap",
    "Fidelity",
    "GapItemset",
    "GapPrediction",
    "GapRecovery",
    "ReferenceItemset",
    "ReferenceTable",
    "differences",
    "discovery_gap",
    "fidelity",
    "gap_recovery",
    "load_reference",
    "local_gain_estimate",
    "predict_gap",
    "spearman",
    "supports_in",
    "weighted_recall",
]
