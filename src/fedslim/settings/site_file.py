"""`fedslim-site.toml`: the data and settings of a site for federations over NVFlare.

It is in the folder `local` of the site's NVFlare workspace, beside `policy.toml`, which says what the site allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedslim.data.textstream import is_file
from fedslim.settings.federation_keys import LARGEST
from fedslim.settings.policy import MemberPolicy
from fedslim.toml import values
from fedslim.toml.keys import SettingsFile, key, optional_key

FILE = "fedslim-site.toml"  # in the folder `local` of a site's NVFlare workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Itself:
    """This site and its federation."""

    name: str = key(values.member_name, "The name of this site in NVFlare, as in its certificate.")
    federation: Path = key(  # noqa: RUF009  # a declaration; a Path is immutable
        values.place,
        "This site's own copy of the federation file. The site refuses a job that differs from it.",
        default=Path("federation.toml"),
    )
    results: Path = key(  # noqa: RUF009
        values.place, "Where this site stores its code tables, in one folder per job.", default=Path("fedslim")
    )
    policy: Path | None = optional_key(  # noqa: RUF009
        values.place,
        "What this site allows: see `fedslim policy`. By default policy.toml beside this file, or, without that file, "
        "the strict defaults.",
        "policy.toml",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """This site's data: a file, as for `fedslim mine`."""

    source: Path = key(values.place, "The data file.")  # noqa: RUF009
    format: str | None = optional_key(
        values.one_of("fimi", "csv", "tsv", "parquet", "jsonl", "excel"),
        "The format, if the file's extension does not tell it: fimi, csv, tsv, parquet, jsonl or excel.",
        "csv",
    )
    schema: Path | None = optional_key(  # noqa: RUF009
        values.place,
        "The schema, if the members agreed on one; then the keys below have no effect, and must be left out.",
        "schema.toml",
    )
    bins: int | None = optional_key(values.whole(2, LARGEST), "The number of intervals for numeric columns.", 5)
    transaction_column: str | None = optional_key(
        values.title(200), "For tables with one row per transaction and item: the column with the transaction.", "visit"
    )
    item_column: str | None = optional_key(values.title(200), "For such tables: the column with the item.", "item")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteItems:
    """How items are identified: see `fedslim vocabulary`."""

    secret: Path = key(values.place, "The members' secret. The server must not have it.")  # noqa: RUF009
    vocabulary: Path | None = optional_key(  # noqa: RUF009
        values.place, "The vocabulary, if the members agreed on one.", "agreed.json"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Every message is written to the audit log before it leaves this site: see `fedslim audit`."""

    log: Path = key(values.place, "The audit log.", default=Path("fedslim-audit.jsonl"))  # noqa: RUF009


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile(SettingsFile):
    """A site file, read and checked; its paths are absolute."""

    WHAT: ClassVar = "a site file"
    BEGIN: ClassVar = "fedslim nvflare site"
    ABOUT: ClassVar = (
        "The data and settings of this site for federations over NVFlare. This file stays at the site; no job can "
        "change it. Relative paths start at the folder of this file. To set an optional key that is commented out, "
        "remove the # in front of it."
    )
    site: Itself
    data: Data
    items: SiteItems
    audit: Audit

    @classmethod
    def find(cls, folder: Path, name: str) -> SiteFile:
        """Read the file in a site's folder; NVFlare's simulator has one folder for all sites, so files carry a name."""
        own = folder / f"fedslim-site.{name}.toml"
        return cls.read(own if is_file(own) else folder / FILE)

    def policy(self) -> MemberPolicy:
        """Read the site's policy."""
        return MemberPolicy.find(self.path.parent) if self.site.policy is None else MemberPolicy.read(self.site.policy)


SECTIONS = SiteFile.sections()


def write_site_file(path: Path, name: str, **chosen: Any) -> SiteFile:
    """Write a new site file with every key and its help text; `chosen` sets values by `table_key`."""
    given = {"data_source": "visits.csv", "items_secret": "members.secret", "site_name": name, **chosen}
    return SiteFile.write(path, {name.replace("_", ".", 1): value for name, value in given.items()})
