"""Members with tables and a schema, over the real network: the preparation, then the search."""

from __future__ import annotations

import json
import stat

import pytest
from prepared import MEMBERS, PreparedLoopback, rows_of


def split(rows, members=MEMBERS):
    return {name: rows[k :: len(members)] for k, name in enumerate(members)}


@pytest.fixture
def federation(tmp_path, request):
    made = PreparedLoopback.of(tmp_path, split(rows_of(240)), grace=60.0, **getattr(request, "param", {}))
    yield made
    made.close()


def finished(federation, names=MEMBERS, **data):
    server = federation.start_server()
    members = [federation.start_member(name, data=data.get(name)) for name in names]
    codes = federation.wait(server, *members)
    assert codes == [0] * len(codes), [federation.said(who) for who in ("server", *names)]


def tables(federation, names=MEMBERS):
    return [(federation.out(name) / "codetable.json").read_bytes() for name in names]


def test_every_member_has_the_table_of_all_rows_in_one_place(federation):
    finished(federation)
    assert tables(federation) == [federation.mined()] * len(MEMBERS)
    kept = [federation.out(who) / "preparation.json" for who in ("server", *MEMBERS)]
    assert len({path.read_bytes() for path in kept}) == 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}
    assert not list(federation.folder.glob("out-*/*.journal"))
    variants = [
        json.loads(line)["variant"] for line in (federation.out("east") / "audit.jsonl").open() if '"x"' in line
    ]
    assert variants
