from __future__ import annotations

import pytest

pytest.importorskip("ray", reason="Ray is not installed: make test-ray")
