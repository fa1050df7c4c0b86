"""Read the result of a query: PostgreSQL through ADBC, SQLite through Python, DuckDB through its own library.

A URL may contain a password. It is handed to the driver and appears nowhere else: messages, names and records have the
URL as `masked` returns it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from fedslim.data.columns import EncodedTable, Wanted, batches_of, tables
from fedslim.data.frames import ROWS_IN_BATCH, arrow_tables, needed, reason_of
from fedslim.data.textstream import is_file, open_bytes
from fedslim.errors import DataError, FedslimError, ParameterError

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_SECRET_KEY = re.compile(r"([?&](?:[a-z]*password|passfile|sslkey|token)=)[^&#]*", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^/?#@:]*):.*@")  # to the last @, in case the password has one that is not escaped
_UNESCAPED = re.compile(r"://[^/?#@:]*:[^/?#@]*[/?#@].*@")
MASK = "***"


class MaskedUrl(str):
    """A URL as text without its password, which only `sql_tables` reads; so no message or record can have it."""

    __slots__ = ("url",)
    url: str

    def __new__(cls, url: str) -> Self:
        """Mask a URL; any other text stays as it is."""
        self = super().__new__(cls, masked(url))
        self.url = url
        return self


def is_url(source: object) -> bool:
    """Return whether a source is a URL rather than a path or a name."""
    return isinstance(source, str) and _URL.match(source) is not None


def masked(text: str) -> str:
    """Return a URL without its password."""
    if not is_url(text):
        return text
    return _SECRET_KEY.sub(rf"\1{MASK}", _PASSWORD.sub(rf"\1:{MASK}@", text))


def sql_tables(
    source: str, wanted: Wanted, *, query: str | None = None, table: str | None = None
) -> Iterator[EncodedTable]:
    """Read the rows of a query, or of a table by its name (`visits` or `schema.visits`)."""
    url = getattr(source, "url", str(source))
    shown, scheme = masked(url), url.partition("://")[0].lower()
    if scheme not in _READERS:
        msg = f"{shown}: fedslim reads postgresql://, sqlite:/// and duckdb:/// URLs; save other data as a file"
        raise ParameterError(msg)
    if (query is None) is (table is None):
        what = "both a query and a table; give one of them" if query else "neither a query nor a table"
        msg = f"{shown}: there is {what}" + ("" if query else "; add --query 'select …' or --table NAME")
        raise ParameterError(msg)
    if query is None:
        assert table is not None  # noqa: S101  # one of them is given
        quoted = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
        query = f"select * from {quoted}"  # noqa: S608  # the names are quoted
    try:
        yield from _READERS[scheme](url, query, shown, wanted._replace(name=wanted.name or table or "query"))
    except FedslimError:
        raise
    except Exception as error:  # noqa: BLE001  # each driver has its own exceptions
        reason = _without_secrets(reason_of(error), url)
    else:
        return
    msg = f"{shown}: the query failed ({reason}); check the address, the query and your rights"
    raise DataError(msg)  # outside of the handler, so that no traceback leads to what the driver said


def _without_secrets(text: str, url: str) -> str:
    """Remove what is secret in a URL from a driver's message, as it is written and as it is meant."""
    if _UNESCAPED.search(url):  # the driver takes a part of the password for something else, and may quote it
        return "write / ? # and @ in the password as %2F, %3F, %23 and %40"
    try:
        parts = urlsplit(url)
        secrets = [parts.password or "", *(value for key, value in parse_qsl(parts.query) if "pass" in key.lower())]
    except ValueError:  # the URL cannot be parsed, and the message may quote any part of it
        return "the URL is malformed"
    for secret in sorted({form for one in secrets for form in (one, unquote(one), quote(one, safe=""))}, key=len):
        text = text.replace(secret, MASK) if secret else text
    return text.replace(url, masked(url))


def _path(url: str, shown: str) -> Path:
    """Return the file of a URL: sqlite:///relative.db, sqlite:////folder/absolute.db."""
    path = Path(unquote(url.partition("://")[2].removeprefix("/").partition("?")[0]))
    if not is_file(path) or not url.partition("://")[2].startswith("/"):
        msg = f"{shown}: there is no such file; write three slashes before a relative path, four before an absolute one"
        raise DataError(msg)
    with open_bytes(path):  # reports a file that cannot be read in the same words as for text
        pass
    return path


def _sqlite(url: str, query: str, shown: str, wanted: Wanted) -> Iterator[EncodedTable]:
    """Read with Python's own library: ADBC takes the types of all rows from the first ones."""
    path = _path(url, shown)
    with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
        cursor = connection.execute(query)
        names = [column[0] for column in cursor.description or ()]
        yield from tables(names, batches_of(cursor), shown, wanted)


_OFFLINE = {"autoinstall_known_extensions": "false"}
"""DuckDB would otherwise download what a file or query seems to need, and load it into this process."""


def _duckdb(url: str, query: str, shown: str, wanted: Wanted) -> Iterator[EncodedTable]:
    library = needed("duckdb", shown, "sql")
    needed("pyarrow", shown, "sql")
    with (
        closing(library.connect(str(_path(url, shown)), read_only=True, config=_OFFLINE)) as connection,
        connection.sql(query).to_arrow_reader(ROWS_IN_BATCH) as reader,  # closed first: else the connection blocks
    ):
        yield from arrow_tables(reader, shown, wanted)


def _postgresql(url: str, query: str, shown: str, wanted: Wanted) -> Iterator[EncodedTable]:
    library = needed("adbc_driver_postgresql.dbapi", shown, "sql")
    with library.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(query)
        yield from arrow_tables(cursor.fetch_record_batch(), shown, wanted)


_READERS: Mapping[str, Callable[..., Iterator[EncodedTable]]] = {
    "postgresql": _postgresql,
    "postgres": _postgresql,
    "sqlite": _sqlite,
    "duckdb": _duckdb,
}
