"""What a code table is good for: scoring, explaining, comparing, classifying, completing, rules. Nothing is sent."""

from typing import TYPE_CHECKING

from fedslim._lazy import names_of

if TYPE_CHECKING:
    from fedslim.uses.association import rules as rules
    from fedslim.uses.classifier import SlimClassifier as SlimClassifier
    from fedslim.uses.comparing import (
        Differences as Differences,
        compare_data as compare_data,
        compare_site as compare_site,
        compare_slices as compare_slices,
        compare_tables as compare_tables,
    )
    from fedslim.uses.completing import complete as complete
    from fedslim.uses.explaining import Explanation as Explanation, explain as explain
    from fedslim.uses.outliers import SlimOutlierDetector as SlimOutlierDetector
    from fedslim.uses.scoring import Scores as Scores, score as score

__getattr__, __dir__, __all__ = names_of(  # only the estimators need scikit-learn
    __name__,
    {
        "association": ("rules",),
        "classifier": ("SlimClassifier",),
        "comparing": ("Differences", "compare_data", "compare_site", "compare_slices", "compare_tables"),
        "completing": ("complete",),
        "explaining": ("Explanation", "explain"),
        "outliers": ("SlimOutlierDetector",),
        "scoring": ("Scores", "score"),
    },
)
