"""`fedslim-site.toml`: what a site brings to federations over NVFlare. What it allows is in its `policy.toml`.

    file = SiteFile.find(local_folder, "north")

Both are in the folder `local` of the site's NVFlare workspace, beside the site's other policies. Everything in them is
checked, and a key that is not known is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from fedslim.data.atomic import creating, make_folder_for
from fedslim.data.textstream import is_file, real_path
from fedslim.settings import toml_values as values
from fedslim.settings.federation_file import LARGEST
from fedslim.settings.policy import MemberPolicy
from fedslim.settings.toml_schema import key, parse, read, template

if TYPE_CHECKING:
    import os

FILE = "fedslim-site.toml"
"""In the folder `local` of a site's NVFlare workspace."""

WHAT, BEGIN = "a site's file", "fedslim nvflare site"
ABOUT = (
    "What this site brings to federations that run over NVFlare. It stays at the site: no job can change it. Relative "
    "paths are taken from the folder of this file. Keys behind a # are left out, and hold as the comment says once the "
    "# is gone."
)
GONE = {
    "allow": (
        "what this site allows is in a file of its own now; make it with `fedslim policy init policy.toml` in this "
        "folder, put your limits there (smallest_group is now min_count), and remove [allow] here"
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Itself:
    """Who the site is."""

    HEADING: ClassVar = "Who this site is, and what it agreed on."

    name: str = key(values.member_name, "The member that this site is: its name in NVFlare, as in its certificate.")
    federation: Path = key(  # noqa: RUF009  # a declaration, and nobody changes paths
        values.place,
        "This site's own copy of the federation's file. A run of another variant, or with other members, is refused.",
        default=Path("federation.toml"),
    )
    results: Path = key(  # noqa: RUF009
        values.place, "Where the tables go that this site is told, in a folder for each job.", default=Path("fedslim")
    )
    policy: Path | None = key(  # noqa: RUF009
        values.place,
        "What this site allows: see `fedslim policy`. If left out, policy.toml beside this file counts; where there is "
        "none, the strict defaults.",
        default=None,
        example="policy.toml",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """What it has."""

    HEADING: ClassVar = "This site's data: a file, as for `fedslim mine`."

    source: Path = key(values.place, "Where they are.")  # noqa: RUF009
    format: str | None = key(
        values.one_of("fimi", "csv", "tsv", "parquet"),
        "Where the extension does not say it.",
        default=None,
        example="csv",
    )
    bins: int | None = key(
        values.whole(2, LARGEST), "Columns of numbers are cut into so many intervals.", default=None, example=5
    )
    transaction_column: str | None = key(
        values.title(200),
        "For tables with a row for each pair of transaction and item: the column of transactions.",
        default=None,
        example="visit",
    )
    item_column: str | None = key(values.title(200), "And that of items.", default=None, example="item")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteItems:
    """How its items are numbered."""

    HEADING: ClassVar = "How items are numbered: see `fedslim vocabulary`."

    secret: Path = key(values.place, "The secret that the members share, and the server has not.")  # noqa: RUF009
    vocabulary: Path | None = key(  # noqa: RUF009
        values.place, "The vocabulary that the members agreed on, if they did.", default=None, example="agreed.json"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What is written down about it."""

    HEADING: ClassVar = "A line for every message that leaves this site: see `fedslim audit`. Nothing leaves unlogged."

    log: Path = key(values.place, "Where to.", default=Path("fedslim-audit.jsonl"))  # noqa: RUF009


SECTIONS: dict[str, Any] = {"site": Itself, "data": Data, "items": SiteItems, "audit": Audit}


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteFile:
    """A site's file, read and checked. Paths in it are complete."""

    path: Path
    site: Itself
    data: Data
    items: SiteItems
    audit: Audit

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SiteFile:
        """Read a file and check everything in it.

        Raises:
            DataError: There is no such file, or it cannot be read.
            ConfigurationError: Something in it cannot be used; the message names file, key and what is allowed.
        """
        path = real_path(path)
        return cls(path=path, **read(path, SECTIONS, WHAT, BEGIN, GONE))

    @classmethod
    def find(cls, folder: Path, name: str) -> SiteFile:
        """The file in a site's folder; in the simulator, whose sites share one folder, there is one for each name."""
        own = folder / f"fedslim-site.{name}.toml"
        return cls.read(own if is_file(own) else folder / FILE)

    def policy(self) -> MemberPolicy:
        """What this site allows."""
        return MemberPolicy.find(self.path.parent) if self.site.policy is None else MemberPolicy.read(self.site.policy)


def write_site_file(path: Path, name: str, **chosen: Any) -> SiteFile:
    """Write a new site's file with every key there is and what it is for; `chosen` has values as `table_key`.

    Raises:
        DataError: Something of that name is there already.
    """
    defaults = {"data_source": "visits.csv", "items_secret": "members.secret", "site_name": name}
    text = template(SECTIONS, {k.replace("_", ".", 1): v for k, v in (defaults | chosen).items()}, ABOUT)
    made = SiteFile(path=path, **parse(text.encode(), path, SECTIONS, WHAT, BEGIN))
    make_folder_for(path)
    with creating(path, private=False) as stream:
        stream.write(text.encode())
    return made
