"""`policy.toml`: what a member allows, whatever a federation's file, a server or a job says.

    policy = MemberPolicy.find(certificates)        # policy.toml there, or the strict defaults
    policy.check(file)                            # raises PolicyError, which names both keys

One format for `fedslim member` and for NVFlare's sites. It is checked before anything is read or connected. A key that
is not known is an error: a misspelt permission would otherwise be none, or too much.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedslim.data.atomic import creating, make_folder_for
from fedslim.data.textstream import real_path
from fedslim.errors import PolicyError
from fedslim.protocol.variant import VARIANTS
from fedslim.protocol.wire_types import MAX_MEMBERS
from fedslim.settings import toml_values as values
from fedslim.settings.federation_file import FEWEST_MEMBERS, LARGEST, MIN_COUNT, MIN_MEMBERS_WITH
from fedslim.settings.toml_schema import key, parse, template
from fedslim.settings.weaknesses import SAFE_MEMBERS
from fedslim.trust.keys import read_trusted

if TYPE_CHECKING:
    from fedslim.settings.federation_file import FederationFile

FILE = "policy.toml"
LEDGER = "ledger.json"
WHAT, BEGIN = "a member's policy", "fedslim policy init"
ABOUT = (
    "What this member allows, whatever the file of a federation, a server or a job says. It is the member's own and "
    "stays with it; `fedslim policy check FEDERATION` says whether it allows a federation. Keys that are left out have "
    "the strict values that `fedslim policy init` writes. Relative paths are taken from the folder of this file."
)


def _variants(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not value or any(one not in VARIANTS for one in value):
        raise values.wrong(value, f"write a list of {', '.join(map(values.spell, VARIANTS))}")
    return tuple(dict.fromkeys(value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """In which federations the member takes part."""

    HEADING: ClassVar = "In which federations this member takes part. It takes part in no others."

    min_members: int = key(
        values.whole(FEWEST_MEMBERS, MAX_MEMBERS),
        "At least so many members (federation.members): with two, each can work out the other's counts.",
        default=SAFE_MEMBERS,
    )
    variants: tuple[str, ...] = key(
        _variants,
        "Which variants (federation.variant). x: the server sees sums only. sa: also which pairs this member proposes, "
        "and the counts of those that no other member does. so: all counts of this member.",
        default=("x",),
    )
    min_count: int = key(
        values.whole(1, LARGEST),
        "The federation's limits.min_count must be this or more. sa and so know no smallest count: for them write 1.",
        default=MIN_COUNT,
    )
    min_members_with: int = key(
        values.whole(1, MAX_MEMBERS),
        "The federation's limits.min_members_with must be this or more. For sa and so write 1.",
        default=MIN_MEMBERS_WITH,
    )
    share_labels: bool = key(
        values.switch, "Whether the server may be told what items are called (items.share_vocabulary).", default=False
    )
    union: bool = key(
        values.switch,
        "Whether the server may form the vocabulary from the ids that members send (no items.vocabulary_digest). It "
        "then learns which items this member has, and how often the items that no other member has.",
        default=False,
    )
    min_transactions: int = key(
        values.whole(1, LARGEST), "At least so many transactions of this member, so that no few stand out.", default=1
    )
    unsigned_keys: bool = key(
        values.switch,
        "Whether to believe keys that no certificate has signed. For NVFlare's simulator only: a server that lies "
        "could then read this member's counts.",
        default=False,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptResults:
    """What is written of the results."""

    HEADING: ClassVar = "What is written at this member of the table that it is told."

    table: Literal["labels", "ids", "none"] = key(
        values.one_of("labels", "ids", "none"),
        "labels: the table, with the names of items. ids: the table, with ids in place of names. none: nothing; only "
        "how many itemsets were found is said.",
        default="labels",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlace:
    """Where the ledger is."""

    HEADING: ClassVar = "What this member has answered, of which data and with whom: see `fedslim ledger`."

    file: Path = key(values.place, "Where it is written down.", default=Path(LEDGER))  # noqa: RUF009  # a declaration


SECTIONS: dict[str, Any] = {"policy": Allowed, "results": KeptResults, "ledger": LedgerPlace}


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberPolicy:
    """A member's policy, read and checked. Paths in it are complete."""

    path: Path
    written: bool
    """Whether there is a file; otherwise the strict defaults hold."""
    policy: Allowed
    results: KeptResults
    ledger: LedgerPlace

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> MemberPolicy:
        """Read a file and check everything in it.

        Raises:
            DataError: There is no such file, it cannot be read, or others may change it.
            ConfigurationError: Something in it cannot be used; the message names file, key and what is allowed.
        """
        path = real_path(path)
        return cls._made(read_trusted(path, "this policy"), path, written=True)

    @classmethod
    def find(cls, folder: str | os.PathLike[str]) -> MemberPolicy:
        """The policy in a folder; where there is none, the strict defaults."""
        path = real_path(folder) / FILE
        return cls.read(path) if os.path.lexists(path) else cls._made(b"", path, written=False)

    @classmethod
    def _made(cls, data: bytes, path: Path, *, written: bool) -> MemberPolicy:
        return cls(path=path, written=written, **parse(data, path, SECTIONS, WHAT, BEGIN))

    def reasons(self, file: FederationFile) -> list[str]:
        """Why this member does not take part in a federation, each with the keys of both files; empty if it does."""
        mine, agreed, limits = self.policy, file.federation, file.limits
        found = []
        if len(agreed.members) < mine.min_members:
            found.append(f"policy.min_members is {mine.min_members}, and federation.members has {len(agreed.members)}")
        if agreed.variant not in mine.variants:
            found.append(f"policy.variants has {', '.join(mine.variants)}, and federation.variant is {agreed.variant}")
        for name in ("min_count", "min_members_with"):
            own, theirs = getattr(mine, name), getattr(limits, name)
            if theirs < own:
                found.append(f"policy.{name} is {own}, and limits.{name} is {theirs}")
        if file.items.share_vocabulary and not mine.share_labels:
            found.append("policy.share_labels is false, and items.share_vocabulary is true")
        if file.items.vocabulary_digest is None and not mine.union:
            found.append("policy.union is false, and items.vocabulary_digest is missing")
        return found

    def check(self, file: FederationFile) -> None:
        """Check that this member takes part in a federation.

        Raises:
            PolicyError: It does not; the message has every reason.
        """
        if found := self.reasons(file):
            msg = (
                f"{self.name} does not allow {file.path}: {'; '.join(found)}; change what was agreed on, or this "
                "member's policy"
            )
            raise PolicyError(msg)

    def check_transactions(self, transactions: int) -> None:
        """Check that this member has enough data to take part.

        Raises:
            PolicyError: It has not.
        """
        if transactions < self.policy.min_transactions:
            msg = (
                f"{self.name} does not allow it: policy.min_transactions is {self.policy.min_transactions}, and there "
                f"are {transactions}"
            )
            raise PolicyError(msg)

    @property
    def name(self) -> str:
        """The policy for a message."""
        return str(self.path) if self.written else f"the default policy (there is no {self.path})"


def write_policy(path: str | os.PathLike[str], **chosen: Any) -> MemberPolicy:
    """Write a new policy with every key there is and what it is for; `chosen` has values as `table_key`.

    Raises:
        DataError: Something of that name is there already.
    """
    path = real_path(path)
    text = template(SECTIONS, {k.replace("_", ".", 1): v for k, v in chosen.items()}, ABOUT).encode()
    made = MemberPolicy(path=path, written=True, **parse(text, path, SECTIONS, WHAT, BEGIN))
    make_folder_for(path)
    with creating(path) as stream:
        stream.write(text)
    return made
