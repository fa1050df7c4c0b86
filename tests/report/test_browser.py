"""Tests of the page in a real browser. All in one file, so that a single xdist worker starts a single browser."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
from pathlib import Path

import pytest

from fedslim.cli import main
from fedslim.cli.commands.demo import networked_demo
from fedslim.cli.console.progress import reporter
from fedslim.experiments.tables import ResultTable
from fedslim.federated.loopback import Loopback
from fedslim.federated.own_record import mined_record
from fedslim.federated.records import load_run
from fedslim.mdl import mine
from fedslim.mdl.codetable import CodeTable
from fedslim.report.captions import Fact
from fedslim.report.page import write_page
from fedslim.report.rows import unusual_rows
from fedslim.report.view import view

# The tests are not a package, so load the neighbouring file by its path.
_spec = importlib.util.spec_from_file_location("report_chromium", Path(__file__).with_name("chromium.py"))
_chromium = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_chromium)

ROWS = "#table tbody tr"
PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install playwright")
    path, why = _chromium.chromium()
    if path is None:
        pytest.skip(why)
    with sync_api.sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"), executable_path=path, headless=True, args=[*_chromium.FLAGS]
        )
        yield context
        context.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory, records, hostile, bare, west, parts, large):
    folder = tmp_path_factory.mktemp("pages")
    shows = {"three": records, "one": records[:1], "many": [*records * 4, bare], "hostile": [hostile], "bare": [bare]}
    shows |= {"member": [west[0]], "server": [west[1]]}
    for name, runs in shows.items():
        write_page(view(runs), folder / f"{name}.html")
    mined = mined_record(large, "large.csv")
    write_page(view([mined]), folder / "large.html")
    table = west[0].code_table
    rows = unusual_rows(table, parts["west"])
    write_page(view([mined_record(table, "west.csv", "fedslim mine west.csv")], rows=rows), folder / "rows.html")
    figures = ResultTable(
        ["data", "variant", "", "L%"], 3, [["chess", "SA", "ours", "15.1"], ["", "", "paper", "15.2"]]
    )
    failed = [Fact("chess.iid-10.seed0.so", "out of <b>memory</b>")]
    write_page(view(records, figures=[("Ten members", figures)], failed=failed), folder / "experiment.html")
    return folder


@pytest.fixture
def opened(browser, pages):
    """Opens a page; fails if the page logs to the console or makes a request."""
    logged, requested, tabs = [], [], []

    def open_page(name, size=None, scheme="light", at=""):
        tab = browser.new_page()
        tabs.append(tab)
        tab.set_default_timeout(10_000)
        tab.set_viewport_size(size or {"width": 1280, "height": 900})
        tab.emulate_media(color_scheme=scheme)
        tab.on("console", lambda message: logged.append(f"{message.type}: {message.text}"))
        tab.on("pageerror", lambda error: logged.append(str(error)))
        tab.on("dialog", lambda dialog: (logged.append(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("request", lambda request: requested.append(request.url))
        tab.goto((pages / f"{name}.html").as_uri() + at)
        return tab

    yield open_page
    for tab in tabs:
        tab.close()
    assert logged == []
    assert [url for url in requested if not url.startswith(("file:", "data:"))] == []


def texts(tab, selector):
    return tab.locator(selector).all_inner_texts()


def run(tab, name):
    """Return the radio button of a run."""
    return tab.get_by_role("radio", name=name, exact=True)


def column(tab, title):
    """Return the numbers in a column of the code table, for the rows shown."""
    cells = texts(tab, f'#table tbody td[data-label="{title}"]')
    return [float(cell.replace(",", "")) for cell in cells]


# -- what is drawn ---------------------------------------------------------------------------------------------------


def test_every_section_is_there(opened):
    tab = opened("three")
    assert texts(tab, "section h2") == [
        "All runs",
        "Found together, but by no member alone",
        "Code table",
        "Items that are used together",
        "Items",
        "Compression",
        "Agreement",
        "Communication",
        "Members",
        "Configuration and command",
    ]
    assert "140 itemsets together" in tab.inner_text("#lead")
    assert "fedslim simulate encounters --variant x" in tab.inner_text("#reproduce pre")
    assert tab.locator("#communication tbody tr").count() > 3
    assert tab.locator("#members tbody tr").count() == 6


def test_the_curves_of_all_variants_are_drawn(opened):
    tab = opened("three")
    for chart in tab.locator("figure.chart").all():
        curves = chart.locator("path.curve")
        assert curves.count() == 3
        for curve in curves.all():
            assert int(curve.get_attribute("data-points")) > 30
            assert curve.evaluate("path => path.getTotalLength()") > 200
            assert "NaN" not in curve.get_attribute("d")
        assert len({curve.get_attribute("stroke-dasharray") for curve in curves.all()}) == 3
        assert len({curve.evaluate("path => getComputedStyle(path).stroke") for curve in curves.all()}) == 3


def test_a_chart_says_what_is_under_the_pointer_and_the_keys(opened):
    tab = opened("three")
    chart = tab.locator("figure.chart").first
    chart.locator("svg[role=img]").hover()
    assert "x 5" in chart.locator("output").inner_text()
    chart.locator("svg[role=img]").focus()
    tab.keyboard.press("Home")
    first = chart.locator("output").inner_text()
    tab.keyboard.press("ArrowRight")
    assert chart.locator("output").inner_text() != first


def test_another_run_is_shown_when_it_is_chosen(opened):
    tab = opened("three")
    assert tab.locator("#table .cells").count() == 0  # x reveals no usages per member
    assert "masked sums" in tab.inner_text("#members .note")
    run(tab, "so").check()
    assert "--variant so" in tab.inner_text("#reproduce pre")
    assert tab.locator("#table .cells").count() > 0
    tab.get_by_role("button", name="sa", exact=True).click()
    assert "--variant sa" in tab.inner_text("#reproduce pre")
    assert run(tab, "sa").is_checked()
    assert tab.evaluate("document.activeElement.textContent") == "sa"


def test_of_many_runs_the_chosen_one_stands_out(opened):
    tab = opened("many")
    chart = tab.locator("figure.chart").first
    assert chart.locator("path.curve.faint").count() == 12  # the first has no history
    tab.select_option("#run", "4")
    assert "--variant x" in tab.inner_text("#reproduce pre")
    assert chart.locator("path.curve.faint").count() == 11
    assert texts(tab, "figure.chart:first-child .legend li") == ["x", "sa", "so"]
    assert chart.locator("path.curve.chosen").count() == 1
    names = tab.locator("#runs tbody .pick").all_inner_texts()
    tab.locator("#runs th", has_text="L%").get_by_role("button").click()
    assert sorted(tab.locator("#runs tbody .pick").all_inner_texts()) == sorted(names)
    figures = [float(text) for text in texts(tab, '#runs td[data-label="L%"]')]
    assert figures == sorted(figures, reverse=True)
    tab.locator("#runs tbody .pick").last.click()
    assert tab.locator("#runs tr[aria-current=true]").count() == 1


def test_one_run_has_no_choice(opened):
    tab = opened("one")
    assert tab.locator(".choice, #runs").count() == 0


def test_a_record_with_nothing_in_it_is_a_page(opened):
    tab = opened("bare")
    assert "Not known for this run" in tab.inner_text("#together")
    assert "no history" in tab.inner_text("#compression")


# -- the code table --------------------------------------------------------------------------------------------------


def test_search_finds_itemsets_with_all_words(opened):
    tab = opened("one")
    tab.fill("#search", "tramadol TREMOR sweat")
    (row,) = texts(tab, ROWS)
    assert "citalopram" in row
    assert texts(tab, "#table li.hit") == ["tremor", "sweating", "tramadol"]
    tab.fill("#search", "nothing like it")
    assert texts(tab, ROWS) == []
    assert "No itemset matches" in tab.inner_text("#table .showing")


def test_a_click_sorts_and_another_reverses_the_order(opened):
    tab = opened("one")
    saved = column(tab, "bits saved")
    assert saved == sorted(saved, reverse=True)
    head = tab.locator("#table th", has_text="usage").first
    head.get_by_role("button").click()
    used = column(tab, "usage")
    assert used == sorted(used, reverse=True)
    assert head.get_attribute("aria-sort") == "descending"
    head.get_by_role("button").click()
    used = column(tab, "usage")
    assert used == sorted(used)
    assert head.get_attribute("aria-sort") == "ascending"
    assert tab.locator("#table th[aria-sort=ascending], #table th[aria-sort=descending]").count() == 1


def test_the_keyboard_sorts_too(opened):
    tab = opened("one")
    tab.focus("#table th:nth-child(3) button")
    tab.keyboard.press("Enter")
    used = column(tab, "usage")
    assert used == sorted(used, reverse=True)
    tab.keyboard.press("Space")
    used = column(tab, "usage")
    assert used == sorted(used)


def test_filters_for_length_usage_and_kind(opened):
    tab = opened("three")
    tab.fill("#shortest", "4")
    tab.fill("#longest", "5")
    tab.fill("#least", "10")
    tab.fill("#most", "60")
    assert set(column(tab, "items")) == {4, 5}
    assert all(10 <= used <= 60 for used in column(tab, "usage"))
    tab.get_by_role("button", name="Clear").click()
    tab.uncheck("#grouped")
    assert "of 140 itemsets" in tab.inner_text("#table .showing")
    tab.select_option("#which", "found by no member alone")
    assert "of 72 itemsets" in tab.inner_text("#table .showing")
    run(tab, "so").check()
    tab.get_by_role("button", name="in the code table").click()
    assert set(texts(tab, '#table td[data-label="reference usage"]')) == {"extra"}


def test_pages_turn(opened):
    tab = opened("one")
    tab.uncheck("#grouped")
    tab.locator("#table").get_by_text("Next").click()
    assert tab.inner_text("#table .showing") == "26–50 of 140 itemsets"
    tab.locator("#table").get_by_text("Back").click()
    assert tab.inner_text("#table .showing") == "1–25 of 140 itemsets"
    for _ in range(9):  # more often than there are pages: the last page and the focus on the button stay
        tab.locator("#table").get_by_text("Next").press("Enter")
    assert tab.inner_text("#table .showing") == "126–140 of 140 itemsets"
    assert tab.evaluate("document.activeElement.textContent") == "Next →"


def test_what_no_member_finds_alone_can_be_searched(opened):
    tab = opened("three")
    thinnest = texts(tab, "#together tbody tr:first-child li")
    assert thinnest == ["tremor", "azithromycin"]
    run(tab, "sa").check()
    tab.locator("#together select").select_option("missed")
    assert tab.locator("#together .badge.no").count() == tab.locator("#together tbody tr").count() > 0
    tab.locator("#together select").select_option("all")
    tab.locator("#together input").fill("tramadol tremor")
    assert tab.locator("#together .cells").first.get_attribute("aria-label").count(",") == 5


# -- a member, a server, one place -----------------------------------------------------------------------------------


def titles(tab):
    return texts(tab, "section h2")


def test_a_member_sees_what_is_new_and_different_here_and_what_left(opened, west):
    tab, own = opened("member"), west[0].own
    assert titles(tab)[:3] == ["Not found here alone", "Different here", "Code table"]
    assert {"What left this member", "Items", "Configuration and command"} <= set(titles(tab))
    new = own.found_alone.count(False)
    assert f"of {new} itemsets" in tab.inner_text("#together .showing")
    assert f"{new} of the {len(own.found_alone)} are not among them" in tab.inner_text("#lead")
    clear = sum(each.significant for each in own.differences)
    assert f"{clear} itemset" in tab.inner_text("#different .showing")
    assert "influenza" in tab.inner_text("#different tbody tr:first-child")
    assert "× as often" in tab.inner_text("#different tbody tr:first-child .badge")
    tab.select_option("#different select", "all")
    assert f"of {len(own.differences)} itemsets" in tab.inner_text("#different .showing")
    assert set(texts(tab, "#communication strong")) == {"Heard", "Confirm"}
    assert "No transaction left it" in tab.inner_text("#communication .note")
    tab.select_option("#which", "not found here alone")
    assert tab.locator("#table .badge.yes").count() == tab.locator(ROWS).count() > 0
    assert "--name west" in tab.inner_text("#reproduce pre")


def test_a_server_does_not_call_an_item_by_its_number(opened):
    tab = opened("server")
    assert not re.search(r"\bitem \d", tab.inner_text("body"))
    assert texts(tab, "#table tbody tr:first-child li.unnamed")[0].startswith("№ ")
    assert "what the items are called" in tab.inner_text("#knowledge")
    assert "by numbers" in tab.inner_text("#lead")
    number = texts(tab, "#table tbody tr:first-child li")[0].split()[1]
    tab.fill("#search", number)
    assert all(any(number in chip for chip in texts(row, "li")) for row in tab.locator(ROWS).all())


def test_unusual_rows_and_their_covers(opened):
    tab = opened("rows")
    assert "The most unusual rows" in titles(tab)
    assert not {"Members", "Communication", "Agreement"} & set(titles(tab))
    excess = [float(text) for text in texts(tab, '#rows td[data-label="unexpected bits"]')]
    assert excess == sorted(excess, reverse=True)
    number = tab.inner_text('#rows tbody tr:nth-child(3) td[data-label="row"]')
    tab.fill("#rows input[type=number]", number)
    assert tab.locator("#rows tbody tr").count() == 1
    assert tab.locator("#rows .part").count() > 1
    tab.fill("#rows input[type=number]", "")
    first = texts(tab, "#rows tbody tr")[0]
    assert "spelled item by item" in first
    assert "bits fewer" in first
    tab.fill("#rows input[type=search]", "tremor")
    assert all("tremor" in row for row in texts(tab, "#rows tbody tr"))


@pytest.mark.slow
def test_members_over_the_network_see_every_item_by_name(opened, pages):
    networked_demo("encounters", ["x"], reporter(quiet=True), pages / "demo")
    for name in ("north", "south", "west"):
        tab = opened(f"demo/x-{name}")
        assert {"Not found here alone", "Different here", "What left this member"} <= set(titles(tab))
        assert tab.locator("#table li").count() > 50
        assert tab.locator(".unnamed").count() == 0
        tab.fill("#search", "#")
        assert tab.locator(ROWS).count() == 0
    tab = opened("demo/x-server")
    assert tab.locator("#table li:not(.unnamed):not(.badge)").count() == 0
    assert "The members' own reports have the names" in tab.inner_text("#items")


def test_a_pair_of_items_shows_its_itemsets(opened):
    tab = opened("one")
    assert tab.locator("svg.pairs .pair").count() == 18 * 17 / 2
    pair = tab.locator("#pairs .pick").first
    names = pair.inner_text().split(" + ")
    pair.click()
    assert all(set(names) <= set(texts(row, "li")) for row in tab.locator(ROWS).all())


def test_the_papers_figures_and_what_failed(opened):
    tab = opened("experiment")
    assert texts(tab, "#paper tbody tr:nth-child(2) td")[2:] == ["paper", "15.2"]
    assert "out of <b>memory</b>" in tab.inner_text("#runs")


def test_variations_are_grouped_under_the_best(opened):
    tab = opened("one")
    first = tab.locator(ROWS).first
    count = int(first.locator(".fold").inner_text().split()[0])
    first.locator(".fold").press("Enter")
    rows = tab.locator(f"{ROWS}.variation")
    assert rows.count() == count > 0
    assert tab.evaluate("document.activeElement.getAttribute('aria-expanded')") == "true"
    tab.keyboard.press("Enter")
    assert rows.count() == 0
    for fold in tab.locator("#table .fold.inline").all():
        fold.click()
    for row in tab.locator(ROWS).all():
        items = set(texts(row, "li:not(.badge)"))
        if row.get_attribute("class") != "variation":
            theme = items
        assert len(theme ^ items) <= 2 <= len(theme & items)


def test_members_are_named_on_a_phone(opened, records):
    tab = opened("three", PHONE)
    names = [member.name for member in records[0].members]
    assert texts(tab, "#together .cells >> nth=0 >> i") == names


# -- out of the page --------------------------------------------------------------------------------------------------


def downloaded(tab, button):
    with tab.expect_download() as waiting:
        button.click()
    return waiting.value.suggested_filename, waiting.value.path().read_text("utf-8")


def test_what_matches_can_be_exported(opened):
    tab = opened("hostile")
    tab.fill("#search", "=1+1")
    shown = re.search(r"of (\d+)", tab.inner_text("#table .showing"))[1]
    name, text = downloaded(tab, tab.locator("#table").get_by_role("button", name="CSV"))
    assert name == "code-table.csv"
    lines = list(csv.DictReader(text.removeprefix("\ufeff").splitlines()))
    assert len(lines) == int(shown) > 25
    assert not [line for line in lines if line["itemset"].startswith("=")]  # a spreadsheet would compute it
    name, text = downloaded(tab, tab.locator("#table").get_by_role("button", name="JSON"))
    records = json.loads(text)
    assert len(records) == int(shown)
    assert all("=1+1" in record["itemset"] for record in records)
    assert records[0]["usage"] == int(lines[0]["usage"])


def test_what_matches_can_be_copied(browser, opened):
    browser.grant_permissions(["clipboard-read", "clipboard-write"])
    tab = opened("one")
    tab.fill("#search", "tramadol tremor sweat")
    tab.locator("#table").get_by_role("button", name="Copy").click()
    tab.locator("#table").get_by_role("button", name="Copied").wait_for()
    head, line = tab.evaluate("navigator.clipboard.readText()").splitlines()
    assert head.split("\t")[:2] == ["itemset", "bits saved"]
    assert "tramadol" in line


def test_the_address_says_what_is_chosen(opened):
    tab = opened("three")
    run(tab, "sa").check()
    tab.fill("#search", "fever cough")
    tab.fill("#shortest", "3")
    tab.uncheck("#grouped")
    tab.get_by_role("link", name="Code table").click()
    tab.wait_for_timeout(400)  # the address follows a little later; the policy forbids playwright's wait_for_function
    shown, address = texts(tab, ROWS), tab.evaluate("location.hash")
    assert "at=table" in address
    again = opened("three", at=address)
    assert run(again, "sa").is_checked()
    assert (again.input_value("#search"), again.is_checked("#grouped")) == ("fever cough", False)
    assert texts(again, ROWS) == shown
    assert again.evaluate("document.getElementById('table').getBoundingClientRect().top") < 200
    strange = opened("three", at="#run=nowhere&which=nothing&shortest=x&at=neither")
    assert len(texts(strange, ROWS)) == 25


# -- large, hostile --------------------------------------------------------------------------------------------------


def test_two_thousand_itemsets_are_few_rows(opened):
    tab = opened("hostile")
    assert "of 2,000 itemsets" in tab.inner_text("#table .showing")
    assert tab.locator("tr").count() < 150
    tab.fill("#search", "item 7")
    assert tab.locator(ROWS).count() <= 25
    assert all("item" in row and "7" in row for row in texts(tab, ROWS))
    tab.get_by_role("button", name="support").first.click()
    assert tab.locator("tr").count() < 150


def test_a_keystroke_in_a_large_table_is_not_felt(opened):
    """Measured in the browser, with layout; the bound is that of the issue, on a machine that does other things too."""
    tab = opened("large")
    assert "2,000 itemsets" in tab.inner_text("#table .showing")
    opening = tab.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    typed = tab.evaluate(
        """() => ["f", "fi", "find", "finding 1", "organ", "organ 2", "3 organ 1", ""].map((text) => {
            const input = document.getElementById("search");
            const began = performance.now();
            input.value = text;
            input.dispatchEvent(new Event("input"));
            document.body.getBoundingClientRect();
            return performance.now() - began;
        })"""
    )
    assert sorted(typed)[len(typed) // 2] < 200, typed
    assert opening < 5000


def test_hostile_labels_are_only_text(opened):
    tab = opened("hostile")
    title = "</script><img src=x onerror=alert(1)>"
    assert tab.inner_text("h1") == title
    assert tab.title() == f"{title} · fedslim"
    tab.fill("#search", "onerror onload")
    assert set(texts(tab, "#table li.hit")) == {title, '"><svg onload=alert(2)>'}
    assert tab.locator("img, iframe, main script, svg[onload], main b").count() == 0
    tab.wait_for_timeout(50)  # a script in a label would have run by now


def test_the_policy_lets_nothing_else_run(browser, pages):
    tab = browser.new_page()  # without the fixture: the console reports the violations
    tab.goto((pages / "one.html").as_uri())
    tab.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            document.body.setAttribute("onclick", "window.ran = true");
            document.body.click();
        }"""
    )
    assert tab.evaluate("window.ran === undefined")
    tab.close()


# -- windows, colour schemes, print ----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["three", "many", "hostile", "bare"])
@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_window(opened, name, width, scheme):
    tab = opened(name, {"width": width, "height": 740}, scheme)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    for figure in tab.locator("figure.chart svg[role=img]").all():
        box = figure.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize("name", ["member", "server", "rows", "experiment"])
def test_other_pages_fit_a_phone_too(opened, name):
    tab = opened(name, PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_dark_is_dark_and_everything_can_be_read(opened):
    contrast = """() => {
        const channel = (c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        const light = (rgb) => {
            const [r, g, b] = rgb.match(/[\\d.]+/g).map(Number).map(channel);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        const paper = light(getComputedStyle(document.body).backgroundColor);
        const ratios = [...document.querySelectorAll("p, h2, th, td.number, a, .badge, dt, svg text")].map((node) => {
            const style = getComputedStyle(node);
            const ink = light(node instanceof SVGElement ? style.fill : style.color);
            return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
        });
        return [paper, Math.min(...ratios)];
    }"""
    paper, least = opened("three").evaluate(contrast)
    assert paper > 0.9
    assert least >= 4.5
    paper, least = opened("three", scheme="dark").evaluate(contrast)
    assert paper < 0.05
    assert least >= 4.5


def test_the_keyboard_reaches_everything_and_shows_where_it_is(opened):
    tab = opened("three")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the report"
    assert tab.locator(".skip").bounding_box()["x"] >= 0
    seen = set()
    for _ in range(60):
        tab.keyboard.press("Tab")
        seen.add(
            tab.evaluate("document.activeElement.closest('section, nav, header')?.id || document.activeElement.tagName")
        )
        assert tab.evaluate(
            "document.activeElement === document.body || document.activeElement.matches(':focus-visible')"
        ), tab.evaluate("document.activeElement.outerHTML")
    assert {"runs", "together", "table"} <= seen


def test_on_paper_everything_is_open_and_light(opened):
    tab = opened("three", scheme="dark")
    tab.emulate_media(media="print", color_scheme="dark")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert tab.locator("#steps").is_visible()
    assert all(section.is_visible() for section in tab.locator("section h2").all())
    assert not tab.locator("#search").is_visible()
    assert not tab.locator("nav").is_visible()
    assert tab.locator("#table .print-only").is_visible()
    assert tab.locator("path.curve").first.is_visible()
    tab.emulate_media(media="screen")
    assert not tab.locator("#steps").is_visible()


def test_a_folded_part_opens_and_closes(opened):
    tab = opened("three")
    button = tab.get_by_role("button", name="values as a table")
    for is_open in (True, False):
        button.press("Enter")
        assert tab.locator("#steps").is_visible() is is_open
        assert button.get_attribute("aria-expanded") == str(is_open).lower()


@pytest.mark.parametrize("page", ["three", "many"])
def test_printing_loses_nothing(opened, page):
    """A part that opens only while printing would be cut off: opening it first must not change the page count."""

    def pages():
        return len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4")))

    tab = opened(page)
    as_it_is = pages()
    tab.get_by_role("button", name="values as a table").click()
    assert pages() == as_it_is > 1


# -- over the network ------------------------------------------------------------------------------------------------


def left(folder):
    """Return what left a member, message by message, without times and without keys, whose size is random."""
    entries = map(json.loads, (folder / "audit.jsonl").read_text("utf-8").splitlines()[1:])
    return [tuple(entry[name] for name in ("kind", "round", "statistics", "masked", "labels")) for entry in entries]


def run_federation(files, *more):
    """Run the processes of a federation; return its folders under a name of their own, by party."""
    try:
        parties = [files.start_server(), *(files.start_member(name, *more) for name in files.databases)]
        assert [process.wait(300) for process in parties] == [0] * 4, files.said("north")
    finally:
        files.close()
    kept = {}
    for who in ("server", *files.databases):
        kept[who] = files.out(who).rename(files.folder / f"{who}-{len(more)}")
    return kept


@pytest.mark.slow
def test_each_member_reads_its_report_after_a_run_over_the_network(browser, parts, tmp_path):
    files = Loopback.make(tmp_path, parts, limits={"min_count": 5, "min_members_with": 2})
    folders = run_federation(files)
    for name, kept in (("north", "ids"), ("south", "none")):
        policy = tmp_path / "trust" / name / "policy.toml"
        policy.write_text(policy.read_text("utf-8").replace('table = "labels"', f'table = "{kept}"'), "utf-8")
    bare = run_federation(files, "--no-compare")
    tables = {name: CodeTable.load(folders[name] / "codetable.json") for name in parts}
    assert len({table.found for table in tables.values()}) == 1
    for name, database in parts.items():
        record, table = load_run(folders[name]), tables[name]
        alone = {frozenset(row.labels) for row in mine(database).table.itemsets}
        assert record.own.found_alone == [frozenset(row.labels) in alone for row in table.itemsets]
        # Nothing of it was sent.
        assert left(folders[name]) == left(bare[name])
        assert (folders[name] / "run.json").stat().st_mode & 0o077 == 0
        assert main(["report", str(folders[name])]) == 0
        tab = browser.new_page()
        tab.goto((folders[name] / "report.html").as_uri())
        assert f"by its member {name}" in tab.inner_text(".subtitle")
        tab.uncheck("#grouped")
        while tab.locator("#table").get_by_text("Next").get_attribute("aria-disabled") == "false":
            assert set(texts(tab, "#table li:not(.badge)")) <= set(table.vocabulary)
            tab.locator("#table").get_by_text("Next").click()
        assert tab.locator("#table li.unnamed").count() == 0
        missed = record.own.found_alone.count(False)
        assert missed > 0
        assert f"of {missed} itemsets" in tab.inner_text("#together .showing")
        different = sum(each.significant for each in record.own.differences)
        assert (f"{different} itemset" if different else "No itemset differs clearly") in tab.inner_text("#different")
        assert f"{sum(amount.messages for amount in record.own.sent.values())} messages" in tab.inner_text(
            "#communication"
        )
        tab.close()
    assert load_run(bare["west"]).own.found_alone is None
    assert not [
        label for label in tables["north"].vocabulary if f'"{label}"' in (bare["north"] / "run.json").read_text()
    ]
    assert not {"run.json", "codetable.json"} & {path.name for path in bare["south"].iterdir()}
    assert load_run(folders["west"]).figures["different_here"] > 0
    sent = [load_run(each["server"]).traffic for each in (folders, bare)]
    assert [(row.kind, row.messages) for row in sent[0]] == [(row.kind, row.messages) for row in sent[1]]
