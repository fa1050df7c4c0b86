"""What a code table is good for: scoring, explaining, comparing, classifying, completing, rules. Nothing is sent."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedslim.uses.association import rules as rules
    from fedslim.uses.classifier import SlimClassifier as SlimClassifier
    from fedslim.uses.comparing import Differences as Differences
    from fedslim.uses.comparing import compare_data as compare_data
    from fedslim.uses.comparing import compare_site as compare_site
    from fedslim.uses.comparing import compare_slices as compare_slices
    from fedslim.uses.comparing import compare_tables as compare_tables
    from fedslim.uses.completing import complete as complete
    from fedslim.uses.explaining import Explanation as Explanation
    from fedslim.uses.explaining import explain as explain
    from fedslim.uses.outliers import SlimOutlierDetector as SlimOutlierDetector
    from fedslim.uses.scoring import Scores as Scores
    from fedslim.uses.scoring import score as score

# Imported on first use: only the estimators need scikit-learn.
_NAMES = {
    "association": ("rules",),
    "classifier": ("SlimClassifier",),
    "comparing": ("Differences", "compare_data", "compare_site", "compare_slices", "compare_tables"),
    "completing": ("complete",),
    "explaining": ("Explanation", "explain"),
    "outliers": ("SlimOutlierDetector",),
    "scoring": ("Scores", "score"),
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _NAMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module 'fedslim.uses' has no attribute {name!r}")
    return getattr(import_module(f"fedslim.uses.{home}"), name)
