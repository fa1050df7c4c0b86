"""A member that lies about its ids in a preparation: to learn what others have, or to keep the server busy."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from fedslim.data import ItemSecret
from fedslim.data.frames import dataframe_table
from fedslim.errors import ProtocolError
from fedslim.federated.simulation import entropy_of, prepare_together
from fedslim.protocol import messages as m
from fedslim.protocol.preparation import MAX_ROUNDS
from fedslim.protocol.prepare import FIRST_SKETCH, GROWTH, PrepareServer
from fedslim.protocol.sums import MAX_WORDS
from fedslim.protocol.variant import Situation, policy_of
from fedslim.schema import Schema, conform
from fedslim.secagg.id_sketch import MAX_PASSES, IdSketch, _joined

SECRET = ItemSecret.from_random(bytes(32))


def chain(sketch, length):
    """Return ids of which each shares a cell with the next and all share one, so that only the ends are alone."""
    links = np.arange(length)
    parts = np.column_stack(((links + 1) // 2, links // 2, np.zeros(length, np.int64))).astype(np.uint64)
    parts[:, 2] += np.uint64(sketch.per_table) * links.astype(np.uint64)  # different ids in the same cell
    return _joined(parts)


def test_ids_that_are_found_one_after_the_other_are_too_many():
    """A chain through the largest sketch would take half a million passes, each over all cells: days."""
    sketch = IdSketch.for_entries(1 << 12)
    short, long = chain(sketch, 2 * MAX_PASSES - 2), chain(sketch, sketch.per_table)
    assert set(sketch.read(sketch.words_of(short))) == set(short)
    began = time.process_time()
    assert sketch.read(sketch.words_of(long)) is None
    assert time.process_time() - began < 2.0


def test_the_server_gives_up_once_no_sketch_can_be_read():
    agreed = m.Settings("prepare", True, 1 << 20, max_rounds=MAX_ROUNDS, outline=" ".join(["<=2"] * 9))
    rounds = PrepareServer(Situation(("a", "b"), 0, agreed, policy_of(agreed), run=bytes(16))).run()
    asked, rng = [next(rounds)], np.random.default_rng(0)

    def answer(words):
        noise = m.Vector(words, 64, rng.bytes(8 * words))
        return rounds.send({name: m.Masked(0, 0, noise) for name in "ab"})

    with pytest.raises(ProtocolError, match="cannot be read"):
        asked.extend(answer(asked[-1].words) for _ in range(MAX_ROUNDS))
    assert [one.messages.want.entries for one in asked] == [FIRST_SKETCH * GROWTH**k for k in range(len(asked))]
    assert len(asked) > 3
    assert max(one.words for one in asked) <= MAX_WORDS


def test_a_member_can_tell_which_of_its_guesses_others_have():
    """This works, and the threat model says so: members share the secret, and all must know the ids of the search."""
    schema = Schema.of({"columns": {"diagnosis": {"kind": "categorical"}}})
    rows = {"a": ["flu"], "b": ["flu", "gout"], "c": ["flu", "kuru"]}
    sites = {name: conform(schema, dataframe_table(pd.DataFrame({"diagnosis": one}))) for name, one in rows.items()}
    made = prepare_together(schema, sites, SECRET, entropy_of(1)).preparation
    guesses = ["gout", "kuru", "plague"]
    assert [one for one in guesses if SECRET.id_of(f"diagnosis={one}") in made.ids] == ["gout", "kuru"]
