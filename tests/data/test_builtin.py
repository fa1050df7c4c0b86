from __future__ import annotations

import hashlib

import numpy as np
import pytest

from fedslim.data import PLANTED, builtin_database, builtin_members
from fedslim.errors import DataError, ParameterError


@pytest.fixture(scope="module")
def whole():
    return builtin_database("encounters")


@pytest.fixture(scope="module")
def hospitals():
    return builtin_members("encounters")


def cases(db, syndrome):
    """Return the number of transactions with all items of the syndrome."""
    wanted = [db.vocabulary.index(label) for label in syndrome.items]
    table = np.zeros((len(db), db.n_items), bool)
    table[np.repeat(np.arange(len(db)), db.lengths), db.items] = True
    return int(table[:, wanted].all(axis=1).sum())


def test_the_encounters_are_the_same_everywhere(whole):
    digest = hashlib.sha256()
    digest.update(whole.offsets.astype("<i8").tobytes())
    digest.update(whole.items.astype("<i4").tobytes())
    digest.update("\n".join(whole.vocabulary).encode())
    assert digest.hexdigest() == "de9f314a69f7c21471814621b76019ed088e2159c6829810b436892b8516e6c2"


def test_the_whole_is_its_members_one_after_the_other(whole, hospitals):
    assert [row for _, hospital in hospitals for row in hospital] == list(whole)
    assert all(hospital.vocabulary == whole.vocabulary for _, hospital in hospitals)
    assert len({name for name, _ in hospitals}) == len(hospitals) == 6


def test_every_encounter_has_one_age_group_and_one_sex(whole):
    ages = {"child", "young adult", "adult", "older adult", "elderly"}
    assert all(len(ages & set(row)) == len({"female", "male"} & set(row)) == 1 for row in whole)


def test_every_item_occurs(whole):
    assert whole.supports.min() > 0


def planted(kind):
    found = [syndrome for syndrome in PLANTED if syndrome.kind == kind]
    assert found
    return found


def test_common_syndromes_are_at_every_member(hospitals):
    for syndrome in planted("common"):
        assert min(cases(hospital, syndrome) for _, hospital in hospitals) >= 15, syndrome.name


def test_local_syndromes_are_at_one_member(hospitals):
    for syndrome in planted("local"):
        counts = {name: cases(hospital, syndrome) for name, hospital in hospitals}
        assert counts.pop(syndrome.hospital) >= 15, syndrome.name
        assert max(counts.values()) <= 1, syndrome.name


def test_thin_syndromes_are_a_handful_at_each_member_and_dozens_together(hospitals, whole):
    for syndrome in planted("thin"):
        counts = [cases(hospital, syndrome) for _, hospital in hospitals]
        assert 4 <= min(counts) <= max(counts) <= 6, syndrome.name
        assert 25 <= cases(whole, syndrome) <= 40, syndrome.name


def test_items_of_thin_syndromes_are_ordinary_at_every_member(hospitals):
    labels = {label for syndrome in planted("thin") for label in syndrome.items}
    for _, hospital in hospitals:
        assert min(hospital.supports[hospital.vocabulary.index(label)] for label in labels) > 0.05 * len(hospital)


def test_another_seed_gives_other_encounters(whole):
    assert builtin_database("encounters", seed=1) != whole


def test_names_and_seeds_that_do_not_exist_are_reported():
    with pytest.raises(DataError, match="no built-in data set 'encounter'; did you mean encounters"):
        builtin_database("encounter")
    with pytest.raises(ParameterError, match="seed is -1"):
        builtin_members("encounters", seed=-1)
