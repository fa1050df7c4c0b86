"""Attack 8: weak defaults.

Attacker: nobody; the victims are all who accept the defaults. Before, `fedslim federation init` wrote two members, who
can compute each other's counts from sums, and the union of all items; `federation check` gave no warnings; and outside
NVFlare a member had no policy: it took part in whatever the federation file asked for, even `so`.

Now the defaults are strict, every weak setting gets a warning, and each member has a policy that is checked before it
reads anything. Without a policy file, the strictest values apply.
"""

from __future__ import annotations

import json

import pytest

from fedslim.cli import main
from fedslim.settings.federation_file import FederationFile, weaknesses, write_template
from fedslim.settings.policy import MemberPolicy, write_policy

PRINT = "0123456789abcdef"
ITEMS = {"items.secret_fingerprint": PRINT}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def member(file, *more):
    """Start a member that has no certificates, no secret and no data yet."""
    return main(["member", str(file), "--name", "a", "--data", "none.csv", "--secret", "none.secret", *more])


def test_what_is_offered_is_strong():
    assert main(["federation", "init", "--fingerprint", PRINT]) == 0
    file = FederationFile.read("federation.toml")
    assert len(file.federation.members) == 3
    assert (file.federation.variant, file.limits.min_count, file.limits.min_members_with) == ("x", 5, 2)
    assert file.limits.max_rounds == 20_000
    assert [each.key for each in weaknesses(file)] == ["items.vocabulary_digest"]
    # Without an agreed vocabulary the server learns who has which ids, so a member must allow that explicitly.
    assert MemberPolicy.find("certificates").reasons(file) == [
        "policy.union is false, but items.vocabulary_digest is missing"
    ]


def test_two_members_are_not_taken_by_accident(capsys, tmp_path):
    assert main(["federation", "init", "--fingerprint", PRINT, "--members", "a,b"]) == 2
    assert "each could subtract its own counts from the result" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_everything_that_weakens_a_federation_is_warned_of(capsys):
    write_template("weak.toml", "weak", ["a", "b"], "so", chosen={**ITEMS, "items.share_labels": "server"})
    assert main(["federation", "check", "weak.toml"]) == 0
    told = capsys.readouterr().err
    keys = ("federation.variant", "federation.members", "items.vocabulary_digest", "items.share_labels")
    for key in (*keys, "limits.min_count", "limits.min_members_with"):
        assert f"fedslim: warning: {key}: " in told
    assert main(["federation", "check", "weak.toml", "--strict", "--json"]) == 2
    assert len(json.loads(capsys.readouterr().out)["warnings"]) == 6


@pytest.mark.parametrize(
    ("members", "variant", "chosen", "reason"),
    [
        ("ab", "x", {}, "policy.min_members is 3, but federation.members has 2"),
        ("abc", "so", {}, "policy.variants has x, but federation.variant is so"),
        ("abc", "sa", {}, "policy.variants has x, but federation.variant is sa"),
        ("abc", "x", {"limits.min_count": 1}, "policy.min_count is 5, but limits.min_count is 1"),
        ("abc", "x", {"limits.min_members_with": 1}, "policy.min_members_with is 2, but limits.min_members_with is 1"),
        ("abc", "x", {"items.share_labels": "server"}, "policy.share_labels is none"),
    ],
)
def test_a_member_without_a_policy_takes_part_in_nothing_weak(capsys, tmp_path, members, variant, chosen, reason):
    write_template("f.toml", "weak", list(members), variant, chosen={**ITEMS, **chosen})
    assert member("f.toml") == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert reason in told
    assert [path.name for path in tmp_path.iterdir()] == ["f.toml"]  # nothing was read, created or written


def test_a_member_that_allows_it_takes_part(capsys):
    write_template("f.toml", "weak", ["a", "b"], "so", chosen=ITEMS)
    loose = {"policy_min_members": 2, "policy_variants": ["so"], "policy_min_count": 1, "policy_min_members_with": 1}
    loose["policy_union"] = True
    write_policy("certificates/policy.toml", **loose)
    assert member("f.toml") == 2
    assert "certificates/certificate.pem: there is no such file" in capsys.readouterr().err
    # … and a policy given by option replaces that one.
    write_policy("strict.toml")
    assert member("f.toml", "--policy", "strict.toml") == 2
    assert "strict.toml does not allow" in capsys.readouterr().err
    assert member("f.toml", "--policy", "none.toml") == 2
    assert "none.toml: there is no such file" in capsys.readouterr().err
