"""The federation file, `federation.toml`: what members and server agree on, and how they reach each other.

    file = FederationFile.read("federation.toml")
    session = ServerSession(file.federation.members, file.settings(), …)
    file.digest()                           # equal if and only if two parties agreed on the same settings

Everybody has a copy. It contains no secrets. Everything in it is checked, and an unknown key is an error: otherwise a
misspelt limit would silently not apply. Each key is declared once, below, with its check and its help text;
`new_federation.py` generates new files from these declarations.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from fedslim.data.textstream import real_path
from fedslim.data.vocabulary import DIGEST_BYTES
from fedslim.errors import ConfigurationError, RunError
from fedslim.protocol.messages import Settings
from fedslim.protocol.preparation import MAX_ROUNDS as MAX_PREPARATION_ROUNDS
from fedslim.protocol.preparation import Outline
from fedslim.settings.federation_keys import (
    FEWEST_MEMBERS,
    ONLY_X,
    SECTIONS,
    UNMASKED,
    AgreedSchema,
    Federation,
    ItemSettings,
    Limits,
    Log,
    Metrics,
    ServerAddress,
    Timeouts,
)
from fedslim.toml import values
from fedslim.toml.keys import parse, read, unknown

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from pathlib import Path

    from fedslim.data import ItemSecret, Vocabulary
    from fedslim.schema import Schema

AGREEMENT = b"fedslim fed 6"
WHAT, BEGIN = "a federation file", "fedslim federation init"
ABOUT = (
    "The settings of a federation. Every member and the server have a copy of this file; it contains no secrets. "
    "`fedslim federation check` prints a digest of the tables that must be identical everywhere: compare it with the "
    "others. To set an optional key that is commented out, remove the # in front of it."
)


AGREED = ("federation", "items", "schema", "limits")
"""The tables that must be identical everywhere; the others may differ between parties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FederationFile:
    """A federation file, read and checked; its paths are absolute."""

    path: Path
    federation: Federation
    server: ServerAddress
    items: ItemSettings
    schema: AgreedSchema
    limits: Limits
    timeouts: Timeouts
    log: Log
    metrics: Metrics

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> FederationFile:
        """Read a file and check everything in it.

        Raises:
            DataError: The file does not exist or cannot be read.
            ConfigurationError: A value is not allowed; the message names the file, the key and what is allowed.
        """
        path = real_path(path)
        return cls._from_tables(path, read(path, SECTIONS, WHAT, BEGIN))

    @classmethod
    def parse(cls, data: bytes, path: Path) -> FederationFile:
        """Do the same with the content of a file that is, or will be, at `path`."""
        return cls._from_tables(path, parse(data, path, SECTIONS, WHAT, BEGIN))

    @classmethod
    def _from_tables(cls, path: Path, tables: dict[str, Any]) -> FederationFile:
        file = cls(path=path, **tables)
        file._check_items()
        file._check_limits()
        return file

    def _check_items(self) -> None:
        """Require one of the two: members with different secrets share no ids, so every sum is one member's count."""
        if self.items.vocabulary_digest is None and self.items.secret_fingerprint is None:
            msg = (
                f"{self.path}: items.secret_fingerprint: missing, so members with different secrets would go "
                "unnoticed; run `fedslim vocabulary show members.secret` at a member and add its output below [items]"
            )
            raise ConfigurationError(msg)
        schema = self.schema
        if (schema.digest is None) != (schema.outline is None):
            lacking = "digest" if schema.digest is None else "outline"
            msg = f"{self.path}: schema.{lacking}: missing; copy what `fedslim federation init --schema` writes"
            raise ConfigurationError(msg)
        if schema.digest is not None and self.items.vocabulary_digest is not None:
            msg = (
                f"{self.path}: items.vocabulary_digest: with a schema, the members agree on the vocabulary in the "
                "preparation; leave it out, or leave out [schema]"
            )
            raise ConfigurationError(msg)

    def _check_limits(self) -> None:
        """Refuse limits that the variant does not support: they would look as if they applied."""
        variant, members = self.federation.variant, len(self.federation.members)
        if self.limits.min_members_with > members:
            msg = (
                f"{self.path}: limits.min_members_with: {self.limits.min_members_with} cannot be used; write at most "
                f"{members}, the number of members"
            )
            raise ConfigurationError(msg)
        for name, free in ONLY_X.items():
            if variant != "x" and getattr(self.limits, name) != free:
                without = "leave it out" if free is None else f"write {name} = {values.spell(free)}"
                msg = (
                    f"{self.path}: limits.{name}: {variant} does not support it, only x does; {without}, or change "
                    "federation.variant"
                )
                raise ConfigurationError(msg)

    # -- what the protocol uses ---------------------------------------------------------------------------------

    @property
    def masked(self) -> bool:
        """Whether members mask every count they send."""
        return self.federation.variant != UNMASKED

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
        """Return the file of the members that stay.

        Raises:
            RunError: The others stop, or too few members stay.
        """
        gone = sorted(left)
        members = tuple(name for name in self.federation.members if name not in gone)
        if gone and self.schema.on_departure == "stop":
            msg = (
                f"{', '.join(map(repr, gone))} left after the preparation, sharing too little with the others; check "
                "the data there, or agree on schema.on_departure, and start again in a new run folder"
            )
            raise RunError(msg)
        if len(members) < max(FEWEST_MEMBERS, self.limits.min_members_with):
            msg = f"{', '.join(map(repr, gone))} left after the preparation, and too few members stay"
            raise RunError(msg)
        return replace(self, federation=replace(self.federation, members=members))

    def settings(self, preparation: bytes = b"") -> Settings:
        """Return the settings that the server announces; members take part only if theirs are equal."""
        limits = self.limits
        return Settings(
            self.federation.variant,
            masked=self.masked,
            max_transactions=limits.max_transactions,
            share_labels=self.items.share_labels,
            max_rounds=limits.max_rounds,
            pruning=limits.pruning,
            max_itemset_size=limits.max_itemset_size,
            min_support=limits.min_support,
            min_count=limits.min_count,
            min_members_with=limits.min_members_with,
            width=limits.width,
            effort=limits.effort,
            seed=limits.seed,
            schema=bytes.fromhex(self.schema.digest or ""),
            preparation=preparation,
        )

    def digest(self) -> bytes:
        """Hash the tables that must be identical everywhere, regardless of comments and of the order of members."""
        agreed = {name: asdict(getattr(self, name)) for name in AGREED}
        agreed["federation"]["members"] = sorted(self.federation.members)
        text = json.dumps(agreed, sort_keys=True, separators=(",", ":"))
        return blake2b(text.encode(), digest_size=DIGEST_BYTES, person=AGREEMENT).digest()

    # -- what a member checks -----------------------------------------------------------------------------------

    def check_member(self, name: str) -> None:
        """Check that `name` is a member of this federation.

        Raises:
            ConfigurationError: It is not.
        """
        if name not in self.federation.members:
            problem = f"federation.members: {name!r:.65} is not a member"
            raise unknown(self.path, problem, name, list(self.federation.members))

    def check_items(self, secret: ItemSecret, vocabulary: Vocabulary | None) -> None:
        """Check a member's secret and vocabulary against the file, as far as the file specifies them.

        Raises:
            ConfigurationError: They differ from the file.
        """
        items = self.items
        if items.secret_fingerprint not in {None, secret.fingerprint}:
            msg = (
                f"{self.path}: items.secret_fingerprint is {items.secret_fingerprint}, but this member's secret has "
                f"{secret.fingerprint}; get the members' secret from another member"
            )
            raise ConfigurationError(msg)
        ours = None if vocabulary is None or self.prepares else vocabulary.digest.hex()
        if items.vocabulary_digest != ours:
            msg = (
                f"{self.path}: items.vocabulary_digest is {items.vocabulary_digest or 'not set'}, but "
                f"{f'the vocabulary of this member has {ours}' if ours else 'this member was given no vocabulary'}; "
                "all members and this file must use the same vocabulary, or none"
            )
            raise ConfigurationError(msg)

    def check_schema(self, schema: Schema | None) -> None:
        """Check that a member's schema is the one of this file.

        Raises:
            ConfigurationError: It is another one, or only one of the two has a schema.
        """
        ours = None if schema is None else schema.digest().hex()
        if ours == self.schema.digest and (schema is None or str(Outline.of(schema)) == self.schema.outline):
            return
        if schema is not None and ours == self.schema.digest:
            msg = f"{self.path}: schema.outline is not that of {schema.path}, which is {str(Outline.of(schema))!r}"
        elif schema is not None:
            msg = (
                f"{self.path}: schema.digest is {self.schema.digest or 'not set'}, but {schema.path} has {ours}; all "
                "members and this file must have the same schema"
            )
        else:
            msg = f"{self.path}: the members agreed on a schema (schema.digest); name it with --schema"
        raise ConfigurationError(msg)
