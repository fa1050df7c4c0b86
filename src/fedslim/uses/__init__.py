"""What a code table is good for: scoring, explaining, comparing, classifying, completing, rules. Nothing is sent."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedslim.uses.association import rules
    from fedslim.uses.classifier import SlimClassifier
    from fedslim.uses.comparing import Differences, compare_data, compare_site, compare_slices, compare_tables
    from fedslim.uses.completing import complete
    from fedslim.uses.explaining import Explanation, explain
    from fedslim.uses.outliers import SlimOutlierDetector
    from fedslim.uses.scoring import Scores, score

__all__ = [
    "Differences",
    "Explanation",
    "Scores",
    "SlimClassifier",
    "SlimOutlierDetector",
    "compare_data",
    "compare_site",
    "compare_slices",
    "compare_tables",
    "complete",
    "explain",
    "rules",
    "score",
]

# Imported on first use: only the estimators need scikit-learn.
_HOME = {
    "Differences": "comparing",
    "Explanation": "explaining",
    "Scores": "scoring",
    "SlimClassifier": "classifier",
    "SlimOutlierDetector": "outliers",
    "compare_data": "comparing",
    "compare_site": "comparing",
    "compare_slices": "comparing",
    "compare_tables": "comparing",
    "complete": "completing",
    "explain": "explaining",
    "rules": "association",
    "score": "scoring",
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"fedslim.uses.{_HOME[name]}"), name)
    msg = f"module 'fedslim.uses' has no attribute {name!r}"
    raise AttributeError(msg)
