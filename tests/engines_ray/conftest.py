from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("ray") else ["test_*.py"]  # these need `make test-ray`
