"""What in a federation's file weakens its promise that no member's counts are seen, in plain words.

    for weakness in weaknesses(file):
        print(weakness.key, weakness.text)

The file is valid all the same: some federations know what they give up, and why.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedslim.settings.federation_file import MAX_ROUNDS, MIN_COUNT, MIN_MEMBERS_WITH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedslim.settings.federation_file import FederationFile

SAFE_MEMBERS = 3
"""With fewer, a sum less one's own part is somebody else's count."""


@dataclass(frozen=True, slots=True)
class Weakness:
    """A key of the file, and what its value gives away."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def weaknesses(file: FederationFile) -> tuple[Weakness, ...]:
    """Everything in the file that weakens the promise, in the order of its keys."""
    return tuple(Weakness(key, text) for key, text in _find(file))


def _find(file: FederationFile) -> Iterator[tuple[str, str]]:
    agreed, items, limits = file.federation, file.items, file.limits
    if agreed.variant == "sa":
        yield (
            "federation.variant",
            "in sa the server sees who proposes which pairs of items, and the counts of those that only one proposes",
        )
    if agreed.variant == "so":
        yield "federation.variant", "in so the server sees every count of every member"
    if len(agreed.members) < SAFE_MEMBERS:
        yield (
            "federation.members",
            "there are two; each can subtract its own counts from the result and has the other's",
        )
    if items.vocabulary_digest is None:
        yield (
            "items.vocabulary_digest",
            "none was agreed on: the server learns who has which items, and counts of those that only one member has",
        )
    if items.share_vocabulary:
        yield "items.share_vocabulary", "members tell the server what their items are called"
    if limits.max_rounds > MAX_ROUNDS:
        yield (
            "limits.max_rounds",
            f"a server may ask {limits.max_rounds:,} questions, more than the {MAX_ROUNDS:,} by default",
        )
    if limits.min_count < MIN_COUNT:
        none = "there is no smallest count" if limits.min_count == 1 else f"the smallest count is {limits.min_count}"
        yield (
            "limits.min_count",
            f"{none}, so results may tell of fewer than {MIN_COUNT} transactions, which may be one person's",
        )
    if limits.min_members_with < MIN_MEMBERS_WITH:
        yield "limits.min_members_with", "an itemset that one member alone has is published with that member's count"
    if file.metrics.port is not None and not _is_loopback(file.metrics.host):
        yield (
            "metrics.host",
            f"whoever reaches {file.metrics.host} sees how far the run is, without a certificate",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
