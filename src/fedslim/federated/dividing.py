"""One database dealt out to the members of an experiment, by the name of the scheme.

    divide(db, "support-skew", members=10, min_dominant=3, seed=0)

Schemes that give every member itemsets of its own need to know which there are. They take them from the table that all
data in one place give, which is why this is not in the data room.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fedslim.data.partition import (
    PAPER_UNEVEN_SIZES,
    check_member_count,
    dirichlet,
    iid,
    sized,
    support_quantity_skew,
    support_skew,
)
from fedslim.errors import ParameterError

if TYPE_CHECKING:
    from fedslim.data import Partition, TransactionDatabase
    from fedslim.mdl.codetable import CodeTable

SKEWED = ("support-skew", "support-quantity-skew")
"""The schemes that need the centralised table."""

SCHEMES = ("iid", "dirichlet", "paper-sizes", *SKEWED)


def divide(  # noqa: PLR0913  # the parameters of all schemes, all by keyword
    database: TransactionDatabase,
    scheme: str = "iid",
    *,
    members: int = 10,
    alpha: float = 0.5,
    min_dominant: int = 3,
    seed: int = 0,
    table: CodeTable | None = None,
) -> Partition:
    """Deal the transactions out to members.

    Args:
        database: All transactions.
        scheme: One of `SCHEMES`; see `fedslim.data.partition` for what each does.
        members: How many.
        alpha: For `dirichlet` and `support-quantity-skew`: how uneven the sizes are, small for very uneven.
        min_dominant: For the skewed ones: the least number of items of a member's dominant itemsets.
        seed: Equal seeds, equal partitions.
        table: For the skewed ones: the code table of all transactions. It is mined if left out.

    Raises:
        ParameterError: A parameter makes no sense, or the data have not enough transactions or itemsets for it.

    Examples:
        >>> from fedslim.data import load
        >>> from fedslim.federated import divide
        >>> divide(load("encounters"), "iid", members=3).sizes
        (1667, 1667, 1666)
    """
    if scheme not in SCHEMES:
        msg = f"there is no partition {scheme!r}; choose one of {', '.join(SCHEMES)}"
        raise ParameterError(msg)
    if scheme == "iid":
        return iid(database, members, seed=seed)
    if scheme == "dirichlet":
        return dirichlet(database, members, alpha=alpha, seed=seed)
    if scheme == "paper-sizes":
        return _paper_sizes(database, members, seed)
    check_member_count(database, members)  # before mining, which may take long
    if table is None:
        from fedslim.mdl.mining import mine  # noqa: PLC0415  # needed for these schemes only

        table = mine(database).table
    dominant = [(element.items, element.usage) for element in table.itemsets]
    if scheme == "support-skew":
        return support_skew(database, members, dominant, min_size=min_dominant, seed=seed)
    return support_quantity_skew(database, members, dominant, alpha=alpha, min_size=min_dominant, seed=seed)


def _paper_sizes(database: TransactionDatabase, members: int, seed: int) -> Partition:
    if check_member_count(database, members) > len(PAPER_UNEVEN_SIZES):
        msg = f"the paper has the sizes of {len(PAPER_UNEVEN_SIZES)} members, not of {members}; ask for fewer"
        raise ParameterError(msg)
    return replace(sized(database, PAPER_UNEVEN_SIZES[:members], seed=seed), scheme="paper-sizes")
