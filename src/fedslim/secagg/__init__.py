"""Secure aggregation: exact sums of integer vectors, without revealing any member's vector.

A round needs the answers of all its members: masks cancel only in the sum over all of them.
"""

from __future__ import annotations

from fedslim.secagg.aggregation import MaskedSum
from fedslim.secagg.keys import AgreementKey, PairSecret, check_usable
from fedslim.secagg.masking import Masker, MaskLabel
from fedslim.secagg.ring import Ring
from fedslim.secagg.sparse import Sketch

__all__ = ["AgreementKey", "MaskLabel", "MaskedSum", "Masker", "PairSecret", "Ring", "Sketch", "check_usable"]
