from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fedslim.data import Encoding, TransactionDatabase, encode, encode_together
from fedslim.errors import DataError

A = TransactionDatabase.from_transactions([["9", "10"], ["10"]], vocabulary=["9", "10"])
B = TransactionDatabase.from_transactions([["b", "10"], []], vocabulary=["b", "10", "01"])


def test_databases_are_joined_in_order():
    whole = TransactionDatabase.joined([A, A.take([1])], name="all")
    assert list(whole) == [("9", "10"), ("10",), ("10",)]
    assert (whole.name, whole.vocabulary) == ("all", A.vocabulary)


def test_only_databases_over_one_vocabulary_are_joined():
    with pytest.raises(DataError, match=r"database 2 \(data\) differs"):
        TransactionDatabase.joined([A, B])
    with pytest.raises(DataError, match="no databases to join"):
        TransactionDatabase.joined([])


def test_databases_keep_a_common_vocabulary_and_get_one_otherwise():
    odd = TransactionDatabase.from_transactions([["z", "a"]], vocabulary=["z", "a"])
    (same, _), encoding = encode_together([odd, odd])
    assert (same.vocabulary, encoding) == (("z", "a"), Encoding("items"))
    (a, b), _ = encode_together([A, B], ["north", "south"])
    assert a.vocabulary == b.vocabulary == ("9", "10", "01", "b")
    assert (list(a), list(b)) == ([("9", "10"), ("10",)], [("10", "b"), ()])
    assert (a.name, b.name) == ("north", "south")


def test_numbers_are_cut_where_all_rows_would_cut_them():
    whole = pd.DataFrame({"x": np.arange(40.0), "y": [None, "u", "v", "?"] * 10})
    parts, encoding = encode_together([whole[:10], whole[10:]])
    database, alone = encode(whole)
    assert TransactionDatabase.joined(parts) == database
    assert encoding == alone


def test_columns_may_stand_in_another_order_and_have_gaps_somewhere():
    first = pd.DataFrame({"n": [1, 2, 3], "t": ["a", "b", "a"]})
    second = pd.DataFrame({"t": ["c", None], "n": [2.0, np.nan]})
    (a, b), _ = encode_together([first, second])
    assert a.vocabulary == ("n=1", "n=2", "n=3", "t=a", "t=b", "t=c")
    assert list(b) == [("n=2", "t=c"), ()]


def test_a_table_whose_flags_one_member_lacks_is_no_table_of_flags():
    first, second = pd.DataFrame({"n": [0, 1]}), pd.DataFrame({"n": [1, 7]})
    (a, b), encoding = encode_together([first, second])
    assert encoding.kind == "categorical"
    assert (list(a), list(b)) == ([("n=0",), ("n=1",)], [("n=1",), ("n=7",)])
