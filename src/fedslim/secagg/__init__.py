"""Secure aggregation: exact sums of integer vectors of which nobody sees a single summand. It knows no itemsets.

Two things are still to come and have their place here: a second mask of each member's own with shares of its seed, so
that a round survives members that drop out, and signatures on the agreement keys.
"""

from __future__ import annotations

from fedslim.secagg.aggregation import MaskedSum
from fedslim.secagg.keys import AgreementKey, PairSecret, check_usable
from fedslim.secagg.masking import Masker, MaskLabel
from fedslim.secagg.ring import Ring
from fedslim.secagg.sparse import Sketch

__all__ = ["AgreementKey", "MaskLabel", "MaskedSum", "Masker", "PairSecret", "Ring", "Sketch", "check_usable"]
