"""`federation.toml`: what the members of a federation and its server agree on, and how to reach each other.

    file = FederationFile.read("federation.toml")
    session = ServerSession(file.federation.members, file.settings(), …)
    file.digest()                           # equal for those, and only those, who agreed on the same

Everybody has a copy. Nothing in it is secret, and everything is checked: a key that is not known is an error, since a
misspelt limit would otherwise be no limit. Each key is declared once, below, with its check and its words; the file
that `write_template` makes is written from these declarations.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, fields
from hashlib import blake2b
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from fedslim.data.atomic import creating, make_folder_for
from fedslim.data.textstream import real_path
from fedslim.data.vocabulary import DIGEST_BYTES, FINGERPRINT_BYTES
from fedslim.errors import ConfigurationError
from fedslim.protocol.messages import Settings
from fedslim.protocol.variant import VARIANTS
from fedslim.protocol.wire_types import MAX_MEMBERS
from fedslim.settings import toml_values as values
from fedslim.settings.toml_schema import key, parse, read, template, unknown
from fedslim.settings.toml_schema import value as value_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from fedslim.data import ItemSecret, Vocabulary

ID_BYTES = 16
FEWEST_MEMBERS = 2
"""A federation of one has nothing to hide among: what it calls sums would be its counts."""

DEFAULT_PORT = 7443
MAX_NAME_LENGTH = 100
MAX_TRANSACTIONS = 1 << 48
LARGEST = 2**31 - 1
MAX_ROUNDS = 20_000
MIN_COUNT = 5
"""As OHDSI and vantage6 have it; 1 is for public data."""

MIN_MEMBERS_WITH = 2
DAY = 86_400.0
YEAR = 366 * DAY

UNMASKED = "so"
"""The variant in which the server sees the counts of every member."""

ONLY_X = {"pruning": True, "max_itemset_size": None, "min_support": 1, "min_count": 1, "min_members_with": 1}
"""Limits that only x knows, and what they are where they limit nothing."""

AGREEMENT = b"fedslim fed 3"
WHAT, BEGIN = "a federation's file", "fedslim federation init"
ABOUT = (
    "A federation, as all its members and its server agreed on it. Everybody has a copy of this file; nothing in it is "
    "secret. Where it says that everybody must have the same, `fedslim federation check` prints a digest to compare. "
    "Keys behind a # are left out, and hold as the comment says once the # is gone."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """Who mines together, and how."""

    HEADING: ClassVar = "Who mines together, and how. Everybody must have the same here."

    name: str = key(values.title(MAX_NAME_LENGTH), "What people call this federation.")
    id: str = key(
        values.hexadecimal(2 * ID_BYTES, "as `fedslim federation init` makes them"),
        "Made at random, once. Keys and certificates are bound to it, so those of another federation are of no use.",
    )
    variant: Literal["x", "sa", "so"] = key(
        values.one_of(*VARIANTS),
        "x: the table that all data in one place would give; the server sees sums only. sa: the paper's secure "
        "aggregation; the server also sees who proposes which pairs. so: the paper's server-observable; the server "
        "sees every member's counts.",
    )
    members: tuple[str, ...] = key(
        values.member_names(FEWEST_MEMBERS, MAX_MEMBERS),
        "The members, by the names in their certificates: 1 to 63 of a-z, 0-9 and -. A member talks to nobody else.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """Where the server is."""

    HEADING: ClassVar = "Where the server is. A member may have another way to it, and other folders."

    host: str = key(values.host, "The server's host name, as in its certificate, or its IP address.")
    port: int = key(values.whole(1, values.MAX_PORT), "And its port.", default=DEFAULT_PORT)
    certificates: Path = key(  # noqa: RUF009  # a declaration, and nobody changes paths
        values.place,
        "The folder of keys and certificates. A relative path is taken from the folder of this file.",
        default=Path("certificates"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSettings:
    """How items are numbered."""

    HEADING: ClassVar = "How items are numbered: see `fedslim vocabulary`. Everybody must have the same here."

    vocabulary_digest: str | None = key(
        values.hexadecimal(2 * DIGEST_BYTES, "the digest that `fedslim vocabulary show` prints"),
        "The digest of the vocabulary that the members agreed on (`fedslim vocabulary show` prints it). Without one "
        "the server forms the union of what members know, and learns which member knows which ids. Then "
        "secret_fingerprint must be here.",
        default=None,
        example="0" * (2 * DIGEST_BYTES),
    )
    secret_fingerprint: str | None = key(
        values.hexadecimal(2 * FINGERPRINT_BYTES, "the fingerprint that `fedslim vocabulary show` prints"),
        "The fingerprint of the members' secret (`fedslim vocabulary show` prints it): who has another secret is "
        "told so before anything is sent. The secret itself never goes into this file.",
        default=None,
        example="0" * (2 * FINGERPRINT_BYTES),
    )
    share_vocabulary: bool = key(
        values.switch, "Whether members tell the server what their items are called.", default=False
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a run may take, and what it may look for."""

    HEADING: ClassVar = "What a run may take, and what it may look for. Everybody must have the same here."

    max_transactions: int = key(
        values.whole(1, MAX_TRANSACTIONS),
        "All members together have no more transactions than this: every sum is proven to fit its ring by it. A member "
        "with more than its part of it does not take part. Large is safe, and costs a few bytes at the start only.",
        default=1 << 40,
    )
    max_time: float | None = key(
        values.seconds(0.001, YEAR),
        "Stop after so many seconds, with the best table so far.",
        default=None,
        example=3600,
    )
    max_rounds: int = key(
        values.whole(1, LARGEST),
        "Stop after about so many rounds, with the best table so far. Members count rounds themselves and refuse more: "
        "a server cannot ask for ever.",
        default=MAX_ROUNDS,
    )
    pruning: bool = key(
        values.switch, "For x only: whether itemsets that no longer help leave the table.", default=True
    )
    max_itemset_size: int | None = key(
        values.whole(1, LARGEST), "For x only: itemsets have at most so many items.", default=None, example=8
    )
    min_support: int = key(
        values.whole(1, LARGEST),
        "For x only: itemsets occur in at least so many transactions of all members together.",
        default=1,
    )
    min_count: int = key(
        values.whole(1, LARGEST),
        "The smallest count that may be published: items of fewer transactions leave the vocabulary, no itemset enters "
        "or stays with a smaller usage, and what is rare is merged as (other). For x only; sa and so know none: write "
        "1.",
        default=MIN_COUNT,
    )
    min_members_with: int = key(
        values.whole(1, MAX_MEMBERS),
        "An itemset that fewer members have is removed at the end. At most the number of members. For x only; sa and "
        "so know none: write 1.",
        default=MIN_MEMBERS_WITH,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """How long to wait, in seconds."""

    HEADING: ClassVar = "How long to wait, in seconds."

    connect: float = key(
        values.seconds(0.001, DAY), "For a connection to the server, each time it is tried.", default=10.0
    )
    answer: float = key(
        values.seconds(0.001, YEAR),
        "For a member's answer, its computing included, before it counts as lost.",
        default=600.0,
    )
    grace: float = key(
        values.seconds(0, YEAR),
        "For a lost member to come back; then the run ends with what was reached. 0: not at all.",
        default=300.0,
    )
    keepalive: float = key(
        values.seconds(0.001, DAY),
        "Between two signs of life; after three without one, a line is given up.",
        default=10.0,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """Where to log to; nowhere by default."""

    HEADING: ClassVar = "A log for whoever runs the machine. Off as long as no file is named."

    file: Path | None = key(  # noqa: RUF009  # as above
        values.place,
        "Where to. A relative path is taken from the folder of this file.",
        default=None,
        example="fedslim.log",
    )
    level: Literal["debug", "info", "warning", "error"] = key(
        values.one_of("debug", "info", "warning", "error"), "From which level on.", default="info"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Where figures can be fetched; nowhere by default."""

    HEADING: ClassVar = "Figures for monitoring, over HTTP. Off as long as no port is given."

    port: int | None = key(values.whole(1, values.MAX_PORT), "The port to serve them at.", default=None, example=9464)
    host: str = key(values.host, "And the address; by default this machine's own only.", default="127.0.0.1")


SECTIONS: dict[str, Any] = {
    "federation": Federation,
    "server": ServerAddress,
    "items": ItemSettings,
    "limits": Limits,
    "timeouts": Timeouts,
    "log": Log,
    "metrics": Metrics,
}
AGREED = ("federation", "items", "limits")
"""What everybody must have alike; the rest is a member's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationFile:
    """A federation's file, read and checked. Paths in it are complete."""

    path: Path
    federation: Federation
    server: ServerAddress
    items: ItemSettings
    limits: Limits
    timeouts: Timeouts
    log: Log
    metrics: Metrics

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> FederationFile:
        """Read a file and check everything in it.

        Raises:
            DataError: There is no such file, or it cannot be read.
            ConfigurationError: Something in it cannot be used; the message names file, key and what is allowed.
        """
        path = real_path(path)
        return cls._made(path, read(path, SECTIONS, WHAT, BEGIN))

    @classmethod
    def parse(cls, data: bytes, path: Path) -> FederationFile:
        """The same for the content of a file that is, or will be, at `path`."""
        return cls._made(path, parse(data, path, SECTIONS, WHAT, BEGIN))

    @classmethod
    def _made(cls, path: Path, tables: dict[str, Any]) -> FederationFile:
        made = cls(path=path, **tables)
        made._check_items()
        made._check_limits()
        return made

    def _check_items(self) -> None:
        """Members with different secrets have no item in common, and every sum would be one member's count."""
        if self.items.vocabulary_digest is None and self.items.secret_fingerprint is None:
            msg = (
                f"{self.path}: items.secret_fingerprint: it is missing, so members with different secrets would not "
                "notice; write what `fedslim vocabulary show members.secret` prints at a member below [items]"
            )
            raise ConfigurationError(msg)

    def _check_limits(self) -> None:
        """A limit that the variant does not know must not look as if it held."""
        variant, members = self.federation.variant, len(self.federation.members)
        if self.limits.min_members_with > members:
            msg = (
                f"{self.path}: limits.min_members_with: {self.limits.min_members_with} cannot be used; there are "
                f"{members} members, so write at most {members}"
            )
            raise ConfigurationError(msg)
        for name, free in ONLY_X.items():
            if variant != "x" and getattr(self.limits, name) != free:
                without = "leave it out" if free is None else f"write {name} = {values.spell(free)}"
                msg = (
                    f"{self.path}: limits.{name}: {variant} does not know it, only x does; {without}, or change "
                    "federation.variant"
                )
                raise ConfigurationError(msg)

    # -- what the protocol makes of it --------------------------------------------------------------------------

    @property
    def masked(self) -> bool:
        """Whether counts leave a member masked only."""
        return self.federation.variant != UNMASKED

    def settings(self) -> Settings:
        """What the server announces, and what each member takes part in, and in nothing else."""
        limits = self.limits
        return Settings(
            self.federation.variant,
            masked=self.masked,
            max_transactions=limits.max_transactions,
            share_vocabulary=self.items.share_vocabulary,
            max_rounds=limits.max_rounds,
            pruning=limits.pruning,
            max_itemset_size=limits.max_itemset_size,
            min_support=limits.min_support,
            min_count=limits.min_count,
            min_members_with=limits.min_members_with,
        )

    def digest(self) -> bytes:
        """A hash of what everybody must have alike, whatever the order of keys and members and the comments."""
        agreed = {name: asdict(getattr(self, name)) for name in AGREED}
        agreed["federation"]["members"] = sorted(self.federation.members)
        text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
        return blake2b(text.encode(), digest_size=DIGEST_BYTES, person=AGREEMENT).digest()

    # -- what a member checks -----------------------------------------------------------------------------------

    def check_member(self, name: str) -> None:
        """Check that a member is one of this federation.

        Raises:
            ConfigurationError: It is not.
        """
        if name not in self.federation.members:
            what = f"federation.members: {name!r:.65} is not among them"
            raise unknown(self.path, what, name, list(self.federation.members))

    def check_items(self, secret: ItemSecret, vocabulary: Vocabulary | None) -> None:
        """Check that a member's secret and vocabulary are those that were agreed on; the file may leave both open.

        Raises:
            ConfigurationError: They are not.
        """
        items = self.items
        if items.secret_fingerprint not in {None, secret.fingerprint}:
            msg = (
                f"{self.path}: items.secret_fingerprint is {items.secret_fingerprint}, and the secret of this member "
                f"has {secret.fingerprint}; get the members' secret from one of them"
            )
            raise ConfigurationError(msg)
        ours = None if vocabulary is None else vocabulary.digest.hex()
        if items.vocabulary_digest != ours:
            msg = (
                f"{self.path}: items.vocabulary_digest is {items.vocabulary_digest or 'not set'}, and "
                f"{f'the vocabulary of this member has {ours}' if ours else 'this member has named no vocabulary'}; "
                "all members and this file must have the same one, or none"
            )
            raise ConfigurationError(msg)


def write_template(  # noqa: PLR0913  # what a new file needs to be told
    path: str | os.PathLike[str],
    name: str,
    members: Sequence[str],
    variant: str = "x",
    *,
    host: str = "localhost",
    port: int = DEFAULT_PORT,
    identity: str | None = None,
    chosen: Mapping[str, Any] = MappingProxyType({}),
) -> FederationFile:
    """Write a new file with every key there is and what it is for, valid as it stands.

    Args:
        path: Where to; nothing may be there yet.
        name: What people call the federation.
        members: The names of its members.
        variant: `x`, `sa` or `so`.
        host: Where the server is.
        port: And its port.
        identity: The federation's id; by default one is made at random.
        chosen: Values of other keys, such as `items.secret_fingerprint`; that one or `items.vocabulary_digest` is
            needed.

    Raises:
        ConfigurationError: A value cannot be used; the message names its key.
        DataError: Something of that name is there already. Keys may be bound to its id, so it is kept.
    """
    path = real_path(path)
    free = {} if variant == "x" else {f"limits.{each}": ONLY_X[each] for each in ("min_count", "min_members_with")}
    given: dict[str, Any] = {
        "federation.name": name,
        "federation.id": secrets.token_hex(ID_BYTES) if identity is None else identity,
        "federation.variant": variant,
        "federation.members": list(members),
        "server.host": host,
        "server.port": port,
        **free,
        **chosen,
    }
    for dotted, value in given.items():
        section, _, each = dotted.partition(".")
        declared = next(one for one in fields(SECTIONS[section]) if one.name == each)
        value_of(path, dotted, declared, {each: value})
    text = template(SECTIONS, given, ABOUT)
    made = FederationFile.parse(text.encode(), path)
    make_folder_for(path)
    with creating(path, private=False) as stream:
        stream.write(text.encode())
    return made
