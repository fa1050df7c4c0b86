from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import msgspec
import pytest
from hypothesis import given, strategies as st

from fedslim.report.page import json_in_html, page, write_page
from fedslim.report.view import view


class _Elements(HTMLParser):
    """Collects the elements of a page, with the text of scripts and styles."""

    def __init__(self):
        super().__init__()
        self.tags, self.texts, self._open = [], [], None

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag in {"script", "style"}:
            self.texts.append((tag, dict(attrs), ""))
            self._open = tag

    def handle_endtag(self, tag):
        if tag == self._open:
            self._open = None

    def handle_data(self, data):
        if self._open:
            tag, attrs, text = self.texts[-1]
            self.texts[-1] = (tag, attrs, text + data)


def elements(text):
    parser = _Elements()
    parser.feed(text)
    return parser


@given(
    st.recursive(st.text(st.characters(codec=None)), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))
)
def test_data_in_a_page_are_data_and_nothing_else(value):
    text = json_in_html(value)
    assert text.isascii()
    assert not set("<>&") & set(text)
    assert json.loads(text) == value


def test_hostile_labels_are_in_the_data_only(hostile):
    text = page(view([hostile]))
    found = elements(text)
    names = [tag for tag, _ in found.tags]
    assert (names.count("script"), names.count("style"), names.count("img"), names.count("svg")) == (2, 1, 0, 0)
    data = next(text for tag, attrs, text in found.texts if attrs.get("type") == "application/json")
    assert json.loads(data) == msgspec.to_builtins(view([hostile]))


def test_the_policy_knows_script_and_style_by_their_hashes(records):
    found = elements(page(view(records)))
    policy = next(attrs["content"] for tag, attrs in found.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    ours = [(tag, text) for tag, attrs, text in found.texts if attrs.get("type") != "application/json"]
    assert sorted(tag for tag, _ in ours) == ["script", "style"]
    for tag, text in ours:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy


def test_a_page_names_no_other_place(records):
    text = page(view(records))
    assert set(re.findall(r"""(?:https?:)?//[\w.]+""", text)) <= {"http://www.w3.org"}  # the name of SVG
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|@import|url\(", text)


@pytest.mark.parametrize("which", ["records", "hostile", "bare"])
def test_equal_views_are_equal_files(request, tmp_path, which):
    given = request.getfixturevalue(which)
    shown = view(given if isinstance(given, list) else [given])
    write_page(shown, tmp_path / "deep" / "a.html")
    write_page(shown, tmp_path / "b.html")
    assert (tmp_path / "deep" / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["a.html"]


def test_everything_beside_the_data_is_text(records):
    shown = view(records)
    hostile = "<img src=x onerror=alert(1)>"
    named = {"title": hostile, "subtitle": hostile, "remarks": [hostile], "version": hostile}
    runs = [msgspec.structs.replace(run, lead=hostile) for run in shown.runs]
    text = page(msgspec.structs.replace(shown, runs=runs, **named))
    assert "img" not in [tag for tag, _ in elements(text).tags]
    assert text.count("&lt;img src=x onerror=alert(1)&gt;") >= 5
