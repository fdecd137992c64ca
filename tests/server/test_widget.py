"""The workbench as a notebook's widget: messages in Python, and the page that a notebook would show."""

import queue
from collections.abc import Iterator

import pytest

pytest.importorskip("anywidget", reason="the workbench in a notebook is an extra")

import legible
from legible.engines import InProcess
from legible.errors import LegibleError
from legible.server.widget import WorkbenchWidget
from server.programs import ARGUMENTS, CHROMIUM
from small_studies import WORLD

RULE = "+Left <- left"
HOST = """<!doctype html><html lang="en"><meta charset="utf-8"><title>notebook</title><link rel="icon" href="data:,">
<body style="width: 60rem; color: %s; background: %s"><div id="cell"></div></body></html>"""
# What a notebook gives a widget: a model with its state, messages, and an element.
MODEL = """async () => {
  const heard = new Map(), state = { rule: window.rule };
  const on = (name, act) => heard.set(name, [...(heard.get(name) || []), act]);
  const tell = (name, value) => { for (const act of heard.get(name) || []) act(value); };
  const model = {
    on, off: (name, act) => heard.set(name, (heard.get(name) || []).filter((one) => one !== act)),
    get: (name) => state[name], set: (name, value) => { state[name] = value; }, save_changes: () => window.saved(state),
    send: (message) => window.give(message),
  };
  setInterval(async () => {
    const { messages, rule } = await window.heard();
    if (rule !== state.rule) { state.rule = rule; tell("change:rule"); }
    for (const message of messages) tell("msg:custom", message);
  }, 50);
  const { default: widget } = await import(URL.createObjectURL(new Blob([window.esm], { type: "text/javascript" })));
  window.cleanup = await widget.render({ model, el: document.getElementById("cell") });
}"""


class Kernel:
    """The other end of a widget: what it sends is kept, and messages are given to it."""

    def __init__(self, widget: WorkbenchWidget) -> None:
        self.widget, self.sent = widget, queue.Queue()
        widget.send = self.sent.put

    def ask(self, name: str, body: object, number: str = "1") -> list[object]:
        """Return the messages of an answer."""
        self.give({"number": number, "name": name, "body": body})
        found = []
        while (message := self.sent.get(timeout=60))["message"] is not None:
            assert message["number"] == number
            found.append(message["message"])
        return found

    def give(self, message: object) -> None:
        self.widget._handle_custom_msg(message, [])


@pytest.fixture
def kernel(policy_file) -> Iterator[Kernel]:
    widget = WorkbenchWidget(WORLD, policy_file, engine=InProcess(), relations="none", cache=False, rule=RULE)
    yield Kernel(widget)
    widget.close()


def test_the_verdict_is_that_of_try_to_the_bit(kernel, policy_file) -> None:
    *_, found = kernel.ask("try", {"rule": RULE})
    plain = legible.try_rule(WORLD, policy_file, RULE, engine=InProcess(), relations="none", cache=False).first
    (shown,) = found["rules"]
    assert found["kind"] == "verdict"
    assert (shown["effect"], shown["interval"]) == (plain.effect, [plain.interval.low, plain.interval.high])
    assert (shown["verdict"], shown["sentence"]) == (plain.verdict, plain.sentence())


def test_questions_are_answered_and_nonsense_is_refused_in_words(kernel) -> None:
    (about,) = kernel.ask("about", {})
    assert [action["name"] for action in about["actions"]] == ["Left", "Right", "Stay"]
    (read,) = kernel.ask("read", {"rule": RULE})
    assert read["words"] == ["Do “Left” when left"]
    for name, body in (("__class__", {}), ("episode", {"episode": 10**9}), ("try", {"rule": "+Left <- lft"})):
        *_, refused = kernel.ask(name, body)
        assert refused["kind"] == "error"
        assert refused["error"]


def test_a_play_is_stopped_by_its_number(kernel) -> None:
    kernel.give({"number": "7", "name": "try", "body": {"rule": "+Stay <- luck > 0.7"}})
    kernel.give({"number": "7", "stop": True})
    messages = [kernel.sent.get(timeout=60)["message"]]
    while messages[-1] is not None:
        messages.append(kernel.sent.get(timeout=60)["message"])
    assert "verdict" not in [message["kind"] for message in messages[:-1]]
    kernel.give({"number": "7", "stop": True})  # it has ended already


@pytest.mark.parametrize("words", [("CartPole-v1",), (WORLD, "no such file")])
def test_what_cannot_be_opened_is_an_error_of_the_cell(words) -> None:
    with pytest.raises(LegibleError):
        WorkbenchWidget(*words, engine=InProcess())


@pytest.mark.subprocess
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here to show the widget with")
def test_in_a_page_rules_are_tried_and_episodes_branched(kernel) -> None:
    sync_api = pytest.importorskip("playwright.sync_api", reason="the browser is driven by playwright")
    errors: list[str] = []

    def heard():
        waiting = [kernel.sent.get_nowait() for _ in range(kernel.sent.qsize())]
        return {"messages": waiting, "rule": kernel.widget.rule}

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.expose_function("give", kernel.give)
        page.expose_function("heard", heard)
        page.expose_function("saved", lambda state: kernel.widget.set_trait("rule", state["rule"]))
        page.set_content(HOST % ("#ddd", "#111"))
        page.evaluate("given => Object.assign(window, given)", {"esm": WorkbenchWidget._esm, "rule": RULE})
        page.evaluate(MODEL)

        assert page.input_value("#rule") == RULE, "the rule that Python set"
        page.press("#rule", "Enter")
        page.wait_for_selector("#result[data-kind=verdict]")
        assert "It helps" in page.inner_text("#result .sentence")
        assert page.evaluate("getComputedStyle(document.querySelector('#cell > div')).colorScheme") == "dark"

        page.fill("#rule", f"{RULE} & luck > 1")
        page.get_by_role("button", name="Watch where it fires").click()
        page.click(".prefs button:not([disabled])")
        page.wait_for_selector("#futures .player .track")
        page.click("#repeat")
        page.wait_for_selector("#repeated")
        assert kernel.widget.rule == f"{RULE} & luck > 1", "what was typed is known in Python"
        kernel.widget.rule = "-Right <- left"
        page.get_by_role("tab", name="Rule bench").click()
        page.wait_for_function(
            "() => document.querySelector('#cell > div').shadowRoot.querySelector('#rule').value === '-Right <- left'"
        )
        browser.close()
    assert errors == []
