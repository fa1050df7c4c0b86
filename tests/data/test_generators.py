from __future__ import annotations

import hashlib

import numpy as np
import pytest

from fedslim.data import generate, read, write_fimi
from fedslim.data.generators import KINDS
from fedslim.errors import ParameterError

SMALL = {"accidents-like": 12_000, "wide-sparse": 24_000}


@pytest.fixture(scope="module", params=KINDS)
def small(request):
    return generate(request.param, transactions=SMALL[request.param])


@pytest.mark.parametrize(
    ("kind", "pinned"),
    [
        ("accidents-like", "8cf6764bf118c8fe79fd7af025ab516a078045785ab6b8ee46f9daee36dca4f8"),
        ("wide-sparse", "2938d2966b6024ef4ca002fd594fb0c7f9a0dfb218d700eb08e92dcf474fddb4"),
    ],
)
def test_a_seed_gives_the_same_data_everywhere(kind, pinned):
    db = generate(kind, transactions=9_000, seed=3)
    digest = hashlib.sha256(db.offsets.astype("<i8").tobytes() + db.items.astype("<i4").tobytes())
    assert digest.hexdigest() == pinned


def test_fewer_transactions_are_the_head_of_more(small):
    assert generate(small.name, transactions=100) == small.take(range(100))


def test_another_seed_gives_other_data(small):
    assert generate(small.name, transactions=100, seed=1) != small.take(range(100))


def test_the_vocabulary_is_that_of_the_full_size(small):
    assert small.n_items == KINDS[small.name].items


def test_accidents_like_data_are_dense_and_of_the_stated_lengths():
    db = generate("accidents-like", transactions=SMALL["accidents-like"])
    assert 18 <= db.lengths.min() <= db.lengths.max() <= 51
    assert 31 < db.lengths.mean() < 37
    frequency = np.sort(db.supports)[::-1] / len(db)
    assert frequency[3] > 0.9
    assert 20 <= (frequency > 0.5).sum() <= 30
    assert (frequency > 0.1).sum() >= 60
    assert frequency[-100] < 0.002


def test_wide_sparse_data_are_short_and_their_supports_fall_off_as_a_power():
    db = generate("wide-sparse", transactions=SMALL["wide-sparse"])
    assert 9 < db.lengths.mean() < 11
    assert db.lengths.min() >= 1
    assert db.supports.min() >= 1
    supports = np.sort(db.supports)[::-1]
    assert supports[0] > 3 * supports[100] > 9 * supports[1000]


def test_items_occur_together_far_more_often_than_by_chance(small):
    rows = np.repeat(np.arange(len(small)), small.lengths)
    by_support = np.argsort(small.supports)[::-1]
    most = 0.0
    for item in by_support[60:160]:
        with_item = rows[small.items == item]
        together = np.bincount(small.items[np.isin(rows, with_item)], minlength=small.n_items)
        together[item] = 0
        expected = np.maximum(small.supports * (len(with_item) / len(small)), 1)
        most = max(most, float((together / expected).max()))
    assert most > 3


def test_generated_data_survive_a_file(small, tmp_path):
    part = small.take(range(500))
    again = read(write_fimi(part, tmp_path / "part.dat.gz"))
    assert list(again) == list(part)


@pytest.mark.parametrize(
    ("kind", "options", "says"),
    [
        ("accident-like", {}, "no kind of generated data named 'accident-like'; did you mean accidents-like"),
        ("wide-sparse", {"transactions": 0}, "transactions is 0; give a whole number from 1"),
        ("wide-sparse", {"transactions": 2.5}, "transactions is 2.5"),
        ("wide-sparse", {"seed": -1, "transactions": 1}, "seed is -1"),
    ],
)
def test_kinds_and_numbers_that_make_no_sense_are_reported(kind, options, says):
    with pytest.raises(ParameterError, match=says):
        generate(kind, **options)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_full_size_has_the_stated_shape(kind):
    db = generate(kind)
    assert (db.transactions, db.n_items) == (KINDS[kind].transactions, KINDS[kind].items)
    assert db.supports.min() >= 1
    low, high = map(int, KINDS[kind].length.split("-"))
    assert low <= db.lengths.min() <= db.lengths.max() <= high
