"""Warnings about settings in a federation file that reveal more than sums over several members.

    for weakness in weaknesses(file):
        print(weakness.key, weakness.text)

The file is still valid: a federation may have good reasons for such settings.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedslim.settings.federation_keys import MAX_ROUNDS, MIN_COUNT, MIN_MEMBERS_WITH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fedslim.settings.federation_file import FederationFile

SAFE_MEMBERS = 3
"""With two members, each can subtract its own count from a sum and knows the other's."""


@dataclass(frozen=True, slots=True)
class Weakness:
    """A key of the file, and what its value reveals."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def weaknesses(file: FederationFile) -> tuple[Weakness, ...]:
    """Return the warnings about a federation file, in the order of its keys."""
    return tuple(Weakness(key, text) for key, text in _find(file))


def _find(file: FederationFile) -> Iterator[tuple[str, str]]:
    agreed, items = file.federation, file.items
    if agreed.variant == "sa":
        yield (
            "federation.variant",
            "in sa the server sees who proposes which pairs, and the counts of pairs that only one member proposes",
        )
    if agreed.variant == "so":
        yield "federation.variant", "in so the server sees every count of every member"
    if len(agreed.members) < SAFE_MEMBERS:
        yield (
            "federation.members",
            "with two members, each can subtract its own counts from the sums and knows the other's",
        )
    if file.schema.on_departure == "continue":
        yield (
            "schema.on_departure",
            "if a member leaves after the preparation, the server can compute how many values it has in each interval",
        )
    if items.vocabulary_digest is None and not file.prepares:
        yield (
            "items.vocabulary_digest",
            "not set: the server learns who has which ids, and the counts of ids that only one member has",
        )
    yield from _find_limits(file)


def _find_limits(file: FederationFile) -> Iterator[tuple[str, str]]:
    items, limits = file.items, file.limits
    if items.share_labels == "server":
        yield "items.share_labels", "members send the labels of their items to the server"
    if limits.max_rounds > MAX_ROUNDS:
        yield (
            "limits.max_rounds",
            f"the server may ask {limits.max_rounds:,} questions, more than the default of {MAX_ROUNDS:,}",
        )
    if limits.min_count < MIN_COUNT:
        limit = "there is no smallest count" if limits.min_count == 1 else f"the smallest count is {limits.min_count}"
        yield (
            "limits.min_count",
            f"{limit}, so results may be about fewer than {MIN_COUNT} transactions, possibly of a single person",
        )
    if limits.min_members_with < MIN_MEMBERS_WITH:
        yield "limits.min_members_with", "an itemset of a single member is published with that member's count"
    if file.metrics.port is not None and not _is_loopback(file.metrics.host):
        yield (
            "metrics.host",
            f"anybody who can reach {file.metrics.host} can see the progress of the run, without a certificate",
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
