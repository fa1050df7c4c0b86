"""Warnings about weak settings in a federation file, key by key; a strong file gets none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedslim.settings.federation_file import weaknesses, write_template

STRONG = {"items.vocabulary_digest": "0" * 64}


@pytest.fixture
def file(tmp_path):
    return write_template(tmp_path / "f.toml", "hospitals", ["a", "b", "c"], chosen=STRONG)


def keys(file):
    return [each.key for each in weaknesses(file)]


def test_a_strong_file_gets_no_warning(file):
    assert keys(file) == []


@pytest.mark.parametrize(
    ("table", "name", "value", "words"),
    [
        ("federation", "members", ("a", "b"), "subtract its own counts"),
        ("items", "vocabulary_digest", None, "who has which ids"),
        ("items", "share_labels", "server", "send the labels"),
        ("limits", "min_count", 1, "there is no smallest count"),
        ("limits", "min_count", 4, "the smallest count is 4"),
        ("limits", "min_members_with", 1, "a single member"),
        ("limits", "max_rounds", 20_001, "20,001 questions"),
    ],
)
def test_a_weak_setting_gets_a_warning(file, table, name, value, words):
    weak = replace(file, **{table: replace(getattr(file, table), **{name: value})})
    assert keys(weak) == [f"{table}.{name}"]
    assert words in str(weaknesses(weak)[0])


@pytest.mark.parametrize(("variant", "words"), [("sa", "who proposes which pairs"), ("so", "every count")])
def test_the_papers_variants_get_warnings(tmp_path, variant, words):
    file = write_template(tmp_path / "f.toml", "hospitals", ["a", "b", "c"], variant, chosen=STRONG)
    assert keys(file) == ["federation.variant", "limits.min_count", "limits.min_members_with"]
    assert words in weaknesses(file)[0].text


@pytest.mark.parametrize(
    ("host", "open_to_others"), [("127.0.0.1", False), ("::1", False), ("localhost", False), ("10.0.0.1", True)]
)
def test_metrics_that_others_can_fetch_get_a_warning(file, host, open_to_others):
    served = replace(file, metrics=replace(file.metrics, port=9464, host=host))
    assert keys(served) == ["metrics.host"] * open_to_others
    assert keys(replace(served, metrics=replace(served.metrics, port=None))) == []
