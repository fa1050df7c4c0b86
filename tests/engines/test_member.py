"""What a site allows is in its own file, and checked before anything is answered."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.padding import MGF1, PSS
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from startup_kits import certificate, make_kits

from fedslim.engines.member import SiteMember
from fedslim.engines.server import JOIN, WORKING
from fedslim.engines.simulator import prepare_folder
from fedslim.engines.startup_kit import kit_check, kit_trust
from fedslim.errors import CertificateError, DataError, UntrustedError
from fedslim.protocol import framing, messages as m
from fedslim.safeguards.ledger import AnswerLedger, Snapshot
from fedslim.settings.site_file import SiteFile, write_site_file
from fedslim.trust.identity import Statement


@pytest.fixture
def place(tmp_path, hospitals):
    """A complete folder of a site, which tests can change."""

    class Place:
        folder = tmp_path
        local = tmp_path / "workspace" / "local"
        file = local / "fedslim-site.north.toml"
        policy = tmp_path / "sites" / "north" / "policy.toml"
        federation = prepare_folder(tmp_path, hospitals, "x", {})

        def change(self, **keys):
            """Change keys in the site's file or its policy."""
            for key, value in keys.items():
                found = 0
                for path in (self.file, self.policy):
                    text, n = re.subn(rf"(?m)^#? ?{key} = .*$", f"{key} = {value}", path.read_text("utf-8"))
                    path.write_text(text, "utf-8")
                    found += n
                assert found == 1

        def member(self, name="north", kit=None):
            return SiteMember(self.local, name, kit=kit or tmp_path, job="job 1")

        def joined(self, **more):
            member = self.member(**more)
            try:
                return framing.from_member(member.answer(JOIN)[4:])
            finally:
                member.close()

    return Place()


def test_a_site_joins_and_its_log_says_so(place):
    assert isinstance(place.joined(), m.Join)
    text = (place.folder / "sites" / "north.jsonl").read_text("utf-8")
    assert '"member":"north"' in text
    assert '"kind":"Join"' in text
    assert '"peer":"NVFlare job job 1"' in text


@pytest.mark.parametrize(
    ("keys", "refusal"),
    [
        ({"variants": '["sa", "so"]'}, "policy.variants has sa, so, but federation.variant is x"),
        ({"min_members": "4"}, "policy.min_members is 4, but federation.members has 3"),
        ({"min_count": "5"}, "policy.min_count is 5, but limits.min_count is 1"),
        ({"min_count": "5", "min_members": "4"}, "has 3; policy.min_count is 5"),
        ({"name": '"south"'}, "NVFlare calls this site 'north', but its own file says 'south'"),
    ],
)
def test_what_a_site_does_not_allow_it_refuses_and_the_server_is_told_why(place, keys, refusal):
    place.change(**keys)
    said = place.joined()
    assert isinstance(said, m.Abort)
    assert refusal in said.reason


@pytest.mark.parametrize(
    "keys",
    [
        {"source": '"/no/such/secret-data.csv"'},
        {"secret": '"gone"'},
        {"unsigned_keys": "false"},
        {"variants": "[]"},
        {"min_transactions": "10_000"},
        {"policy": '"no-policy.toml"'},
    ],
)
def test_a_site_that_cannot_go_on_tells_the_server_nothing_about_itself(place, keys, logged):
    place.change(**keys)
    said = place.joined()
    assert isinstance(said, m.Abort)
    assert said.reason == "it cannot go on; its own log says why"
    # NVFlare's logs may be sent to the server, so they only say where the reason is.
    assert logged.messages == [f"this site cannot continue; see {place.local / 'fedslim-site.log'}"]
    reason = (place.local / "fedslim-site.log").read_text("utf-8")
    assert re.search(
        r"secret-data.csv|gone|rootCA.pem|policy.variants|min_transactions is 10000|no-policy.toml", reason
    )
    assert (place.local / "fedslim-site.log").stat().st_mode & 0o077 == 0


def test_what_the_server_says_forges_no_line_in_the_log_of_a_site(place):
    member = place.member()
    member.note("the server says: x\n2026-01-01T00:00:00Z job 2: all is well\x1b[2J\u202e")
    member.close()
    first, second = (place.local / "fedslim-site.log").read_text("utf-8").splitlines()
    assert first.endswith(" job job 1: the server says: x")
    assert second == "    2026-01-01T00:00:00Z job 2: all is well\ufffd[2J\ufffd"


def test_nothing_is_answered_before_the_site_was_asked_to_join(place):
    member = place.member()
    said = framing.from_member(member.answer(framing.to_bytes(m.AskUsages(1)).data)[4:])
    end = member.answer(framing.to_bytes(m.Abort("over")).data)
    member.close()
    assert isinstance(said, m.Abort)
    assert "before it asked this site to join" in said.reason
    assert end == b""  # an abort needs no answer: the server would answer it again


@pytest.mark.parametrize("frame", [b"\0\0", b"\xff\xff\xff\xff", b"\0\0\0\5hello", WORKING])
def test_bytes_that_are_no_frame_are_refused(place, frame):
    member = place.member()
    member.answer(JOIN)
    said = member.answer(frame)
    member.close()
    assert isinstance(framing.from_member(said[4:]), m.Join if frame == WORKING else m.Abort)


def test_a_sites_file_has_every_key_and_reads_back(tmp_path):
    made = write_site_file(tmp_path / "fedslim-site.toml", "north")
    assert SiteFile.find(tmp_path, "north") == made
    assert made.policy().policy.variants == ("x",)  # where there is no policy, the strict defaults hold
    assert not made.policy().policy.unsigned_keys
    with pytest.raises(DataError):
        write_site_file(tmp_path / "fedslim-site.toml", "north")


# -- what a site remembers -------------------------------------------------------------------------------------------


def test_a_site_that_refused_the_server_joins_again_only_after_a_wait(place):
    """Also within a job: otherwise a server could try one roster after another and learn from each refusal."""
    member = place.member()
    join = framing.from_member(member.answer(JOIN)[4:])
    assert isinstance(join, m.Join)
    keys = [join.key, bytes(32)]
    roster = m.Roster(bytes(16), place.federation.settings(), ["north", "nobody"], keys, b"", 0, [b""] * 2, 0)
    said = [framing.from_member(member.answer(frame)[4:]) for frame in (framing.to_bytes(roster).data, JOIN, JOIN)]
    member.close()
    assert "with others it shares nothing" in said[0].reason
    for again in (*said[1:], place.joined()):
        assert re.search(r"refused each other \(1 time\); the member reconnects in (30|29) s", again.reason)
    assert str(place.folder) not in again.reason
    assert "refusals.json to take part at once" in (place.local / "fedslim-site.log").read_text("utf-8")
    (place.policy.parent / "refusals.json").unlink()
    assert isinstance(place.joined(), m.Join)


def test_what_a_site_warns_of_stays_with_it(place, logged):
    """NVFlare's logs go to the server, which must not learn how many transactions a site has."""
    ledger = AnswerLedger(place.policy.parent / "ledger.json")
    ledger.record(place.federation, Snapshot("ab" * 32, 123), bytes(16), now=datetime.now(UTC))
    assert isinstance(place.joined(), m.Join)
    assert logged.messages == []
    assert "(123 transactions" in (place.local / "fedslim-site.log").read_text("utf-8")


def test_a_ledger_that_cannot_be_used_keeps_a_site_out(place):
    (place.policy.parent / "ledger.json").write_text("{", "utf-8")
    assert place.joined().reason == "it cannot go on; its own log says why"
    assert "this member's ledger is damaged" in (place.local / "fedslim-site.log").read_text("utf-8")


# -- startup kits ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kits(tmp_path_factory):
    return make_kits(tmp_path_factory.mktemp("kits"), ("north", "south"), expired=("west",))


@pytest.fixture
def trusts(kits, place):
    return {name: kit_trust(kits / name, place.federation, name) for name in ("north", "south")}


def test_a_kits_signature_is_believed_by_the_others(trusts):
    north, south = trusts["north"], trusts["south"]
    south.check("agreement key", "north", b"key", north.certificate, north.sign("agreement key", b"key"))


def test_a_server_checks_keys_as_the_members_will(trusts, kits, place, tmp_path):
    north, server = trusts["north"], kit_check(kits / "server", place.federation)
    server.check("agreement key", "north", b"key", north.certificate, north.sign("agreement key", b"key"))
    with pytest.raises(UntrustedError, match="the signature of 'north'"):
        server.check("agreement key", "north", b"another", north.certificate, north.sign("agreement key", b"key"))
    assert kit_check(tmp_path / "nothing", place.federation) is None


def test_a_lying_server_cannot_put_its_own_key_in(trusts, kits, place):
    north, south = trusts["north"], trusts["south"]
    with pytest.raises(UntrustedError, match="the signature of 'north' does not match this agreement key"):
        south.check("agreement key", "north", b"another", north.certificate, north.sign("agreement key", b"key"))
    with pytest.raises(UntrustedError, match="belongs to 'south'"):
        north.check("agreement key", "north", b"key", south.certificate, south.sign("agreement key", b"key"))
    own = certificate("north", "project", rsa.generate_private_key(65537, 2048), rsa.generate_private_key(65537, 2048))
    with pytest.raises(UntrustedError, match="not issued by this NVFlare project's root CA"):
        south.check("agreement key", "north", b"key", own.public_bytes(Encoding.DER), b"")
    with pytest.raises(UntrustedError, match="'server' is not a member"):
        south.check("agreement key", "server", b"key", north.certificate, north.sign("agreement key", b"key"))
    with pytest.raises(CertificateError, match="belongs to 'server'"):
        kit_trust(kits / "server", place.federation, "north")


def test_a_signature_on_something_else_that_the_key_signs_is_no_use(trusts, kits, place):
    """NVFlare signs what its server sends with the same key; a statement of fedslim signed that way must be refused."""
    north, south = trusts["north"], trusts["south"]
    federation = bytes.fromhex(place.federation.federation.id) + place.federation.digest()
    key = load_pem_private_key((kits / "north" / "client.key").read_bytes(), None)
    sha = hashes.SHA256()
    for what in ("agreement key", "roster"):
        statement = Statement(what, federation, "north", b"key")
        for purpose in (b"\0fedslim over NVFlare: ", b""):
            signature = key.sign(purpose + statement.encoded, PSS(MGF1(sha), PSS.DIGEST_LENGTH), sha)
            if purpose:
                south.check(what, "north", b"key", north.certificate, signature)
                continue
            with pytest.raises(UntrustedError, match="'north'"):
                south.check(what, "north", b"key", north.certificate, signature)


def test_members_with_different_files_do_not_believe_each_other(trusts, kits, tmp_path, hospitals):
    other = prepare_folder(tmp_path / "other", hospitals, "sa", {})
    stranger = kit_trust(kits / "north", other, "north")
    with pytest.raises(UntrustedError, match="different federation files"):
        trusts["south"].check(
            "agreement key", "north", b"key", stranger.certificate, stranger.sign("agreement key", b"key")
        )


def test_a_kit_that_is_out_of_date_or_incomplete_is_no_use(kits, place, tmp_path):
    with pytest.raises(CertificateError, match="has expired"):
        kit_trust(kits / "west", place.federation, "west")
    with pytest.raises(DataError, match=r"rootCA.pem"):
        kit_trust(tmp_path, place.federation, "north")


def test_a_site_signs_its_key_with_its_kit(place, kits, trusts):
    place.change(unsigned_keys="false")
    said = place.joined(kit=kits / "north")
    trusts["south"].check("agreement key", "north", said.key, said.certificate, said.signature)
