"""Metrics: agreement of a code table with a reference, the discovery gap, and differences of frequencies.

These are the formulas of the paper's section 4.3, except for compression, which is in `CodeTable.compression`. A ratio
with an empty whole is 1: nothing was missed, and nothing was wrong.
"""

from fedslim.metrics.differences import Difference as Difference, differences as differences
from fedslim.metrics.fidelity import (
    Fidelity as Fidelity,
    fidelity as fidelity,
    spearman as spearman,
    weighted_recall as weighted_recall,
)
from fedslim.metrics.gap import DiscoveryGap as DiscoveryGap, discovery_gap as discovery_gap, predict_gap as predict_gap
from fedslim.metrics.reference import load_reference as load_reference
