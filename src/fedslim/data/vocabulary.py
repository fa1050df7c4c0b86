"""Items by number for members who do not show each other, or a server, what their items are called.

    secret = ItemSecret.from_random(entropy)                     # 32 random bytes, shared by the members alone
    agreed = Vocabulary.merge(Vocabulary.of(our_labels, secret), theirs)
    database = over(database, agreed, secret)                    # item 7 is now item 7 at every member

An item's id is a keyed hash of its label. Without the key nobody can try labels on it, so a vocabulary tells a server
how many items there are and nothing else. Whoever has the secret can: members see which of the labels that they can
think of another member's vocabulary has.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from fedslim.data.atomic import creating, make_folder_for, replacing
from fedslim.data.database import ItemArray, TransactionDatabase, first_repeat
from fedslim.data.documents import Format
from fedslim.data.labels import unwritable
from fedslim.data.textstream import real_path, told_as_data_errors
from fedslim.errors import DataError, ParameterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

KEY_BYTES = 32
ID_BYTES = 16
"""Two of a billion labels have the same id with a probability of 2^-69."""
FINGERPRINT_BYTES = 8
DIGEST_BYTES = 32

# What a hash is for is part of it, so that one made for one purpose is of no use for another.
ITEM = b"fedslim item 1"
FINGERPRINT = b"fedslim print 1"
DIGEST = b"fedslim vocab 1"

SECRET_FORMAT, SECRET_VERSION = "fedslim-item-secret", "1"
FORMAT, VERSION = "fedslim-vocabulary", 1
MAX_ITEMS = 10_000_000
MAX_BYTES = 1 << 29
"""Room for that many ids, one on a line."""
MAX_SECRET_BYTES = 4096

_FIELDS = 4
_SHOWN = 3


@dataclass(frozen=True, slots=True, repr=False)
class ItemSecret:
    """What the members of a federation share and the server does not have. It is never shown, logged or sent."""

    key: bytes

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            msg = f"a secret is made from {KEY_BYTES} random bytes, not {len(self.key)}"
            raise ParameterError(msg)

    def __repr__(self) -> str:
        return "ItemSecret(…)"

    @classmethod
    def from_random(cls, entropy: bytes) -> ItemSecret:
        """Make a secret from 32 bytes of a cryptographic random source."""
        return cls(bytes(entropy))

    @staticmethod
    def is_in(path: str | os.PathLike[str]) -> bool:
        """Whether a file begins as secrets do; whatever else is wrong with it is told by `read`."""
        path = real_path(path)
        with told_as_data_errors(path), path.open("rb") as stream:
            return stream.read(len(SECRET_FORMAT)) == SECRET_FORMAT.encode()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ItemSecret:
        """Read what `write` wrote.

        Raises:
            DataError: It is no secret, or, where files have permissions, not one: others than its owner may use it.
                The message has nothing of the content in it.
        """
        path = real_path(path)
        with told_as_data_errors(path), path.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(MAX_SECRET_BYTES)
        words = data.split()
        if words[:1] != [SECRET_FORMAT.encode()]:
            msg = f"{path}: this is not a secret of fedslim; name the file that `fedslim vocabulary secret` made"
            raise DataError(msg)
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            msg = (
                f"{path}: others may read or change this secret (its permissions are {stat.S_IMODE(mode):03o}); "
                "if nobody has, keep it to yourself with chmod 600, otherwise make a new one"
            )
            raise DataError(msg)
        if words[1:2] != [SECRET_VERSION.encode()]:
            msg = (
                f"{path}: this secret is not of version {SECRET_VERSION}, which this fedslim reads; use a newer fedslim"
            )
            raise DataError(msg)
        if len(words) != 3 or not re.fullmatch(rb"[0-9a-f]{64}", words[2]):  # noqa: PLR2004  # format, version, key
            msg = (
                f"{path}: the secret is damaged: below its first line should be {2 * KEY_BYTES} hexadecimal digits in "
                "lower case and no more; copy it again from another member"
            )
            raise DataError(msg)
        return cls(bytes.fromhex(words[2].decode()))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it to a new file that only its owner may read.

        Raises:
            DataError: Something of that name is there. It may be a secret in use, so it is never replaced.
        """
        path = real_path(path)
        make_folder_for(path)
        with creating(path) as stream:
            stream.write(f"{SECRET_FORMAT} {SECRET_VERSION}\n{self.key.hex()}\n".encode())

    def id_of(self, label: str) -> bytes:
        """The id of the item with this label. Nothing is made alike: a blank more, or a capital, is another item."""
        try:
            text = label.encode()
        except UnicodeEncodeError:
            msg = f"an item is {unwritable(label)}; rename it"
            raise DataError(msg) from None
        return blake2b(text, digest_size=ID_BYTES, key=self.key, person=ITEM).digest()

    def ids_of(self, labels: Iterable[str]) -> tuple[bytes, ...]:
        """The ids of several items."""
        return tuple(map(self.id_of, labels))

    @property
    def fingerprint(self) -> str:
        """By which members see that they have the same secret; it may be told to anybody."""
        return blake2b(digest_size=FINGERPRINT_BYTES, key=self.key, person=FINGERPRINT).hexdigest()


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """The ids of all items in the order of their numbers, and the fingerprint of the secret they are made with."""

    ids: tuple[bytes, ...]
    fingerprint: str

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"[0-9a-f]{{{2 * FINGERPRINT_BYTES}}}", self.fingerprint):
            msg = (
                f"fingerprint: {self.fingerprint!r:.60} is not {2 * FINGERPRINT_BYTES} hexadecimal digits in lower case"
            )
            raise DataError(msg)
        if len(self.ids) > MAX_ITEMS:
            msg = f"items: there are {len(self.ids):,}, and a vocabulary has at most {MAX_ITEMS:,}"
            raise DataError(msg)
        for number, item in enumerate(self.ids, 1):
            if len(item) != ID_BYTES:
                msg = f"items: number {number} has {len(item)} bytes, and an id has {ID_BYTES}"
                raise DataError(msg)
        if len(self.index) != len(self.ids):
            # Of items that are there twice the index has the last place.
            first = next(place for place, item in enumerate(self.ids) if self.index[item] != place)
            msg = f"items: numbers {first + 1} and {self.index[self.ids[first]] + 1} are the same id"
            raise DataError(msg)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} items, fingerprint {self.fingerprint})"

    @cached_property
    def index(self) -> Mapping[bytes, int]:
        """The number of each id."""
        return {item: place for place, item in enumerate(self.ids)}

    @cached_property
    def digest(self) -> bytes:
        """A hash of the ids in their order: equal for those, and only those, who number the items alike."""
        return blake2b(b"".join(self.ids), digest_size=DIGEST_BYTES, person=DIGEST).digest()

    # -- making one ---------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, labels: Sequence[str], secret: ItemSecret) -> Vocabulary:
        """The vocabulary of a list of labels, in the order of the list.

        That order may say what the items are, for labels are often sorted. It is for whoever knows all labels
        anyway, such as a simulation; before others see it, `merge` takes it away.
        """
        if (twin := first_repeat(labels)) is not None:
            msg = f"label {twin!r:.60} is there twice; every item needs a label of its own"
            raise DataError(msg)
        return cls(secret.ids_of(labels), secret.fingerprint)

    @classmethod
    def merge(cls, *vocabularies: Vocabulary, names: Sequence[str] = ()) -> Vocabulary:
        """The vocabulary of all items in ascending order of their ids, which depends only on what items there are.

        Args:
            vocabularies: One or more, made with the same secret.
            names: What to call them in messages.

        Raises:
            DataError: They are made with different secrets, under which no two items are the same.
        """
        if not vocabularies:
            msg = "there are no vocabularies to merge; give at least one"
            raise ParameterError(msg)
        names = names or [f"vocabulary {number}" for number in range(1, len(vocabularies) + 1)]
        first = vocabularies[0]
        for name, other in zip(names, vocabularies, strict=True):
            if other.fingerprint != first.fingerprint:
                msg = (
                    f"{name} is made with another secret (fingerprint {other.fingerprint}) than {names[0]} "
                    f"({first.fingerprint}); give all members the same secret and make the vocabularies again"
                )
                raise DataError(msg)
        return cls(tuple(sorted(set(chain.from_iterable(each.ids for each in vocabularies)))), first.fingerprint)

    # -- files --------------------------------------------------------------------------------------------------

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write it as JSON, one id on a line. Equal vocabularies are equal files, and no labels are in them."""
        path = real_path(path)
        make_folder_for(path)
        head = f'{{\n  "format": "{FORMAT}",\n  "version": {VERSION},\n  "fingerprint": "{self.fingerprint}",\n'
        with replacing(path) as (stream, _):
            stream.write(head.encode() + b'  "items": [')
            for place, item in enumerate(self.ids):
                stream.write(b'%s\n    "%s"' % (b"," if place else b"", item.hex().encode()))
            stream.write(b"\n  ]\n}\n" if self.ids else b"]\n}\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read what `write` wrote.

        Raises:
            DataError: It is something else, or damaged; the message names the file and the field.
        """
        path = real_path(path)
        with told_as_data_errors(path):
            data = FILES.read(path, MAX_BYTES)
        if data.count(b",") > MAX_ITEMS + _FIELDS:  # decoded, short texts would take many times their room
            raise _bad(path, f"it has more than {MAX_ITEMS:,} items")
        if data.startswith(SECRET_FORMAT.encode()):
            msg = f"{path}: this is the members' secret, not a vocabulary; name what `fedslim vocabulary make` wrote"
            raise DataError(msg)
        file = FILES.decode(data, path, _VocabularyFile)
        try:
            return cls(_ids(file.items), file.fingerprint)
        except DataError as error:
            raise _bad(path, str(error)) from None


class _VocabularyFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    format: str
    version: int
    fingerprint: str
    items: list[str]


def _ids(texts: list[str]) -> tuple[bytes, ...]:
    """The ids that a file has as texts; there is one way to write them, so that equal vocabularies are equal files."""
    digits = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")
    for number, text in enumerate(texts, 1):
        if not digits.fullmatch(text):
            msg = f"items: number {number} is {text!r:.60}, not {2 * ID_BYTES} hexadecimal digits in lower case"
            raise DataError(msg)
    return tuple(map(bytes.fromhex, texts))


def _bad(path: str | Path, why: str) -> DataError:
    return DataError(
        f"{path} is not a vocabulary that fedslim can use: {why}; make it again with `fedslim vocabulary make`, or "
        "have it sent again"
    )


FILES = Format(FORMAT, VERSION, _bad)


def over(database: TransactionDatabase, vocabulary: Vocabulary, secret: ItemSecret) -> TransactionDatabase:
    """The same transactions with the items numbered by the vocabulary.

    An item keeps its label; items of the vocabulary that the database has not are called '#' and their id.

    Raises:
        DataError: The vocabulary is made with another secret, or lacks items. The message names some of these: it is
            for the member alone.
    """
    places = _places(database.vocabulary, vocabulary, secret)
    lost = np.flatnonzero(places < 0)
    if len(lost):
        named = ", ".join(f"{database.vocabulary[i]!r:.60}" for i in lost[:_SHOWN])
        more = f" and {len(lost) - _SHOWN:,} more" if len(lost) > _SHOWN else ""
        msg = (
            f"{database.name}: the agreed vocabulary lacks {named}{more}; make the vocabulary of these data with "
            "`fedslim vocabulary make`, merge it with those of all members again, and have all of them use the result"
        )
        raise DataError(msg)
    items = places[database.items]
    if not bool(np.all(places[1:] > places[:-1])):
        items = _sorted_in_rows(items, database, len(vocabulary))
    labels = _labels(vocabulary, places.tolist(), database.vocabulary)
    return TransactionDatabase(database.offsets, items, labels, database.duplicates_removed, database.name)


def labels_for(vocabulary: Vocabulary, secret: ItemSecret, labels: Iterable[str]) -> tuple[str, ...]:
    """The label of each number, as far as the labels given have it; the others are called '#' and their id.

    Labels that are not in the vocabulary do no harm: a whole catalogue may be given.
    """
    given = list(labels)
    return _labels(vocabulary, _places(given, vocabulary, secret).tolist(), given)


def _places(labels: Sequence[str], vocabulary: Vocabulary, secret: ItemSecret) -> NDArray[np.int32]:
    """The number of each label, or -1."""
    if secret.fingerprint != vocabulary.fingerprint:
        msg = (
            f"the vocabulary is made with another secret (fingerprint {vocabulary.fingerprint}) than the one given "
            f"({secret.fingerprint}); use the secret that all members share"
        )
        raise DataError(msg)
    index = vocabulary.index
    return np.fromiter((index.get(secret.id_of(label), -1) for label in labels), ItemArray, len(labels))


def _labels(vocabulary: Vocabulary, places: list[int], labels: Sequence[str]) -> tuple[str, ...]:
    named = [f"#{item.hex()}" for item in vocabulary.ids]
    for place, label in zip(places, labels, strict=True):
        if place >= 0:
            named[place] = label
    if (twin := first_repeat(named)) is not None:
        msg = f"two items are called {twin!r}, one of them after the other's id; rename it"
        raise DataError(msg)
    return tuple(named)


def _sorted_in_rows(items: NDArray[np.int32], database: TransactionDatabase, width: int) -> NDArray[np.int32]:
    """The items of each transaction in ascending order: one sort of everything, behind the transaction's number."""
    keys = np.repeat(np.arange(len(database), dtype=np.int64) * width, database.lengths)
    keys += items
    keys.sort()
    keys %= width
    return keys.astype(ItemArray)
