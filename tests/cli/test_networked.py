from __future__ import annotations

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["x", "sa", "so"])
def test_processes_over_tls_find_what_one_process_finds(fedslim, variant):
    ran = fedslim("demo", "--network", "--variant", variant)
    assert ran.code == 0, ran.err
    assert "equal (server" in ran.out
