"""The federation file, `federation.toml`: what members and server agree on, and how they reach each other.

Everybody has a copy. It contains no secrets. Everything in it is checked, and an unknown key is an error: otherwise a
misspelt limit would silently not apply. `federation_keys.py` declares each key once, with its check and its help text.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

from fedslim.data import ItemSecret, Vocabulary
from fedslim.data.textstream import real_path
from fedslim.data.vocabulary import DIGEST_BYTES
from fedslim.errors import ConfigurationError, RunError
from fedslim.protocol.messages import Settings
from fedslim.protocol.preparation import MAX_ROUNDS as MAX_PREPARATION_ROUNDS, Outline
from fedslim.schema import Schema
from fedslim.settings import federation_keys as keys
from fedslim.settings.federation_keys import MIN_COUNT, MIN_MEMBERS_WITH, ONLY_X
from fedslim.toml import values
from fedslim.toml.keys import SettingsFile, section, unknown

AGREEMENT = b"fedslim fed 6"
AGREED = ("federation", "items", "schema", "limits")
"""The tables that must be identical everywhere; the others may differ between parties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationFile(SettingsFile):
    """A federation file, read and checked; its paths are absolute."""

    WHAT: ClassVar = "a federation file"
    BEGIN: ClassVar = "fedslim federation init"
    ABOUT: ClassVar = (
        "The settings of a federation. Every member and the server have a copy of this file; it contains no secrets. "
        "`fedslim federation check` prints a digest of the tables that must be identical everywhere: compare it with "
        "the others. To set an optional key that is commented out, remove the # in front of it."
    )

    federation: keys.Federation
    server: keys.ServerAddress
    items: keys.ItemSettings
    schema: keys.AgreedSchema
    limits: keys.Limits
    timeouts: keys.Timeouts
    log: keys.Log
    metrics: keys.Metrics

    def check_together(self) -> None:
        """Check the items, the schema and the limits."""
        # One of the two is required: members with different secrets share no ids, so every sum is one member's count.
        if self.items.vocabulary_digest is None and self.items.secret_fingerprint is None:
            raise ConfigurationError(
                f"{self.path}: items.secret_fingerprint: missing, so members with different secrets would go "
                "unnoticed; run `fedslim vocabulary show members.secret` at a member and add its output below [items]"
            )
        schema = self.schema
        if (schema.digest is None) != (schema.outline is None):
            lacking = "digest" if schema.digest is None else "outline"
            msg = f"{self.path}: schema.{lacking}: missing; copy what `fedslim federation init --schema` writes"
            raise ConfigurationError(msg)
        if schema.digest is not None and self.items.vocabulary_digest is not None:
            raise ConfigurationError(
                f"{self.path}: items.vocabulary_digest: with a schema, the members agree on the vocabulary in the "
                "preparation; leave it out, or leave out [schema]"
            )
        variant, members = self.federation.variant, len(self.federation.members)
        if self.limits.min_members_with > members:
            raise ConfigurationError(
                f"{self.path}: limits.min_members_with: {self.limits.min_members_with} cannot be used; write at most "
                f"{members}, the number of members"
            )
        for name, free in ONLY_X.items():  # they would look as if they applied
            if variant != "x" and getattr(self.limits, name) != free:
                without = "leave it out" if free is None else f"write {name} = {values.spell(free)}"
                raise ConfigurationError(
                    f"{self.path}: limits.{name}: {variant} does not support it, only x does; {without}, or change "
                    "federation.variant"
                )

    @property
    def masked(self) -> bool:
        """Whether members mask every count they send; in so the server sees every member's counts."""
        return self.federation.variant != "so"

    @property
    def prepares(self) -> bool:
        """Whether the members agree on a vocabulary in a preparation."""
        return self.schema.digest is not None

    def preparing(self) -> Settings:
        """Return the settings of the preparation."""
        return Settings(
            "prepare",
            masked=True,
            max_transactions=self.limits.max_transactions,
            max_rounds=MAX_PREPARATION_ROUNDS,
            schema=bytes.fromhex(self.schema.digest or ""),
            outline=self.schema.outline or "",
        )

    def without(self, left: Iterable[str]) -> FederationFile:
        """Return the file of the members that stay."""
        gone = sorted(left)
        members = tuple(name for name in self.federation.members if name not in gone)
        if gone and self.schema.on_departure == "stop":
            raise RunError(
                f"{', '.join(map(repr, gone))} left after the preparation, sharing too little with the others; check "
                "the data there, or agree on schema.on_departure, and start again in a new run folder"
            )
        if len(members) < max(keys.FEWEST_MEMBERS, self.limits.min_members_with):
            raise RunError(f"{', '.join(map(repr, gone))} left after the preparation, and too few members stay")
        return replace(self, federation=replace(self.federation, members=members))

    def settings(self, preparation: bytes = b"") -> Settings:
        """Return the settings that the server announces; members take part only if theirs are equal."""
        limits = asdict(self.limits)
        del limits["max_time"]  # the server alone keeps the time
        return Settings(
            self.federation.variant,
            masked=self.masked,
            share_labels=self.items.share_labels,
            schema=bytes.fromhex(self.schema.digest or ""),
            preparation=preparation,
            **limits,
        )

    def digest(self) -> bytes:
        """Hash the tables that must be identical everywhere, regardless of comments and of the order of members."""
        agreed = {name: asdict(getattr(self, name)) for name in AGREED}
        agreed["federation"]["members"] = sorted(self.federation.members)
        text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
        return blake2b(text.encode(), digest_size=DIGEST_BYTES, person=AGREEMENT).digest()

    def check_member(self, name: str) -> None:
        """Check that `name` is a member of this federation."""
        if name not in self.federation.members:
            problem = f"federation.members: {name!r:.65} is not a member"
            raise unknown(self.path, problem, name, list(self.federation.members))

    def check_items(self, secret: ItemSecret, vocabulary: Vocabulary | None) -> None:
        """Check a member's secret and vocabulary against the file, as far as the file specifies them."""
        items = self.items
        if items.secret_fingerprint not in {None, secret.fingerprint}:
            raise ConfigurationError(
                f"{self.path}: items.secret_fingerprint is {items.secret_fingerprint}, but this member's secret has "
                f"{secret.fingerprint}; get the members' secret from another member"
            )
        ours = None if vocabulary is None or self.prepares else vocabulary.digest.hex()
        if items.vocabulary_digest != ours:
            raise ConfigurationError(
                f"{self.path}: items.vocabulary_digest is {items.vocabulary_digest or 'not set'}, but "
                f"{f'the vocabulary of this member has {ours}' if ours else 'this member was given no vocabulary'}; "
                "all members and this file must use the same vocabulary, or none"
            )

    def check_schema(self, schema: Schema | None) -> None:
        """Check that a member's schema is the one of this file."""
        if schema is None:
            if self.prepares:
                msg = f"{self.path}: the members agreed on a schema (schema.digest); name it with --schema"
                raise ConfigurationError(msg)
            return
        ours, outline = schema.digest().hex(), str(Outline.of(schema))
        if ours != self.schema.digest:
            raise ConfigurationError(
                f"{self.path}: schema.digest is {self.schema.digest or 'not set'}, but {schema.path} has {ours}; all "
                "members and this file must have the same schema"
            )
        if outline != self.schema.outline:
            msg = f"{self.path}: schema.outline is not that of {schema.path}, which is {outline!r}"
            raise ConfigurationError(msg)


SECTIONS = FederationFile.sections()


def write_template(  # noqa: PLR0913  # every setting that has no default
    path: str | os.PathLike[str],
    name: str,
    members: Sequence[str],
    variant: str = "x",
    *,
    host: str = "localhost",
    port: int = keys.DEFAULT_PORT,
    chosen: Mapping[str, Any] = MappingProxyType({}),
) -> FederationFile:
    """Write a new, valid federation file with every key and its help text; its id is random, unless it is chosen.

    `chosen` has values of other keys, by dotted name; `items.secret_fingerprint` or `items.vocabulary_digest` is
    required. An existing file is kept, because signatures may be bound to its id.
    """
    path = real_path(path)
    defaults = {each.name: each.default for each in fields(keys.Limits)}
    free = {f"limits.{name}": off for name, off in ONLY_X.items() if off != defaults[name]}
    given: dict[str, Any] = {
        "federation.name": name,
        "federation.id": secrets.token_hex(keys.ID_BYTES),
        "federation.variant": variant,
        "federation.members": list(members),
        "server.host": host,
        "server.port": port,
        **({} if variant == "x" else free),
        **chosen,
    }
    for table, kind in SECTIONS.items():  # also what cannot even be written
        section(path, table, kind, {key.partition(".")[2]: given[key] for key in given if key.startswith(f"{table}.")})
    return FederationFile.write(path, given)


class Weakness(NamedTuple):
    """A key of the file, and what its value reveals beyond sums over several members."""

    key: str
    text: str

    def __str__(self) -> str:
        return f"{self.key}: {self.text}"


def weaknesses(file: FederationFile) -> tuple[Weakness, ...]:
    """Return warnings about settings that reveal more than sums over several members; the file is still valid."""
    agreed, items, limits = file.federation, file.items, file.limits
    limit = "there is no smallest count" if limits.min_count == 1 else f"the smallest count is {limits.min_count}"
    listening = values.address(file.metrics.host)
    local = file.metrics.host == "localhost" if listening is None else listening.is_loopback
    found = (
        (
            agreed.variant == "sa",
            "federation.variant",
            "in sa the server sees who proposes which pairs, and the counts of pairs that only one member proposes",
        ),
        (agreed.variant == "so", "federation.variant", "in so the server sees every count of every member"),
        (
            len(agreed.members) < keys.SAFE_MEMBERS,
            "federation.members",
            "with two members, each can subtract its own counts from the sums and knows the other's",
        ),
        (
            file.schema.on_departure == "continue",
            "schema.on_departure",
            "if a member leaves after the preparation, the server can compute how many values it has in each interval",
        ),
        (
            items.vocabulary_digest is None and not file.prepares,
            "items.vocabulary_digest",
            "not set: the server learns who has which ids, and the counts of ids that only one member has",
        ),
        (items.share_labels == "server", "items.share_labels", "members send the labels of their items to the server"),
        (
            limits.max_rounds > keys.MAX_ROUNDS,
            "limits.max_rounds",
            f"the server may ask {limits.max_rounds:,} questions, more than the default of {keys.MAX_ROUNDS:,}",
        ),
        (
            limits.min_count < MIN_COUNT,
            "limits.min_count",
            f"{limit}, so results may be about fewer than {MIN_COUNT} transactions, possibly of a single person",
        ),
        (
            limits.min_members_with < MIN_MEMBERS_WITH,
            "limits.min_members_with",
            "an itemset of a single member is published with that member's count",
        ),
        (
            file.metrics.port is not None and not local,
            "metrics.host",
            f"anybody who can reach {file.metrics.host} can see the progress of the run, without a certificate",
        ),
    )
    return tuple(Weakness(key, text) for applies, key, text in found if applies)
