"""Mining by MDL: objective, code table, covers, search, estimator. Nothing here knows about messages or members."""

from typing import TYPE_CHECKING

from fedslim._lazy import names_of

if TYPE_CHECKING:
    from fedslim.mdl.codetable import CodeTable as CodeTable
    from fedslim.mdl.estimator import Slim as Slim
    from fedslim.mdl.mining import Mined as Mined, mine as mine

# Reading a code table needs no numba, and mining one needs no scikit-learn.
__getattr__, __dir__, __all__ = names_of(
    __name__, {"codetable": ("CodeTable",), "estimator": ("Slim",), "mining": ("Mined", "mine")}
)
