from __future__ import annotations

import numpy as np
import pytest

from fedslim.data import TransactionDatabase
from fedslim.mdl.cover_state import CoverState
from fedslim.mdl.kernels.array_table import LAYOUT, ROWS
from fedslim.mdl.kernels.arrays import WORDS


@pytest.fixture
def arrays():
    return CoverState(TransactionDatabase.from_transactions([["a", "b"], ["b"]]))._arrays


@pytest.mark.parametrize(
    ("group", "field", "wrong"),
    [
        ("covers", "slots", np.zeros(8, np.int64)),
        ("work", "lost", np.zeros(8, np.uint64)),
        ("lists", "support", np.zeros(8, ">i8")),
        ("covers", "tids", np.zeros((8, 1), np.int32)),
        ("vertical", "bitmaps", np.zeros(8, np.uint64)),
        ("work", "free_mask", np.array(0, np.uint64)),
        ("lists", "slots", np.zeros(8, np.int32)[::2]),
        ("elements", "mask", np.zeros((2, WORDS), np.uint64, order="F")),
        ("elements", "mask", np.zeros((2, WORDS - 1), np.uint64)),
    ],
    ids=["wider", "unsigned", "swapped", "two dimensions", "one dimension", "none", "stepped", "by column", "columns"],
)
def test_an_array_that_is_not_what_its_field_declares_is_refused_by_name(arrays, group, field, wrong):
    before, rows = getattr(arrays, group), arrays.rows.copy()
    with pytest.raises(TypeError, match=rf"^{group.title()}\.{field} must be array\("):
        arrays.use(before._replace(**{field: wrong}))
    assert getattr(arrays, group) is before
    np.testing.assert_array_equal(arrays.rows, rows)


def test_every_field_has_a_row_of_its_own():
    fields = [field for group in LAYOUT.values() for field in group]
    assert [field.row for field in fields] == list(range(ROWS))
    assert [field.name for field in fields] == [f"{g.__name__}.{name}" for g in LAYOUT for name in g._fields]


def test_an_array_that_may_not_be_written_is_accepted(arrays):
    support = arrays.lists.support.copy()
    support.flags.writeable = False
    arrays.use(arrays.lists._replace(support=support))
    assert arrays.lists.support is support
