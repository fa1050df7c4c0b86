"""Write a new federation file: every key with its help text, as `federation_file.py` declares them."""

from __future__ import annotations

import secrets
from dataclasses import fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fedslim.data.atomic import creating, make_folder_for
from fedslim.data.textstream import real_path
from fedslim.settings.federation_file import ABOUT, FederationFile
from fedslim.settings.federation_keys import DEFAULT_PORT, ID_BYTES, ON_BY_DEFAULT, ONLY_X, SECTIONS
from fedslim.toml.keys import template
from fedslim.toml.keys import value as value_of

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence


def write_template(  # noqa: PLR0913  # every setting that has no default
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
    """Write a new, valid federation file with every key and its help text.

    Args:
        path: The file to write; it must not exist yet.
        name: The name of the federation.
        members: The names of its members.
        variant: `x`, `sa` or `so`.
        host: The server's host name or address.
        port: The server's port.
        identity: The federation's id; random by default.
        chosen: Values of other keys, by dotted name. `items.secret_fingerprint` or `items.vocabulary_digest` is
            required.

    Raises:
        ConfigurationError: A value is not allowed; the message names its key.
        DataError: The file exists. It is kept, because signatures may be bound to its id.
    """
    path = real_path(path)
    free = {} if variant == "x" else {f"limits.{limit}": ONLY_X[limit] for limit in ON_BY_DEFAULT}
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
        section, _, key_name = dotted.partition(".")
        declared = next(field for field in fields(SECTIONS[section]) if field.name == key_name)
        value_of(path, dotted, declared, {key_name: value})
    text = template(SECTIONS, given, ABOUT)
    made = FederationFile.parse(text.encode(), path)
    make_folder_for(path)
    with creating(path, private=False) as stream:
        stream.write(text.encode())
    return made
