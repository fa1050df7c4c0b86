"""The registry of public data sets: their shape, source, licence and checksum.

No data are shipped, and no file is trusted: its uncompressed content must match the checksum recorded here.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedslim.data.textstream import open_bytes, told_as_data_errors
from fedslim.errors import DataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

UNPACKED_LIMIT = 2**30
"""Maximum uncompressed bytes; every public set is smaller."""

_CHUNK = 2**20

_CLOSE = 0.75
"""Similarity of names that counts as a typo, for `difflib`."""


@dataclass(frozen=True, slots=True)
class PublicSet:
    """The record of a public data set. At least one of the two checksums is given."""

    name: str
    title: str
    transactions: int
    items: int
    length: str
    source: str
    licence: str
    citation: str
    sha256: str | None = None  # of the uncompressed file
    git_blob: str | None = None  # `git hash-object` of the uncompressed file
    url: str | None = None
    by_hand: str = ""  # how to get it if there is no URL
    partial: bool = False

    @property
    def file_names(self) -> tuple[str, ...]:
        """The possible file names, in search order."""
        return (f"{self.name}.dat", f"{self.name}.dat.gz", f"{self.name}.txt", f"{self.name}.txt.gz")

    @property
    def how_to_get(self) -> str:
        """How to get the file by hand: the last part of error messages."""
        origin = f"download it by hand from {self.url}" if self.url else self.by_hand
        return f"{origin}, and pass --from FOLDER or set FEDSLIM_DATA to its folder"


_FIMI = "http://fimi.uantwerpen.be/data/"
_FIMI_LICENCE = "no licence of its own; see the terms of the FIMI repository, and cite the source"
_FIMI_CITATION = "B. Goethals and M. J. Zaki, Frequent Itemset Mining Implementations repository"
_ACCIDENTS_CITATION = (
    "K. Geurts, G. Wets, T. Brijs, K. Vanhoof, "
    "Profiling high frequency accident locations using association rules, 2003"
)
_LUCS = "LUCS-KDD discretised/normalised data library"
_UCI_LICENCE = "UCI data are CC BY 4.0; the discretised files of LUCS-KDD carry no licence of their own"
_LUCS_CITATION = "F. Coenen, LUCS-KDD discretised/normalised ARM and CARM data library, University of Liverpool, 2003"
_KRIMP = (
    "as shipped with the KRIMP/SLIM software (J. Vreeken, M. van Leeuwen, A. Siebes, K. Smets), "
    "converted back to LUCS-KDD item numbers"
)

_SETS = (
    PublicSet(
        "ionosphere",
        "Ionosphere: radar returns, good or bad",
        351,
        157,
        "35",
        f"UCI Ionosphere, {_LUCS} (ionosphere.D157.N351.C2.num), unchanged",
        _UCI_LICENCE,
        _LUCS_CITATION,
        sha256="314acd88ad320e165acdd266b06e9b902608b5588b5233f50c6aee068ab219c7",
        by_hand=f"take ionosphere.D157.N351.C2.num from the {_LUCS}, call it ionosphere.dat",
    ),
    PublicSet(
        "chess",
        "Chess: king and rook against king and pawn",
        3_196,
        75,
        "37",
        "FIMI repository, chess.dat (UCI King-Rook vs King-Pawn), unchanged",
        _FIMI_LICENCE,
        _FIMI_CITATION,
        sha256="a12ea887df58a396709430af5bf0a9a32d1f6eba8e7c13dd41f28b98572c5db2",
        url=_FIMI + "chess.dat",
    ),
    PublicSet(
        "mushroom",
        "Mushroom: edible or poisonous",
        8_124,
        119,
        "23",
        "FIMI repository, mushroom.dat, unchanged",
        _FIMI_LICENCE,
        _FIMI_CITATION,
        sha256="6cf94bc482712c3936f0b40c921381ab2b776c3d9941880fecac4d83ca5cbeb5",
        url=_FIMI + "mushroom.dat",
    ),
    PublicSet(
        "pendigits",
        "Pen-based recognition of handwritten digits",
        10_992,
        86,
        "17",
        f"UCI Pen-Based Digits, {_LUCS}, {_KRIMP}",
        _UCI_LICENCE,
        _LUCS_CITATION,
        sha256="b130f763663af20143813cf376da105d0c653a5ea5ba65dffbf249618f1cb61c",
        by_hand="take the pendigits database of the KRIMP/SLIM software, write it with LUCS-KDD item numbers",
    ),
    PublicSet(
        "letter",
        "Letter recognition: features of printed capitals",
        20_000,
        102,
        "17",
        f"UCI Letter Recognition, {_LUCS}, {_KRIMP}",
        _UCI_LICENCE,
        _LUCS_CITATION,
        sha256="dbcac2fedd0303ed97622606fbbb6a37314f261e0496e28a663f91492ebf5b4b",
        by_hand="take the letter recognition database of the KRIMP/SLIM software, write it with LUCS-KDD item numbers",
    ),
    PublicSet(
        "adult",
        "Adult: census records and income",
        48_842,
        97,
        "12-15",
        f"UCI Adult, {_LUCS} (adult.D97.N48842.C2.num), unchanged",
        _UCI_LICENCE,
        _LUCS_CITATION,
        sha256="52acadb86d49809be764c550031c00fe28fa1f566c1a9045da1438b16de4e98f",
        by_hand=f"take adult.D97.N48842.C2.num from the {_LUCS}, call it adult.dat",
    ),
    PublicSet(
        "connect",
        "Connect-4: positions after eight moves, and who wins",
        67_557,
        129,
        "43",
        "FIMI repository, connect.dat (UCI Connect-4), unchanged",
        _FIMI_LICENCE,
        _FIMI_CITATION,
        sha256="4af29e7a6e3dc9da6698ddd6440d619a76450623ee2166c011e317c58291fd8a",
        git_blob="b3a7d8f129b930a37bc66a0b97999fef57a05e53",
        url=_FIMI + "connect.dat",
    ),
    PublicSet(
        "accidents_head",
        "Traffic accidents in Belgium: PARTIAL, the first 35,808 transactions only",
        35_808,
        337,
        "20-48",
        "the head of the FIMI repository's accidents.dat; not comparable with published results on Accidents",
        _FIMI_LICENCE,
        _ACCIDENTS_CITATION,
        sha256="ccad49789131068ac7838d6bdc74e5edee4f22d52ce67dcf23756efb4b5e3eb6",
        by_hand="get the full accidents.dat, write its first 35,808 lines to accidents_head.dat",
        partial=True,
    ),
    PublicSet(
        "accidents",
        "Traffic accidents in Belgium",
        340_183,
        468,
        "18-51",
        "FIMI repository, accidents.dat",
        _FIMI_LICENCE,
        _ACCIDENTS_CITATION,
        git_blob="3411322ed5f75b05a04a2e7f66f320bd8b358302",
        url=_FIMI + "accidents.dat",
    ),
)


def public_sets() -> tuple[PublicSet, ...]:
    """Return every public data set in the registry."""
    return _SETS


def public_set(name: str) -> PublicSet:
    """Return the record of a public data set.

    Raises:
        DataError: The name is unknown; the message suggests similar ones.
    """
    records = {record.name: record for record in public_sets()}
    if name in records:
        return records[name]
    msg = _no_download(name) or f"there is no public data set {name!r}{did_you_mean(name, list(records))}"
    raise DataError(msg)


def _no_download(name: str) -> str | None:
    """Return the message for built-in and generated data, which have no file."""
    from fedslim.data.builtin import BUILTIN_NAMES  # noqa: PLC0415  # they import did_you_mean
    from fedslim.data.generators import KINDS  # noqa: PLC0415  # as above

    if name in BUILTIN_NAMES:
        return f"{name} is built in and needs no download; use it by name, as in: fedslim mine {name}"
    if name.partition(":")[0] in KINDS:
        return f"{name} is generated and needs no download; use it by name, as in: fedslim mine {name}"
    return None


def did_you_mean(name: str, known: list[str]) -> str:
    """Return the end of a message about an unknown name: similar names, or all names."""
    close = difflib.get_close_matches(name, known, n=3, cutoff=_CLOSE)
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; the names are {', '.join(known)}"


def verify(record: PublicSet, path: Path) -> None:
    """Check the uncompressed content of `path` against the checksum of the set.

    Raises:
        DataError: It differs, or cannot be read.
    """
    if record.sha256 is not None:  # one checksum is enough
        kind, wanted, digest = "sha256", record.sha256, hashlib.sha256()
    else:
        kind, wanted = "git blob id", record.git_blob or ""
        # Git hashes the size first, so the content is read twice.
        digest = hashlib.sha1(b"blob %d\0" % sum(map(len, _unpack(path))), usedforsecurity=False)
    for chunk in _unpack(path):
        digest.update(chunk)
    if (found := digest.hexdigest()) != wanted:
        msg = (
            f"{path}: this is not the public set {record.name} (its {kind} is {found}, expected {wanted}); "
            f"remove it, then {record.how_to_get}"
        )
        raise DataError(msg)


def _unpack(path: Path) -> Iterator[bytes]:
    size = 0
    with open_bytes(path) as stream:
        while True:
            with told_as_data_errors(path):
                chunk = stream.read(_CHUNK)
            if not chunk:
                return
            size += len(chunk)
            if size > UNPACKED_LIMIT:
                msg = f"{path}: larger than {UNPACKED_LIMIT:,} bytes, unlike any public set; check the file"
                raise DataError(msg)
            yield chunk
