"""The pictures of docs/workbench.md, taken from a running workbench: python tools/screenshots.py [--reader DIR]

Needs Chromium, playwright and the extras serve and eval. The bundled corpus is searched by the shipped reader.
"""

from __future__ import annotations

import argparse
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "pictures"
DOCUMENTS = ROOT / "docs"  # its pages are dropped on the page
QUESTION = "which contractor's portrait was the first to go through the alpine railway bore"
ANSWER = "Louis Favre"
RAILWAYS = "b-gotthard-1 b-bam-1 b-canpac-1 d-locomotion d-forth-bridge d-rocket b-transsib-1 b-garabit-1"
WATERWAYS = "b-midi-1 b-kiel-1 a-bosporus-1"
BROWSER = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
).split()
DESKTOP = {"width": 1280, "height": 860}
PHONE = {"width": 390, "height": 844}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--reader", help="folder of a reader; none: the shipped one")
    options.add_argument("--agent", default="prf-idf-t", help="the agent that is shown")
    options.add_argument("--out", type=Path, default=PICTURES)
    given = options.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium found; on Debian: apt install chromium")
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        evaluation = evaluated(Path(folder) / "evaluated", given.reader)
        with serving(Path(folder) / "saved", evaluation, given.reader) as address, sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=BROWSER)
            take_all(browser, address, given.out, given.agent)
            browser.close()
    print(f"{len(list(given.out.glob('*.png')))} pictures in {given.out}")


def take_all(browser: Any, address: str, out: Path, agent: str) -> None:
    page = browser.new_context(viewport=DESKTOP).new_page()
    page.goto(address)
    page.wait_for_selector(".example")
    page.screenshot(path=out / "ask.png")
    ask(page, agent)
    page.screenshot(path=out / "session.png")
    page.locator(".card .text .w").nth(6).click()
    page.wait_for_selector(".menu")
    page.screenshot(path=out / "refine.png")
    page.click(".menu [data-op='+']")
    page.wait_for_selector(".who")
    settle(page)
    page.screenshot(path=out / "refined.png")
    page.locator(".why-button").first.click()
    page.wait_for_selector(".why")
    page.locator(".card").first.screenshot(path=out / "why.png")
    session = page.url
    page.goto(f"{address}#/compare")
    page.wait_for_selector("#ask-agent-1")
    page.fill("#ask-question", QUESTION)
    page.fill("#ask-answers", ANSWER)
    page.select_option("#ask-agent-1", agent)
    page.press("#ask-question", "Enter")
    page.wait_for_url(re.compile("compare/.+/.+"), timeout=120_000)
    settle(page)
    page.screenshot(path=out / "compare.png")
    page.goto(f"{address}#/gallery")
    page.wait_for_selector(".row")
    page.screenshot(path=out / "gallery.png")
    for name, context in (
        ("dark", {"viewport": DESKTOP, "color_scheme": "dark"}),
        ("phone", {"viewport": PHONE, "device_scale_factor": 2}),
    ):
        other = browser.new_context(**context).new_page()
        other.goto(session)
        other.wait_for_selector(".card")
        settle(other)
        other.screenshot(path=out / f"{name}.png")
    documents(browser, address, out)
    workshop(browser, address, out)


def documents(browser: Any, address: str, out: Path) -> None:
    """Files are dropped, the index is filtered and asked, and an answer is opened at its page."""
    page = browser.new_context(viewport=DESKTOP).new_page()
    page.set_default_timeout(120_000)
    page.goto(address)
    page.wait_for_selector("#own-files", state="attached")
    texts = [*sorted(DOCUMENTS.glob("*.md")), ROOT / "constraints.txt", ROOT / "Makefile"]
    page.set_input_files("#own-files", texts)
    page.wait_for_selector(".built")
    page.wait_for_selector(".facet-value")
    page.screenshot(path=out / "documents.png")


def workshop(browser: Any, address: str, out: Path) -> None:
    """Railways are marked as wanted and waterways as not, their query is found, and a miss is explained."""
    page = browser.new_context(viewport={"width": 1280, "height": 1120}).new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{address}#/workshop")
    page.fill("#workshop-query", "alpine railway tunnel")
    page.press("#workshop-query", "Enter")
    page.wait_for_selector(".hit")
    for id in RAILWAYS.split():
        page.click(f".hit[data-id='{id}'] .mark.yes")
    for id in WATERWAYS.split():
        page.click(f".hit[data-id='{id}'] .mark.no")
    page.click("#find-query")
    page.wait_for_selector(".found-query table")
    page.locator(".hit", has_text="Thames Tunnel").locator(".why-not").click()
    page.wait_for_selector(".apply-edit")
    page.evaluate("scrollTo(0, 0)")
    page.screenshot(path=out / "workshop.png")


def ask(page: Page, agent: str) -> None:
    page.fill("#ask-question", QUESTION)
    page.fill("#ask-answers", ANSWER)
    page.select_option("#ask-agent-0", agent)
    page.press("#ask-question", "Enter")
    page.wait_for_selector("article.panel[aria-busy=false] .card", timeout=120_000)
    settle(page)


def settle(page: Page) -> None:
    """Until the cards have come to rest."""
    page.wait_for_timeout(700)


def evaluated(folder: Path, reader: str | None) -> Path:
    """A small evaluation for the gallery: sixty of the bundled questions."""
    from orienteer.bundled import bundled_engine, bundled_questions
    from orienteer.evaluation import evaluate
    from orienteer.reader import CachedReader, TrainedReader
    from orienteer.session import Settings

    agents = ["bm25", "bm25+ps", "prf-idf-t", "prf-answer"]
    trained = CachedReader(TrainedReader.from_pretrained(reader))
    questions = bundled_questions("test")[::5][:60]
    evaluate(bundled_engine(), trained, questions, agents, folder, settings=Settings(steps=5), figures=False)
    return folder


@contextmanager
def serving(saved: Path, evaluation: Path, reader: str | None) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["orienteer", "serve", "--port", str(port), "--sessions", str(saved), "--evaluation", str(evaluation)]
    program = Path(sys.executable).with_name(command[0])
    process = subprocess.Popen([str(program), *command[1:], *(["--reader", reader] if reader else [])])
    address = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(600):
            try:
                with urlopen(f"{address}ready"):
                    break
            except (URLError, OSError):
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    main()
