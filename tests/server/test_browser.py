"""The workbench in a real browser: rules, episodes, branches, states and the overview, on a phone too."""

import re
import shutil
import signal
from collections.abc import Iterator

import pytest

from server.programs import ARGUMENTS, CHROMIUM, Opened

pytest.importorskip("starlette", reason="the workbench is an extra")
sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
expect = sync_api.expect
expect.set_options(timeout=30_000)
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here to open the workbench with"),
    pytest.mark.subprocess,
]
VIEWS = ("overview", "bench", "episodes", "states")


class Tab:
    """A page of the workbench, and every error that it logged."""

    def __init__(self, context: sync_api.BrowserContext, address: str) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.errors: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.goto(address)
        self.page.wait_for_selector("header.top")

    def go(self, view: str) -> None:
        self.page.click(f"nav a[href='#{view}']")
        self.page.wait_for_selector(f"#view-{view}:not([hidden])")


@pytest.fixture(scope="module")
def opened(finished_study, tmp_path_factory) -> Iterator[Opened]:
    folder = shutil.copytree(finished_study, tmp_path_factory.mktemp("opened") / "s")
    opened = Opened(folder, "--trust")
    yield opened
    opened.process.send_signal(signal.SIGINT)
    assert opened.process.wait(15) == 0


@pytest.fixture(scope="module")
def context(opened) -> Iterator[sync_api.BrowserContext]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(viewport={"width": 1280, "height": 900})
        first = Tab(context, opened.address)
        first.page.wait_for_selector("#view-overview h1")
        assert "token" not in first.page.url, "the token is not left in the address"
        yield context
        browser.close()


@pytest.fixture
def tab(context, opened) -> Iterator[Tab]:
    tab = Tab(context, opened.address.partition("?")[0])
    yield tab
    tab.page.close()
    assert tab.errors == []


def test_a_rule_is_typed_tried_confirmed_saved_and_is_there_after_a_reload(tab) -> None:
    page = tab.page
    tab.go("bench")
    page.click("#rule")
    page.keyboard.type("avoid")
    page.wait_for_selector("#completions li")
    assert page.locator("#completions b").all_inner_texts() == ["-Left", "-Right", "-Stay"]
    page.keyboard.type(" lef")
    assert page.locator("#completions b").all_inner_texts() == ["-Left"]
    page.keyboard.press("Tab")
    assert page.input_value("#rule") == "-Left "
    assert page.locator("#completions b").all_inner_texts() == ["<-"]
    page.fill("#rule", "")
    page.keyboard.type("+Le")
    page.wait_for_selector("#completions li")
    page.keyboard.press("Tab")
    page.keyboard.type("<- lef")
    page.keyboard.press("Tab")
    assert page.input_value("#rule") == "+Left <- left "
    page.wait_for_selector(".work b")
    assert page.inner_text(".reading") == "Do “Left” when left."
    assert float(page.get_attribute(".work p", "data-ms")) < 100
    page.keyboard.press("Enter")
    page.wait_for_selector("#result[data-kind=verdict]")
    assert "It helps" in page.inner_text("#result .sentence")
    page.locator(".confirm").first.click()
    page.wait_for_selector("[data-confirmed=true]")
    card = page.locator("#result .card").first
    assert not card.locator(".confirm").is_visible(), "it is confirmed once"
    assert card.locator(".badge").inner_text() == "confirmed"
    assert page.inner_text("#result .tried") == "+Left <- left"
    card.locator(".save").click()
    expect(card).to_contain_text("Saved")
    card.locator(".export").click()
    expect(card.locator(".kept pre")).to_contain_text("[[weakness]]")
    page.fill("#rule", "+Left <- left & luck > 1")
    expect(page.locator("#old")).to_be_visible()
    page.fill("#rule", "+Left <- left")
    expect(page.locator("#old")).to_be_hidden()
    page.fill("#rule", "+Left <- left\n-Stay <- luck > 1")
    expect(page.locator("#related")).to_be_disabled()
    expect(page.locator("#forms")).to_contain_text("several rules")
    tab.go("overview")
    expect(page.locator("#before-changes")).to_contain_text("legible run")
    tab.go("bench")
    page.reload()
    page.wait_for_selector("#claims .badge.confirmed")
    assert "+Left <- left" in page.inner_text("#claims")


def test_a_slider_moves_a_threshold(tab) -> None:
    page = tab.page
    tab.go("bench")
    page.fill("#rule", "+Left <- left & luck > 1")
    page.wait_for_selector(".slider input")
    before = page.inner_text(".work b")
    page.locator(".slider input").evaluate("node => { node.value = -1; node.dispatchEvent(new Event('input')); }")
    expect(page.locator(".work b")).not_to_have_text(before)
    assert page.input_value("#rule").endswith("luck > -1")


def test_half_a_rule_is_explained_in_words(tab) -> None:
    tab.go("bench")
    tab.page.fill("#rule", "+Left <- lft")
    tab.page.wait_for_selector("#view-bench .error:not([hidden])")
    assert "Did you mean 'left'?" in tab.page.inner_text("#view-bench .error:not([hidden])")


def test_an_episode_is_scrubbed_and_branched(tab) -> None:
    page = tab.page
    tab.go("episodes")
    page.wait_for_selector("#scrub")
    page.locator("#scrub").evaluate("node => { node.value = 3; node.dispatchEvent(new Event('input')); }")
    assert page.get_attribute("#view-episodes", "data-step") == "3"
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("#view-episodes", "data-step") == "4"
    page.click(".prefs button:not([disabled])")
    page.wait_for_selector("#futures .player .track")
    assert page.locator("#futures .side").count() == 2
    assert "in this one future" in page.inner_text("#branch")
    page.click("#repeat")
    page.wait_for_selector("#repeated")
    assert "32 futures" in page.inner_text("#repeated")
    page.click("#scan")
    expect(page.locator("#scanned")).to_contain_text(re.compile("costliest|No other"))


def test_states_are_filtered_and_played_from(tab) -> None:
    page = tab.page
    tab.go("states")
    page.fill("#filter", "+Right <- left")
    actions = page.locator("#view-states tbody td:nth-child(4)")
    expect(actions.first).to_be_visible()
    expect(actions.filter(has_text="Left")).to_have_count(0)
    assert set(actions.all_inner_texts()) == {"Right"}
    step = page.inner_text("#view-states tbody tr:nth-child(2) td:nth-child(3)")
    page.click("#view-states tbody tr:nth-child(2) button")
    expect(page.locator("#view-episodes")).to_have_attribute("data-step", step)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_no_view_is_wider_than_the_screen(tab, width, scheme) -> None:
    tab.page.set_viewport_size({"width": width, "height": 844})
    tab.page.emulate_media(color_scheme=scheme)
    for view in VIEWS:
        tab.go(view)
        tab.page.wait_for_timeout(150)
        too_wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert tab.page.evaluate(too_wide) <= 0, view


def test_twenty_tabs_at_once(context, opened) -> None:
    tabs = [Tab(context, opened.address.partition("?")[0]) for _ in range(20)]
    for tab in tabs:
        tab.page.wait_for_selector("table.studies")
    tabs[-1].go("bench")
    tabs[-1].page.fill("#rule", "+Left <- left")
    tabs[-1].page.wait_for_selector(".work b")
    for tab in tabs:
        tab.page.close()
    assert [error for tab in tabs for error in tab.errors] == []


def test_the_page_says_when_the_workbench_has_stopped(context, policy_file) -> None:
    other = Opened("mirror_world:MirrorWorld", policy_file, "--relations", "none")
    page = context.new_page()
    page.goto(other.address)
    page.wait_for_selector("#rule", timeout=30_000)
    other.process.send_signal(signal.SIGINT)
    assert other.process.wait(15) == 0
    page.fill("#rule", "+Left <- left")
    page.wait_for_selector("#view-bench .error:not([hidden])", timeout=10_000)
    assert "legible open" in page.inner_text("#view-bench .error:not([hidden])")
    page.close()
