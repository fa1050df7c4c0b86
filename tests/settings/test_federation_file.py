from __future__ import annotations

import json
import re
import stat
import tomllib
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from fedslim.data import ItemSecret, Vocabulary
from fedslim.errors import ConfigurationError, DataError, FedslimError, InputError
from fedslim.mdl.policy import Policy
from fedslim.protocol.messages import Settings
from fedslim.protocol.variant import policy_of
from fedslim.settings import federation_file as config
from fedslim.settings.federation_file import SECTIONS, FederationFile, write_template

ID = "0123456789abcdef" * 2
PATH = Path("/somewhere/federation.toml")
PRINT = "0123456789abcdef"
ITEMS = {"items.secret_fingerprint": PRINT}
FREE = {"width": 1, "min_count": 1, "min_members_with": 1}


def smallest():
    """Return the required keys."""
    return {
        "federation": {"name": "hospitals", "id": ID, "variant": "x", "members": ["north", "south"]},
        "server": {"host": "fed.example.org"},
        "items": {"secret_fingerprint": PRINT},
    }


def toml(tables):
    lines = []
    for section, keys in tables.items():
        lines += [f"[{section}]", *(f"{name} = {json.dumps(value)}" for name, value in keys.items())]
    return "\n".join(lines) + "\n"


def parsed(tables):
    return FederationFile.parse(toml(tables).encode(), PATH)


def with_key(dotted, value):
    tables = smallest()
    section, _, name = dotted.partition(".")
    tables.setdefault(section, {})[name] = value
    return tables


def refused(text):
    with pytest.raises(ConfigurationError) as raised:
        FederationFile.parse(text if isinstance(text, bytes) else text.encode(), PATH)
    message = str(raised.value)
    assert message.startswith(f"{PATH}: ")
    return message.removeprefix(f"{PATH}: ")


# -- what is read ----------------------------------------------------------------------------------------------------


def test_the_smallest_file_has_sensible_defaults():
    file = parsed(smallest())
    assert file.federation.members == ("north", "south")
    assert (file.server.host, file.server.port) == ("fed.example.org", 7443)
    assert file.server.certificates == Path("/somewhere/certificates")
    assert file.items.vocabulary_digest is None
    assert file.items.share_labels == "none"
    assert (file.limits.max_rounds, file.limits.min_count, file.limits.min_members_with) == (20_000, 5, 2)
    assert (file.log.file, file.metrics.port, file.metrics.host) == (None, None, "127.0.0.1")
    settings = file.settings()
    assert settings == Settings(
        "x", masked=True, max_transactions=1 << 40, max_rounds=20_000, min_count=5, min_members_with=2
    )
    assert policy_of(settings) == Policy(min_count=5)
    assert file.limits.width == settings.width == 8


def test_what_the_file_says_reaches_the_protocol():
    tables = smallest()
    tables["items"]["share_labels"] = "members"
    limits = {"max_transactions": 77, "pruning": False, "max_itemset_size": 3, "min_support": 4, "min_count": 6}
    limits |= {"min_members_with": 1, "max_rounds": 9, "width": 7, "effort": 3, "seed": 11}
    tables["limits"] = limits
    settings = parsed(tables).settings()
    assert settings == Settings("x", masked=True, share_labels="members", **limits)
    assert policy_of(settings) == Policy(pruning=False, max_itemset_size=3, min_support=4, min_count=6, width=7)


@pytest.mark.parametrize(("variant", "masked"), [("x", True), ("sa", True), ("so", False)])
def test_only_so_goes_without_masks(variant, masked):
    tables = with_key("federation.variant", variant)
    tables["limits"] = FREE
    file = parsed(tables)
    assert (file.settings().variant, file.settings().masked, file.masked) == (variant, masked, masked)


def test_relative_paths_are_relative_to_the_file(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    path = tmp_path / "sub" / "f.toml"
    path.write_text(toml({**smallest(), "log": {"file": "../a.log"}}))
    monkeypatch.chdir(tmp_path)
    file = FederationFile.read("sub/f.toml")
    assert file.server.certificates == tmp_path / "sub" / "certificates"
    assert file.log.file == tmp_path / "sub" / ".." / "a.log"
    absolute = parsed(with_key("server.certificates", "/etc/fedslim"))
    assert absolute.server.certificates == Path("/etc/fedslim")


@pytest.mark.parametrize("host", ["localhost", "a-b.example.org", "10.0.0.1", "::1", "fe80::1", "X" * 63, "s3.eu"])
def test_hosts(host):
    assert parsed(with_key("server.host", host)).server.host == host


@pytest.mark.parametrize("name", ["a", "0", "a-b", "north--1", "x" * 63])
def test_names_of_members(name):
    assert parsed(with_key("federation.members", [name, "other"])).federation.members == (name, "other")


# -- what is refused -------------------------------------------------------------------------------------------------

WRONG = {
    "text": ["", " a", "a\nb", "\u202e", "x" * 101, 7, 1.5, True, ["a"]],
    "hex": ["", "0" * 31, "0" * 33, ID.upper(), "g" * 32, f"{ID}\n", 7, True, [ID]],
    "choice": ["", "X", "wait", 7, True, ["x"]],
    "members": [
        *(
            "north",
            [],
            ["north"],
            ["a", "a"],
            ["a", ""],
            ["a", "B"],
            ["a", "-b"],
            ["a", "b-"],
            ["a", "b c"],
            ["a", "é"],
        ),
        *(["a", "x" * 64], ["a", 7], ["a", ["b"]], 7, True, ["a", "b\n"], [f"m{k}" for k in range(4097)]),
    ],
    "host": [
        "",
        "a b",
        "a:80",
        "http://a",
        "-a",
        "a-",
        "a..b",
        "1.2.3.999",
        "1.2.3",
        "x" * 64,
        "é.org",
        7,
        True,
        ["a"],
    ],
    "port": [0, -1, 65536, "7443", 1.5, True, [7443]],
    "path": ["", "a\0b", "a\nb", 7, True, ["a"]],
    "switch": [0, 1, "true", "", [True]],
    "count": [0, -1, 1.5, "7", True, [7]],
    "width": [0, -1, 65, 1.5, "7", True, [7]],
    "effort": [0, -1, 9, 1.5, "7", True, [7]],
    "seed": [-1, 1.5, "7", True, [7]],
    "outline": ["x", "10/", "5  5", 7, True, ["5"]],
    "seconds": [-1, -0.5, "7", True, [7], 1e12],
}
KEYS = {
    "federation.name": "text",
    "federation.id": "hex",
    "federation.variant": "choice",
    "federation.members": "members",
    "server.host": "host",
    "server.port": "port",
    "server.certificates": "path",
    "items.vocabulary_digest": "hex",
    "items.secret_fingerprint": "hex",
    "items.share_labels": "choice",
    "schema.digest": "hex",
    "schema.outline": "outline",
    "schema.on_departure": "choice",
    "limits.max_transactions": "count",
    "limits.max_time": "seconds",
    "limits.max_rounds": "count",
    "limits.pruning": "switch",
    "limits.max_itemset_size": "count",
    "limits.min_support": "count",
    "limits.width": "width",
    "limits.effort": "effort",
    "limits.seed": "seed",
    "limits.min_count": "count",
    "limits.min_members_with": "count",
    "timeouts.connect": "seconds",
    "timeouts.answer": "seconds",
    "timeouts.grace": "seconds",
    "timeouts.keepalive": "seconds",
    "log.file": "path",
    "log.level": "choice",
    "metrics.port": "port",
    "metrics.host": "host",
}


def test_every_key_has_wrong_values_to_try():
    assert set(KEYS) == {f"{section}.{each.name}" for section, kind in SECTIONS.items() for each in fields(kind)}


@pytest.mark.parametrize(("dotted", "value"), [(key, bad) for key, kind in KEYS.items() for bad in WRONG[kind]])
def test_the_error_about_a_wrong_value_names_the_key_and_what_is_allowed(dotted, value):
    message = refused(toml(with_key(dotted, value)))
    assert message.startswith(f"{dotted}: ")
    assert "; write " in message


@pytest.mark.parametrize("dotted", list(KEYS))
@pytest.mark.parametrize("value", ["1979-05-27", "nan", "inf", "-inf", "{a = 1}", "0x" + "f" * 5000, "[[1]]"])
def test_values_that_only_toml_has(dotted, value):
    tables = smallest()
    section, _, name = dotted.partition(".")
    tables.setdefault(section, {})[name] = "@"
    message = refused(toml(tables).replace('"@"', value))
    assert message.startswith(f"{dotted}: ")
    assert len(message) < 300


@pytest.mark.parametrize(
    ("dotted", "value", "message"),
    [
        ("federation.members", ["a", "b", "a"], "'a' is listed twice; write each member once"),
        ("federation.members", ["a", "Bo"], "'Bo' cannot be used; write 1 to 63 characters from a-z, 0-9 and -"),
        ("federation.members", ["a"], "a list of 1 cannot be used; write 2 to 4096 members"),
        ("federation.variant", "y", '\'y\' cannot be used; write "x" or "sa" or "so"'),
        ("server.port", 70000, "70000 cannot be used; write a whole number from 1 to 65535"),
        ("limits.max_time", 0, "0 cannot be used; write a number of seconds from 0.001 to 31622400"),
        ("limits.pruning", 1, "1 cannot be used; write true or false"),
        ("limits.width", 65, "65 cannot be used; write a whole number from 1 to 64"),
        ("limits.effort", 9, "9 cannot be used; write a whole number from 1 to 8"),
    ],
)
def test_messages(dotted, value, message):
    assert refused(toml(with_key(dotted, value))).startswith(f"{dotted}: {message}")


@pytest.mark.parametrize("dotted", ["federation.name", "federation.id", "federation.variant", "federation.members"])
def test_a_missing_key_is_an_error(dotted):
    tables = smallest()
    section, _, name = dotted.partition(".")
    del tables[section][name]
    assert refused(toml(tables)) == f"{dotted}: missing; add {name} = … below [{section}]"


def test_an_empty_file_lacks_the_first_key():
    assert refused("").startswith("federation.name: missing")


@pytest.mark.parametrize(
    ("dotted", "close"),
    [
        ("limits.max_round", "max_rounds"),
        ("limits.maxtime", "max_time"),
        ("server.hots", "host"),
        ("items.vocabulary", "vocabulary_digest"),
        ("timeouts.keep_alive", "keepalive"),
    ],
)
def test_the_error_about_a_misspelt_key_suggests_another(dotted, close):
    message = refused(toml(with_key(dotted, 1)))
    assert message.startswith(f"{dotted}: unknown key; did you mean ")
    assert close in message


def test_the_error_about_a_key_like_no_other_lists_the_known_ones():
    assert refused(toml(with_key("server.zzz", 1))).endswith("use one of host, port, certificates")


def test_misspelt_tables_and_keys_outside_of_tables():
    text = toml(smallest())
    assert refused(text + "[limit]\n").startswith(
        "limit: this is not a table of a federation file; did you mean limits?"
    )
    assert refused(text + '[lost_member]\naction = "wait-then-stop"\n').startswith(
        "lost_member: this is not a table of"
    )
    assert refused("port = 1\n" + text).startswith("port: this is not a top-level key")
    assert refused('log = "x"\n' + text).startswith("log: 'x' cannot be used; write a table: [log]")
    assert refused(text + "[[log]]\n").startswith("log: a list of 1 cannot be used; write a table")


@pytest.mark.parametrize("variant", ["sa", "so"])
@pytest.mark.parametrize(
    ("name", "value", "free"),
    [
        ("pruning", False, "write pruning = true"),
        ("max_itemset_size", 5, "leave it out"),
        ("min_support", 2, "write min_support = 1"),
        ("width", 8, "write width = 1"),
        ("width", None, "write width = 1"),
        ("min_count", 5, "write min_count = 1"),
        ("min_count", None, "write min_count = 1"),
        ("min_members_with", None, "write min_members_with = 1"),
        ("effort", 2, "write effort = 1"),
        ("seed", 3, "write seed = 0"),
    ],
)
def test_a_limit_that_the_variant_does_not_support_is_refused(variant, name, value, free):
    tables = with_key("federation.variant", variant)
    tables["limits"] = dict(FREE)
    assert parsed(tables).federation.variant == variant
    if value is None:
        del tables["limits"][name]  # its default is not supported either
    else:
        tables["limits"][name] = value
    message = f"limits.{name}: {variant} does not support it, only x does; {free}, or change federation.variant"
    assert refused(toml(tables)) == message


def test_min_members_with_is_at_most_the_number_of_members():
    assert parsed(with_key("limits.min_members_with", 2)).limits.min_members_with == 2
    message = "limits.min_members_with: 3 cannot be used; write at most 2"
    assert refused(toml(with_key("limits.min_members_with", 3))).startswith(message)


def test_a_file_without_a_secret_fingerprint_or_vocabulary_is_refused():
    """Files of older releases may lack both; members with different secrets would have no id in common, unnoticed."""
    tables = smallest()
    del tables["items"]
    message = refused(toml(tables))
    assert message.startswith("items.secret_fingerprint: missing, so members with different secrets")
    assert "`fedslim vocabulary show members.secret`" in message
    tables["items"] = {"vocabulary_digest": "a" * 64}
    assert parsed(tables).items.secret_fingerprint is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"[federation\n", "not valid TOML: "),
        (b"a = 1\na = 2\n", "not valid TOML: "),
        (b"\n\n# \xff\n", "line 3 is not UTF-8"),
        (b"a = " + b"9" * 5000, "not valid TOML: "),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"#" * (1 << 19) + b"#", "this is not a federation file: it is larger than 524,288 bytes"),
        (b"federation" + b".a" * 100 + b" = 1", "federation.a: unknown key"),
        (b"\na" + b".a" * 200_000 + b" = 1", "line 2 has more than 100 dots"),
        (b"federation = {name = {" + b"a." * 90 + b"a = 1}}", "federation.name: a table cannot be used"),
    ],
)
def test_bytes_that_are_not_a_federation_file(data, message):
    assert refused(data).startswith(message)


def test_comments_may_have_any_number_of_dots():
    text = f"  # {'.' * 1000}\n{toml(smallest())}"
    assert FederationFile.parse(text.encode(), PATH) == parsed(smallest())


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        FederationFile.read(tmp_path / "nowhere")
    with pytest.raises(DataError, match="this is a folder"):
        FederationFile.read(tmp_path)
    with pytest.raises(DataError, match="NUL"):
        FederationFile.read("a\0b")


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(1 << 70), 1 << 70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
    st.sampled_from(["x", "so", ID, "north", "localhost"]),
)
VALUES = st.one_of(SCALARS, st.lists(SCALARS, max_size=3))
NAMES = st.one_of(
    st.sampled_from(sorted({each.name for kind in SECTIONS.values() for each in fields(kind)})),
    st.text("abcdefgh_", min_size=1, max_size=8),
)


@given(st.dictionaries(st.sampled_from([*SECTIONS, "other"]), st.dictionaries(NAMES, VALUES, max_size=4), max_size=4))
def test_any_tables_give_a_file_or_a_configuration_error(tables):
    merged = smallest()
    for section, keys in tables.items():
        merged[section] = {**merged.get(section, {}), **keys}
    text = toml(merged).replace("\x7f", "")
    try:
        tomllib.loads(text)
    except ValueError:
        return  # JSON writes characters beyond U+FFFF as surrogate pairs, which TOML does not allow
    try:
        file = FederationFile.parse(text.encode(), PATH)
    except ConfigurationError as error:
        assert str(error).startswith(f"{PATH}: ")  # noqa: PT017  # both outcomes are fine
    else:
        assert len(file.digest()) == 32


@given(st.binary(max_size=300))
def test_any_bytes_give_a_configuration_error(data):
    with pytest.raises(ConfigurationError):
        FederationFile.parse(data, PATH)


@given(st.data())
def test_a_damaged_file_gives_a_file_or_a_configuration_error(data):
    text = toml(smallest()).encode()
    place = data.draw(st.integers(0, len(text)))
    damaged = text[:place] + data.draw(st.binary(max_size=3)) + text[place + data.draw(st.integers(0, 3)) :]
    try:
        FederationFile.parse(damaged, PATH)
    except FedslimError as error:
        assert isinstance(error, ConfigurationError)  # noqa: PT017  # both outcomes are fine


# -- what must be identical everywhere -------------------------------------------------------------------------------


def test_the_digest_covers_only_what_must_be_identical():
    file = parsed(smallest())
    tables = smallest()
    tables["federation"]["members"].reverse()
    tables["server"] = {"host": "10.0.0.1", "port": 1, "certificates": "elsewhere"}
    tables["timeouts"] = {"answer": 5, "grace": 0}
    tables["log"] = {"file": "a.log", "level": "debug"}
    tables["metrics"] = {"port": 99}
    tables["limits"] = {"pruning": True}
    elsewhere = FederationFile.parse(("# words\n" + toml(tables)).encode(), Path("b.toml"))
    assert elsewhere.digest() == file.digest()
    assert len(file.digest()) == 32


OTHER = {
    "federation.name": "clinics",
    "federation.id": ID[::-1],
    "federation.variant": "sa",
    "federation.members": ["north", "west"],
    "items.vocabulary_digest": "a" * 64,
    "items.secret_fingerprint": "a" * 16,
    "items.share_labels": "members",
    "schema.on_departure": "continue",
    "limits.max_transactions": 1000,
    "limits.max_time": 60,
    "limits.max_rounds": 60,
    "limits.pruning": False,
    "limits.max_itemset_size": 5,
    "limits.min_support": 5,
    "limits.width": 7,
    "limits.effort": 2,
    "limits.seed": 5,
    "limits.min_count": 4,
    "limits.min_members_with": 1,
}


def test_every_agreed_key_changes_the_digest():
    agreed = {key for key in KEYS if key.partition(".")[0] in config.AGREED}
    assert set(OTHER) == agreed - {"schema.digest", "schema.outline"}  # only both together
    free = with_key("federation.variant", "sa") | {"limits": FREE}
    files = [free if key == "federation.variant" else with_key(key, value) for key, value in OTHER.items()]
    digests = {parsed(tables).digest() for tables in (smallest(), smallest() | {"limits": FREE}, *files)}
    assert len(digests) == 2 + len(OTHER)
    schemas = [{"digest": "a" * 64, "outline": "5"}, {"digest": "b" * 64, "outline": "5"}]
    schemas.append({"digest": "a" * 64, "outline": "6"})
    assert len({parsed(smallest() | {"schema": one}).digest() for one in schemas} - digests) == len(schemas)


@pytest.mark.parametrize(
    ("schema", "items", "told"),
    [
        ({"digest": "a" * 64}, {}, "schema.outline: missing"),
        ({"outline": "5"}, {}, "schema.digest: missing"),
        (
            {"digest": "a" * 64, "outline": "5"},
            {"vocabulary_digest": "a" * 64},
            "items.vocabulary_digest: with a schema",
        ),
    ],
)
def test_a_schema_comes_with_its_outline_and_without_a_vocabulary(schema, items, told):
    tables = smallest()
    assert told in refused(toml(tables | {"schema": schema, "items": {**tables["items"], **items}}))


def test_the_digest_does_not_depend_on_how_a_number_is_written():
    one, other = (parsed(with_key("limits.max_time", time)) for time in (60, 60.0))
    assert one.digest() == other.digest()


def test_the_digest_does_not_change_between_releases():
    # Members with different releases compare digests: if this changes, change AGREEMENT too.
    assert parsed(smallest()).digest().hex() == "ced8eb45a4863f97e70538b904fb470974f9ed93fb0e4fff5ea96f4d7bc4f619"


# -- what a member checks --------------------------------------------------------------------------------------------


def test_check_member():
    file = parsed(smallest())
    file.check_member("north")
    with pytest.raises(ConfigurationError, match=r"members: 'nort' is not a member; did you mean north\?"):
        file.check_member("nort")
    with pytest.raises(ConfigurationError, match="'zz' is not a member; use one of north, south"):
        file.check_member("zz")


def test_secret_and_vocabulary_must_be_those_agreed_on():
    secret, other = ItemSecret.from_random(bytes(32)), ItemSecret.from_random(b"1" * 32)
    agreed, another = Vocabulary.of("ab", secret), Vocabulary.of("abc", secret)
    open_file = parsed(with_key("items.secret_fingerprint", secret.fingerprint))
    open_file.check_items(secret, None)
    with pytest.raises(ConfigurationError, match="vocabulary_digest is not set, but the vocabulary of this member has"):
        open_file.check_items(secret, agreed)
    items = {"vocabulary_digest": agreed.digest.hex(), "secret_fingerprint": secret.fingerprint}
    file = parsed({**smallest(), "items": items})
    file.check_items(secret, agreed)
    with pytest.raises(ConfigurationError, match=r"secret_fingerprint is .*, but this member's secret has"):
        file.check_items(other, agreed)
    with pytest.raises(ConfigurationError, match=f"vocabulary_digest is {agreed.digest.hex()}, but the vocabulary of"):
        file.check_items(secret, another)
    with pytest.raises(ConfigurationError, match="this member was given no vocabulary"):
        file.check_items(secret, None)


# -- the template ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_the_template_is_valid_and_is_what_was_asked_for(tmp_path, variant):
    path = tmp_path / "new" / "f.toml"
    made = write_template(path, 'Ü "quoted" \\ 😀', ["a", "b", "c"], variant, host="::1", port=99, chosen=ITEMS)
    assert FederationFile.read(path) == made
    assert made.federation.name == 'Ü "quoted" \\ 😀'
    assert (made.federation.members, made.federation.variant) == (("a", "b", "c"), variant)
    assert (made.server.host, made.server.port) == ("::1", 99)
    assert re.fullmatch("[0-9a-f]{32}", made.federation.id)


def test_the_template_leaves_everything_else_at_its_default(tmp_path):
    made = write_template(
        tmp_path / "f.toml",
        "hospitals",
        ["north", "south"],
        host="fed.example.org",
        chosen={"federation.id": ID, **ITEMS},
    )
    assert replace(made, path=PATH, server=parsed(smallest()).server) == parsed(smallest())


def test_the_template_has_every_key_with_a_comment_and_no_long_line(tmp_path):
    write_template(tmp_path / "f.toml", "hospitals", ["north", "south"], chosen=ITEMS)
    lines = (tmp_path / "f.toml").read_text().splitlines()
    places = [k for k, line in enumerate(lines) if re.match(r"(# )?[a-z_]+ = ", line)]
    assert len(places) == len(KEYS)
    assert all(lines[k - 1].startswith("# ") for k in places)
    assert max(map(len, lines)) <= 120


def test_commented_out_keys_of_the_template_are_valid(tmp_path):
    write_template(tmp_path / "f.toml", "hospitals", ["north", "south"], chosen=ITEMS)
    text = re.sub(r"(?m)^# (?!digest|outline)([a-z_]+ = )", r"\1", (tmp_path / "f.toml").read_text())
    file = FederationFile.parse(text.encode(), PATH)
    assert None not in {file.limits.max_time, file.log.file, file.metrics.port, file.items.vocabulary_digest}


def test_ids_are_made_at_random(tmp_path):
    ids = {write_template(tmp_path / name, "n", ["a", "b"], chosen=ITEMS).federation.id for name in ("1", "2")}
    assert len(ids) == 2


def test_nothing_is_overwritten(tmp_path):
    write_template(tmp_path / "f.toml", "one", ["a", "b"], chosen=ITEMS)
    before = (tmp_path / "f.toml").read_bytes()
    with pytest.raises(DataError, match="already exists"):
        write_template(tmp_path / "f.toml", "two", ["a", "b"], chosen=ITEMS)
    assert (tmp_path / "f.toml").read_bytes() == before
    assert len(list(tmp_path.iterdir())) == 1


def test_the_template_has_the_usual_permissions(tmp_path):
    (tmp_path / "usual").touch()
    write_template(tmp_path / "f.toml", "one", ["a", "b"], chosen=ITEMS)
    assert stat.S_IMODE((tmp_path / "f.toml").stat().st_mode) == stat.S_IMODE((tmp_path / "usual").stat().st_mode)


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        ({"name": ""}, "federation.name"),
        ({"name": "\ud800"}, "federation.name"),
        ({"name": "a\nb"}, "federation.name"),
        ({"members": ["a"]}, "federation.members"),
        ({"members": ["a", 'b"']}, "federation.members"),
        ({"variant": "y"}, "federation.variant"),
        ({"host": "a b"}, "server.host"),
        ({"port": 0}, "server.port"),
        ({"chosen": {"federation.id": "zz", **ITEMS}}, "federation.id"),
        ({"chosen": {}}, "items.secret_fingerprint"),
        ({"chosen": {"items.secret_fingerprint": "x"}}, "items.secret_fingerprint"),
    ],
)
def test_what_cannot_be_used_is_not_written(tmp_path, asked, key):
    with pytest.raises(ConfigurationError, match=f"f.toml: {key}: "):
        write_template(tmp_path / "f.toml", **{"name": "n", "members": ["a", "b"], "chosen": ITEMS, **asked})
    assert not list(tmp_path.iterdir())


@given(st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3), st.text(max_size=8))
def test_any_values_give_a_file_or_an_input_error(tmp_path_factory, name, members, host):
    path = tmp_path_factory.mktemp("f") / "f.toml"
    try:
        made = write_template(path, name, members, host=host, chosen=ITEMS)
    except InputError:
        assert not path.exists()
    else:
        assert FederationFile.read(path) == made
        assert made.federation.name == name
