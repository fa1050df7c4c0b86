"""`policy.toml`: what a member allows, whatever a federation file, a server or a job asks for.

`fedslim member` and NVFlare's sites use the same format. The policy is checked before a member reads its data or
connects. An unknown key is an error: a misspelt permission would otherwise be lost, or grant too much.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from fedslim.data.textstream import real_path
from fedslim.errors import PolicyError
from fedslim.protocol.variant import VARIANTS
from fedslim.protocol.wire_types import MAX_MEMBERS
from fedslim.settings.federation_keys import FEWEST_MEMBERS, LARGEST, MIN_COUNT, MIN_MEMBERS_WITH, SAFE_MEMBERS
from fedslim.toml import values
from fedslim.toml.keys import SettingsFile, key
from fedslim.trust.keys import read_trusted

if TYPE_CHECKING:
    from fedslim.settings.federation_file import FederationFile

FILE = "policy.toml"
LEDGER = "ledger.json"

SHARED = ("none", "members", "server")  # who may learn labels, from the fewest to the most


_variants = values.accept(
    lambda value: isinstance(value, list) and bool(value) and all(one in VARIANTS for one in value),
    f"write a list of {', '.join(map(values.spell, VARIANTS))}",
    lambda value: tuple(dict.fromkeys(value)),
)
_fraction = values.accept(lambda one: values.is_number(one) and 0 <= one <= 1, "write a number from 0 to 1", float)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """The federations in which this member takes part."""

    min_members: int = key(
        values.whole(FEWEST_MEMBERS, MAX_MEMBERS),
        "The smallest number of members (federation.members). With two, each can compute the other's counts.",
        default=SAFE_MEMBERS,
    )
    variants: tuple[str, ...] = key(
        _variants,
        "The allowed variants (federation.variant). x: the server sees only sums. sa: it also sees which pairs this "
        "member proposes, and the counts of pairs that no other member proposes. so: it sees all counts.",
        default=("x",),
    )
    min_count: int = key(
        values.whole(1, LARGEST),
        "The federation's limits.min_count must be at least this. Write 1 to allow sa or so, which have no such limit.",
        default=MIN_COUNT,
    )
    min_members_with: int = key(
        values.whole(1, MAX_MEMBERS),
        "The federation's limits.min_members_with must be at least this. Write 1 to allow sa or so.",
        default=MIN_MEMBERS_WITH,
    )
    share_labels: Literal["none", "members", "server"] = key(
        values.one_of(*SHARED),
        "Who may learn the labels of this member's items, at most (items.share_labels): nobody, the other members, or "
        "the server as well.",
        default="none",
    )
    union: bool = key(
        values.switch,
        "Whether the server may build the vocabulary from the ids that members send (no items.vocabulary_digest). It "
        "then learns which ids this member has, and the counts of those that no other member has.",
        default=False,
    )
    min_transactions: int = key(
        values.whole(1, LARGEST), "Take part only with at least this many transactions.", default=1
    )
    min_overlap: float = key(
        _fraction,
        "With a schema: leave before the search if a smaller fraction of this member's items, weighted by how often "
        "they occur, is shared with another member. The others are told only that this member left.",
        default=0.5,
    )
    unsigned_keys: bool = key(
        values.switch,
        "Whether to accept keys that are not signed with a certificate. For NVFlare's simulator only: a dishonest "
        "server could then read this member's counts.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResults:
    """What this member stores of the resulting code table."""

    table: Literal["labels", "ids", "none"] = key(
        values.one_of("labels", "ids", "none"),
        "labels: the code table with the labels of items. ids: the code table with ids instead of labels. none: "
        "nothing; only the number of itemsets is shown.",
        default="labels",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """What this member has answered, on which data and with which members: see `fedslim ledger`."""

    file: Path = key(values.place, "The ledger file.", default=Path(LEDGER))  # noqa: RUF009  # a declaration


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPolicy(SettingsFile):
    """A member's policy, read and checked; its paths are absolute."""

    WHAT: ClassVar = "a member's policy"
    BEGIN: ClassVar = "fedslim policy init"
    ABOUT: ClassVar = (
        "What this member allows, whatever a federation file, a server or a job asks for. This file belongs to the "
        "member alone. Test it with `fedslim policy check FEDERATION`. A key that is left out has its strict default, "
        "the value that `fedslim policy init` writes. Relative paths start at the folder of this file."
    )

    written: bool = True  # whether the file exists; otherwise the strict defaults apply
    policy: Allowed
    results: KeptResults
    ledger: LedgerPlace

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that others cannot change, and check everything in it."""
        path = real_path(path)
        return cls.parse(read_trusted(path, "this policy"), path)

    @classmethod
    def find(cls, folder: str | os.PathLike[str]) -> Self:
        """Read the policy in a folder, or return the strict defaults if there is none."""
        path = real_path(folder) / FILE
        return cls.read(path) if os.path.lexists(path) else replace(cls.parse(b"", path), written=False)

    def reasons(self, file: FederationFile) -> list[str]:
        """Return every reason not to take part in a federation, with the keys of both files; empty if it is allowed."""
        mine, agreed, limits = self.policy, file.federation, file.limits
        found = []
        if len(agreed.members) < mine.min_members:
            found.append(f"policy.min_members is {mine.min_members}, but federation.members has {len(agreed.members)}")
        if agreed.variant not in mine.variants:
            found.append(f"policy.variants has {', '.join(mine.variants)}, but federation.variant is {agreed.variant}")
        for name in ("min_count", "min_members_with"):
            own, theirs = getattr(mine, name), getattr(limits, name)
            if theirs < own:
                found.append(f"policy.{name} is {own}, but limits.{name} is {theirs}")
        if SHARED.index(file.items.share_labels) > SHARED.index(mine.share_labels):
            found.append(
                f"policy.share_labels is {mine.share_labels}, but items.share_labels is {file.items.share_labels}"
            )
        if file.items.vocabulary_digest is None and not file.prepares and not mine.union:
            found.append("policy.union is false, but items.vocabulary_digest is missing")
        return found

    def check(self, file: FederationFile) -> None:
        """Check that the policy allows a federation."""
        if found := self.reasons(file):
            raise PolicyError(
                f"{self.name} does not allow {file.path}: {'; '.join(found)}; change the policy, or agree on another "
                "federation file"
            )

    def check_transactions(self, transactions: int) -> None:
        """Check that this member has enough data to take part."""
        if transactions < self.policy.min_transactions:
            raise PolicyError(
                f"{self.name} does not allow this run: policy.min_transactions is {self.policy.min_transactions}, but "
                f"the data have {transactions} transactions"
            )

    @property
    def name(self) -> str:
        """The name of the policy in messages."""
        return str(self.path) if self.written else f"the default policy (there is no {self.path})"


SECTIONS = MemberPolicy.sections()


def write_policy(path: str | os.PathLike[str], **chosen: Any) -> MemberPolicy:
    """Write a new policy with every key and its help text; `chosen` sets values by `table_key`."""
    return MemberPolicy.write(path, {name.replace("_", ".", 1): value for name, value in chosen.items()}, private=True)
