"""Number the items of a federation without revealing their labels.

An item's id is a keyed hash of its label. Without the key, nobody can test a label against it, so a vocabulary tells
the server only how many items there are. Members have the key: they can test whether a label that they guess is in
another member's vocabulary.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import chain

import msgspec
import numpy as np
from numpy.typing import NDArray

from fedslim.data.atomic import creating, make_folder_for
from fedslim.data.database import ItemArray, TransactionDatabase, first_repeat
from fedslim.data.documents import Format
from fedslim.data.parsing import unwritable
from fedslim.data.records import TAB, records
from fedslim.data.textstream import real_path, text_lines, told_as_data_errors
from fedslim.errors import DataError, ParameterError

KEY_BYTES = 32
ID_BYTES = 16  # for a billion labels, the probability that any two have the same id is 2^-69
FINGERPRINT_BYTES = 8
DIGEST_BYTES = 32

# Each purpose has its own personalisation, so that a hash for one purpose is useless for another.
ITEM = b"fedslim item 1"
FINGERPRINT = b"fedslim print 1"
DIGEST = b"fedslim vocab 1"

SECRET_FORMAT, SECRET_VERSION = "fedslim-item-secret", "1"
FORMAT, VERSION = "fedslim-vocabulary", 1
MAX_ITEMS = 10_000_000
MAX_BYTES = 1 << 29  # maximum size of a vocabulary file: room for `MAX_ITEMS` ids, one per line
MAX_SECRET_BYTES = 4096

_FIELDS = 4
_NAMED = 3


@dataclass(frozen=True, slots=True)
class ItemSecret:
    """The key that the members share and the server does not have. It is never displayed, logged or sent."""

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise ParameterError(f"a secret needs {KEY_BYTES} random bytes, not {len(self.key)}")

    @classmethod
    def from_random(cls, entropy: bytes) -> ItemSecret:
        """Create a secret from 32 bytes of a cryptographic random source."""
        return cls(bytes(entropy))

    @staticmethod
    def is_in(path: str | os.PathLike[str]) -> bool:
        """Return whether a file starts like a secret; `read` reports any other error."""
        path = real_path(path)
        with told_as_data_errors(path), path.open("rb") as stream:
            return stream.read(len(SECRET_FORMAT)) == SECRET_FORMAT.encode()

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> ItemSecret:
        """Read a file that `write` wrote, to which (on POSIX) only its owner has access. No error quotes content."""
        path = real_path(path)
        with told_as_data_errors(path), path.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(MAX_SECRET_BYTES)
        words = data.split()
        if words[:1] != [SECRET_FORMAT.encode()]:
            msg = f"{path}: this is not a secret of fedslim; name the file created by `fedslim vocabulary secret`"
            raise DataError(msg)
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise DataError(
                f"{path}: others may read or change this secret (its permissions are {stat.S_IMODE(mode):03o}); "
                "if nobody has, run chmod 600 on it, otherwise create a new one"
            )
        if words[1:2] != [SECRET_VERSION.encode()]:
            raise DataError(f"{path}: this fedslim only reads secrets of version {SECRET_VERSION}; use a newer fedslim")
        if len(words) != 3 or not re.fullmatch(rb"[0-9a-f]{64}", words[2]):  # noqa: PLR2004  # format, version, key
            raise DataError(
                f"{path}: the secret is damaged: the second line must be {2 * KEY_BYTES} hexadecimal digits in lower "
                "case, and the last; copy the file again from another member"
            )
        return cls(bytes.fromhex(words[2].decode()))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the secret to a new file that only its owner may read. An existing one may be in use; it is kept."""
        path = real_path(path)
        make_folder_for(path)
        with creating(path) as stream:
            stream.write(f"{SECRET_FORMAT} {SECRET_VERSION}\n{self.key.hex()}\n".encode())

    def id_of(self, label: str) -> bytes:
        """Return the id of a label. Labels are not normalised: another case or an extra blank is another item."""
        try:
            text = label.encode()
        except UnicodeEncodeError:
            raise DataError(f"a label is {unwritable(label)}; rename the item") from None
        return blake2b(text, digest_size=ID_BYTES, key=self.key, person=ITEM).digest()

    def ids_of(self, labels: Iterable[str]) -> tuple[bytes, ...]:
        """Return the ids of several labels."""
        return tuple(map(self.id_of, labels))

    @property
    def fingerprint(self) -> str:
        """A public hash by which members check that they have the same secret."""
        return blake2b(digest_size=FINGERPRINT_BYTES, key=self.key, person=FINGERPRINT).hexdigest()


@dataclass(frozen=True, repr=False)
class Vocabulary:
    """The ids of all items in the order of their numbers, and the fingerprint of the secret behind them.

    Examples:
        >>> import secrets
        >>> from fedslim.data import ItemSecret, TransactionDatabase, Vocabulary, over
        >>> secret = ItemSecret.from_random(secrets.token_bytes(32))
        >>> ours, theirs = Vocabulary.of(["rash", "fever"], secret), Vocabulary.of(["fever", "cough"], secret)
        >>> agreed = Vocabulary.merge(ours, theirs)
        >>> len(agreed)
        3
        >>> db = TransactionDatabase.from_transactions([["rash", "fever"]])
        >>> sorted(over(db, agreed, secret).transaction(0))
        ['fever', 'rash']
    """

    ids: tuple[bytes, ...]
    fingerprint: str

    def __post_init__(self) -> None:
        if not re.fullmatch(rf"[0-9a-f]{{{2 * FINGERPRINT_BYTES}}}", self.fingerprint):
            raise DataError(
                f"fingerprint: {self.fingerprint!r:.60} is not {2 * FINGERPRINT_BYTES} hexadecimal digits in lower case"
            )
        if len(self.ids) > MAX_ITEMS:
            raise DataError(f"items: there are {len(self.ids):,}, but a vocabulary has at most {MAX_ITEMS:,}")
        for number, item in enumerate(self.ids, 1):
            if len(item) != ID_BYTES:
                raise DataError(f"items: number {number} has {len(item)} bytes, but an id has {ID_BYTES}")
        if len(self.index) != len(self.ids):
            # The index has the last position of an id that occurs twice.
            first = next(place for place, item in enumerate(self.ids) if self.index[item] != place)
            raise DataError(f"items: numbers {first + 1} and {self.index[self.ids[first]] + 1} are the same id")

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
        """A hash of the ids in their order, equal if and only if the items are numbered in the same way."""
        return blake2b(b"".join(self.ids), digest_size=DIGEST_BYTES, person=DIGEST).digest()

    @classmethod
    def of(cls, labels: Sequence[str], secret: ItemSecret) -> Vocabulary:
        """Create the vocabulary of a list of labels, in the order of the list.

        Labels are often sorted, so this order may reveal what the items are. Use it where all labels are known anyway,
        as in a simulation; before others see the vocabulary, `merge` removes the order.
        """
        if (twin := first_repeat(labels)) is not None:
            raise DataError(f"label {twin!r:.60} occurs twice; give every item its own label")
        return cls(secret.ids_of(labels), secret.fingerprint)

    @classmethod
    def merge(cls, *vocabularies: Vocabulary, names: Sequence[str] = ()) -> Vocabulary:
        """Merge vocabularies with the same secret; ids are sorted, so the result depends only on the set of items."""
        if not vocabularies:
            raise ParameterError("no vocabularies to merge; give at least one")
        names = names or [f"vocabulary {number}" for number in range(1, len(vocabularies) + 1)]
        first = vocabularies[0]
        for name, other in zip(names, vocabularies, strict=True):
            if other.fingerprint != first.fingerprint:
                raise DataError(
                    f"{name} was created with another secret (fingerprint {other.fingerprint}) than {names[0]} "
                    f"({first.fingerprint}); give all members the same secret and create the vocabularies again"
                )
        return cls(tuple(sorted(set(chain.from_iterable(each.ids for each in vocabularies)))), first.fingerprint)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary as JSON, one id per line, without labels; equal vocabularies give equal files."""
        items = [item.hex() for item in self.ids]
        FILES.write(real_path(path), _VocabularyFile(FORMAT, VERSION, self.fingerprint, items), private=False)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Vocabulary:
        """Read a file that `write` wrote; an error names the file and the field."""
        path = real_path(path)
        with told_as_data_errors(path):
            data = FILES.read(path, MAX_BYTES)
        if data.count(b",") > MAX_ITEMS + _FIELDS:  # short strings take many times their size when decoded
            raise FILES.bad(path, f"it has more than {MAX_ITEMS:,} items")
        if data.startswith(SECRET_FORMAT.encode()):
            msg = f"{path}: this is a secret, not a vocabulary; name the file created by `fedslim vocabulary make`"
            raise DataError(msg)
        file = FILES.decode(data, path, _VocabularyFile)
        try:
            return cls(_ids(file.items), file.fingerprint)
        except DataError as error:
            raise FILES.bad(path, str(error)) from None


class _VocabularyFile(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    format: str
    version: int
    fingerprint: str
    items: list[str]


def _ids(texts: list[str]) -> tuple[bytes, ...]:
    """Decode the ids of a file; only lower case is allowed, so that equal vocabularies are equal files."""
    digits = re.compile(rf"[0-9a-f]{{{2 * ID_BYTES}}}")
    for number, text in enumerate(texts, 1):
        if not digits.fullmatch(text):
            msg = f"items: number {number} is {text!r:.60}, not {2 * ID_BYTES} hexadecimal digits in lower case"
            raise DataError(msg)
    return tuple(map(bytes.fromhex, texts))


_BAD = "{path} is not a usable vocabulary: {why}; create it again with `fedslim vocabulary make`, or have it sent again"
FILES = Format(FORMAT, VERSION, DataError, _BAD)


def over(database: TransactionDatabase, vocabulary: Vocabulary, secret: ItemSecret) -> TransactionDatabase:
    """Renumber the items of a database by the vocabulary.

    Items keep their labels; items of the vocabulary that the database lacks are labelled '#' and their id.

    Raises:
        DataError: The vocabulary was created with another secret, or lacks items. The message names some of them, so
            only the member may see it.
    """
    places = _places(database.vocabulary, vocabulary, secret)
    lost = np.flatnonzero(places < 0)
    if len(lost):
        named = ", ".join(f"{database.vocabulary[i]!r:.60}" for i in lost[:_NAMED])
        more = f" and {len(lost) - _NAMED:,} more" if len(lost) > _NAMED else ""
        raise DataError(
            f"{database.name}: the agreed vocabulary lacks {named}{more}; create the vocabulary of these data with "
            "`fedslim vocabulary make`, merge it again with those of all members, and give the result to all of them"
        )
    labels = _labels(vocabulary, places.tolist(), database.vocabulary)
    moved = TransactionDatabase.from_rows(database.lengths, places[database.items], labels, name=database.name)
    return replace(moved, duplicates_removed=database.duplicates_removed, encoding=database.encoding)


def labels_for(vocabulary: Vocabulary, secret: ItemSecret, labels: Iterable[str]) -> tuple[str, ...]:
    """Return the label of each item, or '#' and its id if the given labels, such as a catalogue, do not include it."""
    given = list(labels)
    return _labels(vocabulary, _places(given, vocabulary, secret).tolist(), given)


def read_labels(path: str | os.PathLike[str]) -> dict[str, str]:
    """Read a catalogue: the text that explains each label, or "" if it has none.

    In a .csv or .tsv file, the first column has labels and the second one texts. In others, each line is a label.
    """
    path = real_path(path)
    suffix = path.name.removesuffix(".gz")[-4:].lower()
    if suffix in {".csv", ".tsv"}:
        rows = (row for _, row in records(path, TAB if suffix == ".tsv" else ","))
    else:
        rows = ([line] for line in text_lines(path))
    pairs = ((row[0].strip(), row[1].strip() if len(row) > 1 else "") for row in rows)
    return {label: text for label, text in pairs if label}


def names_for(catalogue: Mapping[str, str], secret: ItemSecret | None = None) -> dict[str, str]:
    """Return the names under which to show items: labels with their texts, and with the secret also unnamed ids."""
    shown = {label: f"{label} {text}".rstrip() for label, text in catalogue.items()}
    known = {} if secret is None else {f"#{secret.id_of(label).hex()}": name for label, name in shown.items()}
    return shown | known


def _places(labels: Sequence[str], vocabulary: Vocabulary, secret: ItemSecret) -> NDArray[np.int32]:
    """Return the number of each label, or -1."""
    if secret.fingerprint != vocabulary.fingerprint:
        raise DataError(
            f"the vocabulary was created with another secret (fingerprint {vocabulary.fingerprint}) than the one given "
            f"({secret.fingerprint}); use the secret that all members share"
        )
    index = vocabulary.index
    return np.fromiter((index.get(secret.id_of(label), -1) for label in labels), ItemArray, len(labels))


def _labels(vocabulary: Vocabulary, places: list[int], labels: Sequence[str]) -> tuple[str, ...]:
    named = [f"#{item.hex()}" for item in vocabulary.ids]
    for place, label in zip(places, labels, strict=True):
        if place >= 0:
            named[place] = label
    if (twin := first_repeat(named)) is not None:
        raise DataError(f"the label {twin!r} is the same as the id of another item; rename it")
    return tuple(named)
