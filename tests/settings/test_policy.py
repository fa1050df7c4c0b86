"""A member's policy: strict defaults, errors about misspelt keys, and every reason in the message."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from fedslim.errors import ConfigurationError, DataError, PolicyError
from fedslim.settings import policy as room
from fedslim.settings.federation_file import write_template
from fedslim.settings.policy import SECTIONS, MemberPolicy, write_policy

ITEMS = {"items.vocabulary_digest": "0" * 64}


@pytest.fixture
def file(tmp_path):
    return write_template(tmp_path / "federation.toml", "hospitals", ["a", "b", "c"], chosen=ITEMS)


@pytest.fixture
def strict(tmp_path):
    return MemberPolicy.find(tmp_path / "nowhere")


def weak(file, table, **keys):
    return replace(file, **{table: replace(getattr(file, table), **keys)})


def test_without_a_file_the_strict_defaults_hold(strict, tmp_path):
    assert not strict.written
    mine = strict.policy
    assert (mine.min_members, mine.variants, mine.min_count, mine.min_members_with) == (3, ("x",), 5, 2)
    assert (mine.share_labels, mine.union, mine.min_transactions, mine.unsigned_keys) == ("none", False, 1, False)
    assert strict.results.table == "labels"
    assert strict.ledger.file == tmp_path / "nowhere" / "ledger.json"


def test_what_init_writes_is_what_holds_without_it(strict, tmp_path):
    made = write_policy(tmp_path / "nowhere" / "policy.toml")
    assert MemberPolicy.find(tmp_path / "nowhere") == made == replace(strict, written=True)
    assert made.path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(DataError, match="already exists"):
        write_policy(made.path)


def test_every_key_is_in_the_file_with_a_comment(tmp_path):
    lines = write_policy(tmp_path / "policy.toml").path.read_text().splitlines()
    for kind in SECTIONS.values():
        for declared in fields(kind):
            place = next(k for k, line in enumerate(lines) if line.startswith(f"{declared.name} = "))
            assert lines[place - 1].startswith("# ")
    assert max(map(len, lines)) <= 120


def test_a_strict_file_is_allowed(strict, file):
    strict.check(file)


@pytest.mark.parametrize(
    ("table", "key", "value", "reason"),
    [
        ("federation", "members", ("a", "b"), "policy.min_members is 3, but federation.members has 2"),
        ("federation", "variant", "so", "policy.variants has x, but federation.variant is so"),
        ("limits", "min_count", 4, "policy.min_count is 5, but limits.min_count is 4"),
        ("limits", "min_members_with", 1, "policy.min_members_with is 2, but limits.min_members_with is 1"),
        ("items", "share_labels", "members", "policy.share_labels is none, but items.share_labels is members"),
        ("items", "vocabulary_digest", None, "policy.union is false, but items.vocabulary_digest is missing"),
    ],
)
def test_what_is_not_allowed_is_told_with_both_keys(strict, file, table, key, value, reason):
    asked = weak(file, table, **{key: value})
    assert strict.reasons(asked) == [reason]
    with pytest.raises(PolicyError) as refused:
        strict.check(asked)
    assert reason in str(refused.value)
    assert str(file.path) in str(refused.value)
    assert refused.value.exit_code == 2  # systemd does not restart the unit then


def test_all_reasons_are_told_at_once(strict, tmp_path):
    file = write_template(tmp_path / "f.toml", "two", ["a", "b"], "so", chosen=ITEMS)
    assert len(strict.reasons(file)) == 4


def test_what_is_allowed_is_allowed(file, tmp_path):
    loose = write_policy(
        tmp_path / "policy.toml",
        policy_min_members=2,
        policy_variants=["x", "so"],
        policy_min_count=1,
        policy_min_members_with=1,
        policy_share_labels="server",
    )
    two = write_template(tmp_path / "f.toml", "two", ["a", "b"], "so", chosen=ITEMS)
    assert loose.reasons(weak(two, "items", share_labels="server")) == []
    assert loose.reasons(file) == []


def test_too_few_transactions(tmp_path):
    policy = write_policy(tmp_path / "policy.toml", policy_min_transactions=10)
    policy.check_transactions(10)
    with pytest.raises(PolicyError, match=r"policy\.min_transactions is 10, but .* 9 transactions"):
        policy.check_transactions(9)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[policy]\nmin_member = 4\n", "policy.min_member: unknown key; did you mean min_members"),
        ("[policy]\nvariants = []\n", "policy.variants: an empty list cannot be used"),
        ('[policy]\nvariants = ["y"]\n', "policy.variants: a list of 1 cannot be used"),
        ("[policy]\nmin_members = 1\n", "policy.min_members: 1 cannot be used; write a whole number from 2"),
        ('[results]\ntable = "all"\n', "results.table: 'all' cannot be used"),
        ("[allow]\n", "allow: this is not a table of a member's policy"),
        ("[policy\n", "not valid TOML"),
    ],
)
def test_a_mistake_is_an_error_and_never_a_default(tmp_path, text, message):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        MemberPolicy.find(tmp_path)
    assert str(refused.value).startswith(f"{path}: {message}")


def test_a_policy_that_others_may_change_is_refused(tmp_path):
    path = write_policy(tmp_path / "policy.toml").path
    path.chmod(0o664)
    with pytest.raises(DataError, match=r"policy\.toml: others may change this policy \(its permissions are 664\)"):
        MemberPolicy.find(tmp_path)


def test_a_policy_that_is_named_must_be_there(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        MemberPolicy.read(tmp_path / "other.toml")
    (tmp_path / room.FILE).symlink_to("gone.toml")
    with pytest.raises(DataError, match="there is no such file"):
        MemberPolicy.find(tmp_path)
