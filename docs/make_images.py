"""Draw the pictures of the documents: ``python docs/make_images.py [STUDY [WHAT …]]``.

The report, the workbench and the terminal are pictured from the study of ``make demo``, which is run in a temporary
folder. STUDY names the folder of a finished study to take instead, without a picture of the terminal; WHAT draws only
some of "level", "report" and "workbench". Chromium takes the pictures; ``LEGIBLE_CHROMIUM`` names another one.
"""

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gymnasium
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright
from rich.console import Console
from rich.text import Text

import legible  # noqa: F401 (registers the environments)

HERE = Path(__file__).parent / "images"
ROOT = Path(__file__).parents[1]
COLUMNS = 100
COLOURS = 256


def pacman_small() -> None:
    """The small level a few steps into an episode, one capsule eaten."""
    env = gymnasium.make("legible/PacmanSmall-v0", render_mode="rgb_array")
    env.reset(seed=4)
    for action in "WWWWWNNW":
        env.step("NSEW".index(action))
    Image.fromarray(env.render()).save(HERE / "pacman-small.png", optimize=True)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    path = os.environ.get("LEGIBLE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--headless", "--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def shrink(path: Path) -> None:
    """Few colours are enough for text and diagrams, as long as rare ones are among them."""
    Image.open(path).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE).save(path, optimize=True)


def open_page(browser: Browser, address: str, width: int, height: int) -> Page:
    """Open a page at twice the usual sharpness."""
    page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=1.5)
    page.goto(address)
    page.wait_for_timeout(500)
    return page


def report(browser: Browser, study: Path) -> None:
    """The report on a desk and on a phone, and one of its replays."""
    address = (study / "report.html").resolve().as_uri()
    desk = open_page(browser, address, 1180, 1080)
    desk.screenshot(path=HERE / "report.png")
    desk.evaluate("document.querySelector('nav').style.position = 'static'")  # it would lie over tall pictures
    replay = desk.locator("#weaknesses details.weak[open] .player, #watch .player").first
    replay.screenshot(path=HERE / "report-replay.png")
    desk.locator("#weaknesses details.weak").first.screenshot(path=HERE / "report-weakness.png")
    phone = open_page(browser, address, 390, 844)
    phone.locator("#watch").scroll_into_view_if_needed()
    phone.evaluate("document.querySelector('#watch').scrollIntoView()")
    phone.wait_for_timeout(700)
    phone.screenshot(path=HERE / "report-phone.png")
    for name in ("report", "report-replay", "report-weakness", "report-phone"):
        shrink(HERE / f"{name}.png")


@contextmanager
def opened(study: Path) -> Iterator[str]:
    """Open the workbench of a study; give its address."""
    command = [sys.executable, "-m", "legible", "open", "--no-browser", str(study)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)


def workbench(browser: Browser, study: Path) -> None:
    """The views of the workbench: a rule and its verdict, the costliest decision of an episode, and states."""
    with opened(study) as address:
        page = open_page(browser, address, 1100, 820)

        def take(name: str) -> None:
            page.wait_for_timeout(400)
            page.screenshot(path=HERE / f"workbench-{name}.png")
            shrink(HERE / f"workbench-{name}.png")

        def go(view: str, shown: str) -> None:
            page.click(f"nav a[href='#{view}']")
            page.wait_for_selector(shown)

        page.wait_for_selector("#view-overview h1")
        take("overview")
        go("bench", "#rule")
        page.fill("#rule", "-North <- ghost0.path.north & ghost0.length < 3 & not ghost0.scared")
        page.keyboard.press("Escape")
        page.wait_for_selector(".slider")
        take("rule")
        page.keyboard.press("Enter")
        page.wait_for_selector("#result[data-kind=verdict]")
        page.evaluate("document.querySelector('#result').scrollIntoView()")
        take("verdict")
        page.fill("#rule", "")
        go("episodes", "#scan")
        page.click("#scan")
        page.wait_for_selector("#futures .player")
        page.evaluate("document.querySelector('#episode').scrollIntoView()")
        take("episode")
        page.click("#repeat")
        page.wait_for_selector("#repeated")
        page.evaluate("document.querySelector('#futures').scrollIntoView()")
        take("branch")
        go("states", "#filter")
        page.fill("#filter", "+North <- ghost0.path.north & ghost0.length < 3 & not ghost0.scared")
        page.keyboard.press("Escape")
        take("states")


def demo_command() -> list[str]:
    """The command of ``make demo``, without the folder that it writes to."""
    done = subprocess.run(["make", "--dry-run", "demo"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = re.search(r"\S*/(legible run .*)", done.stdout.replace("\\\n", " "))
    if not found:
        raise SystemExit("make demo: there is no 'legible run' in it.")
    words = shlex.split(found[1])
    if "--out" in words:
        del words[words.index("--out") : words.index("--out") + 2]
    return words


def run_study(folder: Path) -> str:
    """Run the study of the demo and return what a terminal shows at its end, the command first."""
    command = [*demo_command(), "--out", folder.name]
    settings = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    program = str(Path(sys.executable).parent / command[0])
    done = subprocess.run(
        [program, *command[1:]], cwd=folder.parent, env=settings, capture_output=True, text=True, check=True
    )
    return f"$ {shlex.join(command)}\n{last_bars(done.stderr)}{done.stdout}"


def last_bars(progress: str) -> str:
    """Remarks, and of all progress bars that were drawn over each other the last ones."""
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[(\?25[hl]|\d*[AK])", "\n", progress))
    remarks = dict.fromkeys(line for line in lines if line.strip() and "━" not in line)
    bars = progress.rpartition("\x1b[2K")[2].replace("\x1b[?25h", "")
    return "\n".join([*remarks, *(line for line in bars.splitlines() if "━" in line)]) + "\n"


def terminal(browser: Browser, output: str, folder: Path) -> None:
    """The end of ``legible run`` as a terminal shows it."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(output))
    body = console.export_html(inline_styles=True, code_format="{code}")
    page = (
        "<meta charset=utf-8><body style='margin:0;background:#16191d;color:#e8eaed;width:max-content'>"
        f"<pre style='margin:0;padding:18px 22px;font:14px/1.4 monospace'>{body}</pre>"
    )
    source = folder / "terminal.html"
    source.write_text(page, encoding="utf-8")
    shown = open_page(browser, source.as_uri(), 1000, 600)
    shown.locator("body").screenshot(path=HERE / "terminal.png")
    shrink(HERE / "terminal.png")


def main(study: Path | None, chosen: list[str]) -> None:
    """Make all pictures, or some; the terminal's only when the study is run here."""
    HERE.mkdir(exist_ok=True)
    if not chosen or "level" in chosen:
        pacman_small()
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        if study is None:
            study = Path(name) / "demo"
            terminal(browser, run_study(study), Path(name))
        for name_of_part, draw in {"report": report, "workbench": workbench}.items():
            if not chosen or name_of_part in chosen:
                draw(browser, study)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None, sys.argv[2:])
