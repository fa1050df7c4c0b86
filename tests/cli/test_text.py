from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as st

from fedslim.cli.console.output import MAX_SHOWN, shown_items, shown_label
from fedslim.format import brief, count, duration, number, printable, size


@given(st.text(st.characters(codec=None)))
def test_nothing_printable_has_control_characters(text):
    shown = printable(text)
    assert not any(unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} for character in shown)
    shown.encode()
    assert printable(shown) == shown


@pytest.mark.parametrize("text", ["[bold]x[/bold]", "a=[20, 30)", "é ü 日本", "می‌خواهم", ":smile:"])
def test_what_people_write_stays(text):
    assert printable(text) == text


def test_blanks_become_one_blank():
    assert printable("two\r\nlines\tand more") == "two lines and more"


@pytest.mark.parametrize(
    "mark", [chr(c) for c in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
)
def test_marks_of_direction_are_replaced(mark):
    assert printable(f"a{mark}b") == "a\ufffdb"


def test_a_label_without_end_is_cut():
    assert len(shown_label("x" * 10**7)) == MAX_SHOWN
    assert shown_label("x" * MAX_SHOWN) == "x" * MAX_SHOWN


def test_items_with_commas_are_told_apart():
    assert shown_items(("a", "b c")) == "a, b c"
    assert shown_items(("age=[20, 30)", "b")) == "age=[20, 30) | b"


def test_ids_are_as_short_as_tells_them_apart():
    one, two, far = "#" + "ab" * 16, "#" + "ab" * 15 + "cd", "#" + "0123456789abcdef" * 2
    assert brief((one, "#1 seller", far)) == ("#ababab", "#1 seller", "#012345")
    assert brief((one, two)) == (one[:32], two[:32])
    assert brief((one, "#ababab")) == ("#abababa", "#ababab")
    assert brief(("a", "#" + "ab" * 15, "#" + "AB" * 16)) == ("a", "#" + "ab" * 15, "#" + "AB" * 16)


@given(st.lists(st.text("#a0", max_size=9) | st.text("a0", min_size=32, max_size=32).map("#".__add__), unique=True))
def test_brief_labels_are_as_different_as_labels(labels):
    assert len(set(brief(labels))) == len(labels)


def test_numbers():
    assert number(1234567.6) == "1,234,568"
    assert number(-0.2) == "0"
    assert number(-1234.56, 1) == "-1,234.6"
    assert [count(n, "item") for n in (0, 1, 2000)] == ["0 items", "1 item", "2,000 items"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.001, "under 0.01 s"),
        (0.123, "0.12 s"),
        (1.26, "1.3 s"),
        (59.6, "60 s"),
        (99.4, "99 s"),
        (125, "2 min 05 s"),
        (5999, "99 min 59 s"),
        (7325, "2 h 02 min"),
        (10_000_000, "2,777 h 46 min"),
    ],
)
def test_durations(seconds, told):
    assert duration(seconds) == told


@pytest.mark.parametrize(
    ("of", "told"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1.00 kB"),
        (12_345, "12.3 kB"),
        (99_990, "100 kB"),
        (999_499, "999 kB"),
        (999_500, "1.00 MB"),
        (2_743_210, "2.74 MB"),
        (5 * 10**15, "5,000 TB"),
    ],
)
def test_bytes_are_told_to_three_figures(of, told):
    assert size(of) == told
