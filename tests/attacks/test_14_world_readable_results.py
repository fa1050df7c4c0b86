"""Attack 14, by a local user: reading a member's result, including the labels of its data.

With the usual umask (022), `codetable.json` and `run.json` had mode 644, and the run folder that `fedslim server` and
`fedslim member` created had mode 755.
"""

from __future__ import annotations

import os
import stat
import sys

import pytest
from deployment import MEMBERS, Deployment

from fedslim.mdl.codetable import CodeTable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="permissions are those of POSIX")


@pytest.fixture
def deployment(tmp_path):
    before = os.umask(0o022)
    made = Deployment(tmp_path)
    yield made
    made.close()
    os.umask(before)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_nobody_else_can_read_what_a_run_leaves(deployment):
    wider = ("server", "south")  # the folders exist already, with results that everybody may read
    for who in wider:
        out = deployment.files.out(who)
        out.mkdir()
        for name in ("codetable.json", "run.json")[: 2 if who == "server" else 1]:
            (out / name).write_text("an old one")
            (out / name).chmod(0o664)
    deployment.files.run()
    for who in ("server", *MEMBERS):
        out = deployment.files.out(who)
        assert mode(out) == (0o755 if who in wider else 0o700)  # an existing folder keeps its mode
        left = {path.name: mode(path) for path in out.iterdir() if path.is_file()}
        assert {mode(path) for path in out.iterdir() if path.is_dir()} <= {0o700}
        assert "codetable.json" in left
        assert set(left.values()) == {0o600}, left


def test_a_mined_table_is_the_users_business(tmp_path):
    """`fedslim mine --out` follows the umask, as other programs do."""
    table = CodeTable(("a", "b"), 3, (3, 2), (1, 0), (((0, 1), 2, 2, 2),))
    before = os.umask(0o022)
    try:
        table.save(tmp_path / "table.json")
        table.save(tmp_path / "private.json", private=True)
    finally:
        os.umask(before)
    assert (mode(tmp_path / "table.json"), mode(tmp_path / "private.json")) == (0o644, 0o600)
    assert CodeTable.load(tmp_path / "private.json") == table
