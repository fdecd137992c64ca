"""The report in a real browser: it opens without an error; sorting, searching and the replay work, on a phone too."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from legible.report import write_report

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
CHROMIUM = os.environ.get("LEGIBLE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here to open the report with")

ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def browser() -> Iterator[sync_api.Browser]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Tab:
    """A page with the report, and every error and request that it made."""

    def __init__(self, browser: sync_api.Browser, path: Path, viewport: dict[str, int], scheme: str = "light") -> None:
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, offline=True)
        self.context.set_default_timeout(20_000)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type != "log" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        self.page.evaluate("document.querySelectorAll('details.section').forEach(section => section.open = true)")

    def column(self, number: int) -> list[str]:
        """The texts of a column of the table of rules, of the rows that are shown."""
        rows = self.page.locator("#rule-table tbody tr:not([hidden])")
        return rows.locator(f"td:nth-child({number})").all_inner_texts()

    def step(self) -> int:
        return int(self.page.locator(".player").first.get_attribute("data-step"))


@pytest.fixture
def open_report(browser, pacman_report) -> Iterator[object]:
    tabs = []

    def open_one(viewport: dict[str, int] = DESK, path: Path = pacman_report, scheme: str = "light") -> Tab:
        tabs.append(Tab(browser, path, viewport, scheme))
        return tabs[-1]

    yield open_one
    for tab in tabs:
        tab.context.close()
        assert tab.errors == []
        assert [url for url in tab.requests if not url.startswith(("file:", "data:"))] == []


def colours(page: sync_api.Page, selector: str) -> int:
    """How many colours a canvas shows: a blank one has one."""
    return page.locator(selector).first.evaluate(
        """canvas => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const seen = new Set();
            for (let i = 0; i < data.length; i += 4) seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
            return seen.size;
        }"""
    )


def picture(page: sync_api.Page, selector: str) -> str:
    return page.locator(selector).first.evaluate("canvas => canvas.toDataURL()")


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_the_screen_and_reads_in_light_and_dark(open_report, viewport, scheme) -> None:
    tab = open_report(viewport, scheme=scheme)
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    assert tab.page.locator("#verdict").is_visible()
    back, ink = (tab.page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("backgroundColor", "color"))
    brightness = [sum(map(int, value[value.index("(") + 1 : -1].split(","))) for value in (back, ink)]
    assert (brightness[0] > brightness[1]) == (scheme == "light")


def test_clicks_sort_a_column_and_reverse_the_order(open_report) -> None:
    tab = open_report()

    def p_values() -> list[float]:
        cells = tab.page.locator("#rule-table td:nth-child(7)")
        return cells.evaluate_all("cells => cells.map(cell => Number(cell.dataset.v))")

    before = p_values()
    assert before != sorted(before)
    button = tab.page.locator("#rule-table th:nth-child(7) button")
    button.click()
    assert p_values() == sorted(before)
    button.click()
    assert p_values() == sorted(before, reverse=True)
    assert tab.page.locator("#rule-table th:nth-child(7)").get_attribute("aria-sort") == "descending"
    tab.page.locator("#rule-table th:nth-child(9) button").click()
    known = [text for text in tab.column(9) if text != "–"]
    assert tab.column(9)[: len(known)] == known  # missing effects come last
    assert known


def test_search_and_filter(open_report, pacman_study) -> None:
    tab = open_report()
    everything = len(pacman_study.mining.rules)
    count = tab.page.locator('.tools[data-for="rule-table"] .count')
    assert count.inner_text() == f"{everything} of {everything}"
    tab.page.get_by_label("search the rules").fill("scared going NORTH")
    found = tab.column(2)
    assert 0 < len(found) < everything
    assert all("scared" in text.lower() and "going north" in text.lower() for text in found)
    assert count.inner_text() == f"{len(found)} of {everything}"
    tab.page.get_by_label("search the rules").fill("no such rule")
    assert tab.column(2) == []
    tab.page.get_by_label("search the rules").fill("")
    tab.page.get_by_label("which rules").select_option("confirmed")
    assert len(tab.column(2)) == len(pacman_study.evaluation.confirmed)


def test_on_a_phone_rules_are_cards_that_sort_by_a_menu(open_report) -> None:
    tab = open_report(PHONE)
    tab.page.get_by_label("sort by").select_option("6")
    values = tab.page.locator("#rule-table td:nth-child(7)").evaluate_all(
        "cells => cells.map(c => Number(c.dataset.v))"
    )
    assert values == sorted(values)
    assert not tab.page.locator("#rule-table thead").is_visible()


def test_the_replay_steps_and_jumps_to_interventions(open_report) -> None:
    tab = open_report()
    player = tab.page.locator(".player").first
    parting = tab.step()
    says = player.locator(".side.guided .says")
    assert says.inner_text().startswith("A rule changes the action: ")
    assert "when" in player.locator(".side.guided .lamps").inner_text()
    before = picture(tab.page, ".player .side.guided canvas")
    assert colours(tab.page, ".player .side.guided canvas") > 5
    player.get_by_label("one step on").click()
    assert tab.step() == parting + 1
    assert picture(tab.page, ".player .side.guided canvas") != before
    player.get_by_label("one step back").click()
    assert picture(tab.page, ".player .side.guided canvas") == before
    player.get_by_label("next step in which a rule changes the action").click()
    assert tab.step() > parting
    assert says.inner_text().startswith("A rule changes the action")
    player.get_by_label("previous step in which a rule changes the action").click()
    assert tab.step() == parting


def test_both_sides_are_alike_until_they_part_and_end_with_their_returns(open_report, pacman_report) -> None:
    tab = open_report()
    alone, guided = (f".player .side.{side} canvas" for side in ("alone", "guided"))
    assert picture(tab.page, alone) == picture(tab.page, guided)
    slider = tab.page.locator(".player").first.get_by_label("step", exact=True)
    slider.fill(slider.get_attribute("max"))
    assert picture(tab.page, alone) != picture(tab.page, guided)
    replay = tab.page.evaluate("JSON.parse(document.getElementById('replays').textContent)[0]")
    for place, side in enumerate(("alone", "guided")):
        says = tab.page.locator(f".player .side.{side} .says").first.inner_text()
        assert f"after {len(replay['sides'][place]['actions'])} steps" in says
        assert says.replace("−", "-").endswith(f"return {replay['sides'][place]['return']:.0f}")


VISIBLE_WORDS = """() => {
    const shown = (node) => {
        if (node.nodeType === Node.TEXT_NODE) return node.textContent;
        if (node.nodeType !== Node.ELEMENT_NODE || node.matches("script, style, [hidden]")) return "";
        const folded = node.matches("details:not([open])");
        const children = folded ? [node.querySelector(":scope > summary")] : [...node.childNodes];
        return children.map(shown).join(" ");
    };
    return shown(document.body).split(/\\s+/).filter(Boolean).length;
}"""


def test_the_order_and_the_length_of_what_is_shown_first(open_report, pacman_study) -> None:
    tab = open_report()
    tab.page.evaluate("document.querySelectorAll('details.section').forEach(section => section.open = false)")
    assert tab.page.evaluate(VISIBLE_WORDS) <= 2500
    replay = tab.page.locator("header .player").first.bounding_box()
    assert replay["y"] < DESK["height"] / 3  # on the first screen, next to the verdict
    places = [
        tab.page.locator(name).first.bounding_box()["y"]
        for name in ("#verdict", "#endings", "#weaknesses", "#deploy", "#pictures", "#returns")
    ]
    assert places == sorted(places)
    text = tab.page.locator("#endings").inner_text()
    for share in pacman_study.endings:
        assert share.words[1:] in text


def test_a_link_goes_to_a_seed_and_a_step(open_report) -> None:
    tab = open_report()
    dots = tab.page.locator("#pictures figure[data-chart=seeds] svg a")
    target = dots.last.get_attribute("href") or dots.last.get_attribute("xlink:href")
    tab.page.evaluate(f"location.hash = '{target}&step=3'")
    player = tab.page.locator("header .player:visible")
    sync_api.expect(player).to_have_attribute("data-step", "3")
    sync_api.expect(player).to_be_focused()
    assert f"Seed {target.partition('=')[2]}" in player.inner_text()
    tab.page.evaluate("location.hash = '#seed=1&step=3'")
    sync_api.expect(tab.page.locator("#no-replay")).to_be_visible()


def test_a_link_to_the_step_that_is_shown(open_report) -> None:
    tab = open_report()
    tab.page.locator(".player").first.get_by_label("step", exact=True).fill("7")
    tab.page.locator(".player").first.get_by_role("button", name="Link").click()
    assert re.search(r"#seed=\d+&step=7$", tab.page.evaluate("location.href"))


def test_every_failure_mode_has_a_replay(open_report, pacman_study) -> None:
    tab = open_report()
    cards = tab.page.locator("#failures details.weak")
    assert cards.count() == len(pacman_study.failures.modes) > 0
    for card, mode in zip(cards.all(), pacman_study.failures.modes, strict=True):
        card.evaluate("card => { card.open = true; }")
        sync_api.expect(card.locator(".player")).to_have_attribute("data-step", str(mode.step))
        assert card.get_by_text("pattern", exact=True).is_visible()
        assert card.locator(".track .m").count() > 0


def test_lanes_show_wanted_and_done_actions(open_report) -> None:
    tab = open_report()
    player = tab.page.locator("header .player:visible")
    assert player.locator(".track.lane canvas").count() == 2
    assert colours(tab.page, "header .player .track.lane canvas") > 2
    assert "wanted (upper half)" in player.locator(".track.lane canvas").first.get_attribute("aria-label")


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_every_chart_is_drawn_and_offers_its_data(open_report, viewport) -> None:
    tab = open_report(viewport)
    tab.page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    charts = tab.page.evaluate("JSON.parse(document.getElementById('charts').textContent)")
    figures = tab.page.locator("figure[data-chart]")
    assert {"effects", "seeds", "states", "returns", "gain"} <= set(charts)
    for figure in figures.all():
        data = charts[figure.get_attribute("data-chart")]
        sync_api.expect(figure.locator("svg").first).to_be_visible()
        assert figure.get_attribute("aria-label") == data["label"]
        assert figure.locator("a.csv").get_attribute("href").count("%0A") == len(data["rows"])
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]


def test_a_chart_zooms_by_mouse_and_by_keyboard_and_back(open_report) -> None:
    page = open_report().page
    figure = page.locator("figure[data-chart=seeds]")
    axes = "figure => ['x', 'y'].map(name => figure.querySelector('.drawn').firstChild.scale(name).domain)"
    whole = figure.evaluate(axes)
    figure.scroll_into_view_if_needed()
    box = figure.locator("svg").first.bounding_box()
    left, top = box["x"] + 150, box["y"] + 150
    page.mouse.move(left, top)
    page.mouse.down()
    page.mouse.move(left + 100, top + 80, steps=4)
    assert figure.locator(".zoom-frame").is_visible()
    page.mouse.up()
    drawn = figure.evaluate(axes)
    for (low, high), (first, last) in zip(whole, drawn, strict=True):
        assert low < first < last < high
    figure.get_by_role("button", name="Whole chart").press("Enter")
    assert figure.evaluate(axes) == whole
    figure.get_by_role("button", name="Zoom in").press("Enter")
    halved = figure.evaluate(axes)
    for (low, high), (first, last) in zip(whole, halved, strict=True):
        assert last - first == pytest.approx((high - low) / 2)


def test_play_and_pause(open_report) -> None:
    tab = open_report()
    player = tab.page.locator(".player").first
    player.get_by_label("speed").select_option("40")
    start = tab.step()
    player.get_by_role("button", name="Play").click()
    sync_api.expect(player).not_to_have_attribute("data-step", str(start), timeout=20_000)
    player.get_by_role("button", name="Pause").click()
    stopped = tab.step()
    tab.page.wait_for_timeout(150)
    assert tab.step() == stopped


def test_a_click_on_the_timeline_and_the_keys_go_there(open_report) -> None:
    tab = open_report()
    player = tab.page.locator(".player").first
    track = player.locator(".track.guided")
    box = track.bounding_box()
    last = int(player.get_by_label("step", exact=True).get_attribute("max"))
    track.click(position={"x": box["width"] - 1, "y": box["height"] / 2})
    assert tab.step() >= last - 2
    player.press("ArrowLeft")
    there = tab.step()
    player.press("ArrowLeft")
    assert tab.step() == there - 1


def test_tabs_show_one_panel_at_a_time(open_report) -> None:
    tab = open_report()
    tabs = tab.page.locator("#importances [role=tab]")
    tabs.nth(2).click()
    panels = tab.page.locator("#importances [role=tabpanel]")
    assert [panels.nth(i).is_visible() for i in range(5)] == [False, False, True, False, False]
    watch = tab.page.locator("#watch [role=tab]")
    watch.nth(1).click()
    assert colours(tab.page, "#watch [role=tabpanel]:not([hidden]) canvas") > 5


def test_weakness_cards_open_with_a_replay(open_report) -> None:
    tab = open_report()
    cards = tab.page.locator("#weaknesses > details.weak")
    assert cards.first.get_attribute("open") is not None
    assert colours(tab.page, "#weaknesses details.weak[open] canvas") > 5
    if cards.count() > 1:
        cards.nth(1).locator("summary").first.click()
        cards.nth(1).locator("canvas").first.wait_for()


def test_conditions_light_up_as_they_hold_and_lead_to_the_weakness(open_report) -> None:
    tab = open_report()
    player = tab.page.locator(".player").first
    player.get_by_role("button", name="next step in").click()
    lamps = player.locator(".side.guided .lamps")
    assert lamps.locator(".lamp").count() == lamps.locator(".lamp.on").count() > 0
    assert lamps.inner_text().startswith("The rule: ")
    lit = {tab.page.evaluate(f"""() => {{
        const player = document.querySelector(".player").player;
        player.show({step});
        return document.querySelectorAll(".player .side.guided .lamp.on").length;
    }}""") for step in range(30)}  # fmt: skip
    assert len(lit) > 1
    lamps.get_by_role("link").click()
    assert "#weakness-" in tab.page.url
    assert tab.page.locator(f"{'#' + tab.page.url.partition('#')[2]}").get_attribute("open") is not None


def test_a_tap_explains_a_figure(open_report) -> None:
    tab = open_report()
    tab.page.locator("#weaknesses details.weak[open] details.more:has(.chips) > summary").first.click()
    chips = tab.page.locator("#weaknesses details.weak[open] .chips").first
    chip = chips.locator(".chip").first
    chip.click()
    help_text = tab.page.locator("#weaknesses details.weak[open] .chip-help").first
    assert help_text.inner_text() == f"{chip.inner_text()}: {chip.get_attribute('title')}."
    chip.click()
    assert help_text.is_hidden()


def test_features_are_shown_where_nothing_can_be_drawn(open_report, mirror, tmp_path) -> None:
    tab = open_report(path=write_report(mirror, tmp_path / "report.html"))
    replay = tab.page.evaluate("JSON.parse(document.getElementById('replays').textContent)[0]")
    names, row = replay["layout"]["features"], replay["sides"][0]["frames"]["rows"][tab.step()]
    shown = tab.page.locator(".player .values").first.inner_text().split("\n")
    assert shown[::2] == names
    assert [float(text) for text in shown[1::2]] == row
