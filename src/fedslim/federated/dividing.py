"""Divide a database among the members of an experiment, by the name of a scheme.

The skewed schemes give each member dominant itemsets, which come from the code table of all data. That requires mining,
so this module is not in `fedslim.data`.
"""

from __future__ import annotations

from dataclasses import replace

from fedslim.data import Partition, TransactionDatabase, partition
from fedslim.errors import ParameterError
from fedslim.mdl.codetable import CodeTable

SKEWED = ("support-skew", "support-quantity-skew")  # the schemes that need the code table of all data

SCHEMES = ("iid", "dirichlet", "paper-sizes", *SKEWED)


def divide(  # noqa: PLR0913  # keyword-only parameters of all schemes
    database: TransactionDatabase,
    scheme: str = "iid",
    *,
    members: int = 10,
    alpha: float = 0.5,
    min_dominant: int = 3,
    seed: int = 0,
    table: CodeTable | None = None,
) -> Partition:
    """Divide the transactions of a database among members.

    Args:
        database: All transactions.
        scheme: One of `SCHEMES`; `fedslim.data.partition` describes them.
        members: The number of members.
        alpha: For `dirichlet` and `support-quantity-skew`: the smaller, the more uneven are the sizes.
        min_dominant: For the skewed schemes: the minimum number of items in a dominant itemset.
        seed: Equal seeds give equal partitions.
        table: For the skewed schemes: the code table of all transactions; by default that of SLIM as published.

    Returns:
        The partition, with a database for each member.

    Raises:
        ParameterError: A parameter is out of range, or the data have too few transactions or itemsets for it.

    Examples:
        >>> from fedslim.data import load
        >>> from fedslim.federated import divide
        >>> divide(load("encounters"), "iid", members=3).sizes
        (1667, 1667, 1666)
    """
    if scheme not in SCHEMES:
        raise ParameterError(f"there is no partition {scheme!r}; choose one of {', '.join(SCHEMES)}")
    if scheme == "iid":
        return partition.iid(database, members, seed=seed)
    if scheme == "dirichlet":
        return partition.dirichlet(database, members, alpha=alpha, seed=seed)
    if scheme == "paper-sizes":
        sizes = partition.PAPER_UNEVEN_SIZES
        if partition.check_member_count(database, members) > len(sizes):
            raise ParameterError(f"members is {members}; the paper gives sizes for at most {len(sizes)} members")
        return replace(partition.sized(database, sizes[:members], seed=seed), scheme=scheme)
    partition.check_member_count(database, members)  # before mining, which may take long
    if table is None:
        from fedslim.mdl.mining import mine  # noqa: PLC0415  # needed for these schemes only

        table = mine(database, width=1).table  # as in the paper, so partitions do not depend on the width of a run
    dominant = [(element.items, element.usage) for element in table.itemsets]
    if scheme == "support-skew":
        return partition.support_skew(database, members, dominant, min_size=min_dominant, seed=seed)
    divided = partition.support_quantity_skew
    return divided(database, members, dominant, alpha=alpha, min_size=min_dominant, seed=seed)
