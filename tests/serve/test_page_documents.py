"""One's own documents in a real browser: drop, build, filter, open at the page, cite; on a phone too."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_page import Page, open_page, serious  # noqa: F401
from test_serve_sources import PAGES, write_pdf

NOTES = b"# Lamps\n\nThe lamp of Corrie Point was mended by Anders Vik in May.\n"
DROP = """async ([selector, files]) => {
    const data = new DataTransfer();
    for (const [name, text] of files) {
        data.items.add(new File([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], name));
    }
    const target = document.querySelector(selector);
    target.dispatchEvent(new DragEvent("dragover", { dataTransfer: data, bubbles: true, cancelable: true }));
    target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""


def files(tmp_path: Path) -> dict[str, bytes]:
    write_pdf(tmp_path / "lamps.pdf", PAGES)
    return {"lamps.pdf": (tmp_path / "lamps.pdf").read_bytes(), "notes.md": NOTES, "film.mp4": b"0000"}


def drop(page: Page, dropped: dict[str, bytes]) -> Any:
    shown = page.open()
    rows = [[name, base64.b64encode(data).decode()] for name, data in dropped.items()]
    shown.evaluate(DROP, ["#drop", rows])
    shown.wait_for_selector(".built")
    return shown


def test_dropped_files_are_built_filtered_asked_opened_at_their_page_and_cited(
    open_page: Callable[..., Page],  # noqa: F811
    tmp_path: Path,
) -> None:
    page = open_page({"permissions": ["clipboard-read", "clipboard-write"]}, uploads="temporary")
    shown = drop(page, files(tmp_path))
    assert "my documents is ready" in shown.locator(".built").inner_text()
    assert shown.locator(".unreadable li").inner_text() == "film.mp4: unknown type .mp4"
    assert shown.input_value("#ask-index") == "my documents"
    shown.wait_for_selector("[data-facet='type=pdf']")
    shown.click("[data-facet='type=pdf']")
    shown.wait_for_selector("[data-facet='type=pdf'][aria-pressed=true]")
    assert '"type"="pdf"' in shown.locator(".facet-sum").inner_text()
    shown.fill("#ask-question", "who lit the lamp")
    shown.fill("#ask-steps", "1")
    shown.select_option("#ask-agent-0", "prf-answer")
    shown.press("#ask-question", "Enter")
    page.wait_until_done()
    sources = shown.locator(".card .source").all_inner_texts()
    assert sources
    assert all(source.startswith("lamps.pdf, page") for source in sources)
    assert '"type"="pdf"' in shown.locator(".cost").inner_text()
    card = shown.locator(".card").first
    card.get_by_text("Copy citation").click()
    card.get_by_text("Copied").wait_for()
    assert "lamps.pdf, page" in shown.evaluate("navigator.clipboard.readText()")
    card.get_by_text("Open in its document").click()
    picture = shown.locator("dialog .pdf-page")
    picture.wait_for()
    assert shown.evaluate("document.querySelector('.pdf-page').decode().then(() => true)")
    assert picture.evaluate("each => each.naturalWidth") > 800
    assert "#page=" in shown.locator("dialog .pdf a").get_attribute("href")
    shown.keyboard.press("Escape")
    shown.click("[data-facet='type=md']")  # asked again, behind both types
    shown.wait_for_selector('.cost:has-text(\'"type"="md"\')')
    page.wait_until_done()
    shown.click("[data-facet='type=pdf']")  # taken back
    shown.wait_for_selector(".cost:not(:has-text('pdf'))")
    page.wait_until_done()
    assert shown.locator(".card .source").all_inner_texts() == ["notes.md"]


def test_files_are_picked_where_nothing_can_be_dropped_and_a_refusal_is_told(
    open_page: Callable[..., Page],  # noqa: F811
    tmp_path: Path,
) -> None:
    page = open_page(uploads="temporary")
    shown = page.open()
    (tmp_path / "notes.md").write_bytes(NOTES)
    (tmp_path / "film.mp4").write_bytes(b"0000")
    shown.set_input_files("#own-files", tmp_path / "film.mp4")
    shown.wait_for_selector(".upload-state .problem")
    assert "unknown type .mp4" in shown.locator(".upload-state").inner_text()
    shown.set_input_files("#own-files", tmp_path / "notes.md")
    shown.wait_for_selector(".built")
    shown.locator(".example", has_text="what is Lamps").click()
    page.wait_until_done()
    assert "Anders Vik" in shown.locator(".card").first.inner_text()
    page.complaints = [said for said in page.complaints if "422" not in said]


def test_a_server_that_takes_no_files_shows_no_place_to_drop_them(open_page: Callable[..., Page]) -> None:  # noqa: F811
    assert open_page().open().locator("#drop").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone_documents_fit_the_screen_and_axe_is_content(
    open_page: Callable[..., Page],  # noqa: F811
    tmp_path: Path,
    scheme: str,
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    script = Path(axe.__file__).parent / "axe.min.js"
    context = {"viewport": {"width": 390, "height": 844}, "color_scheme": scheme, "bypass_csp": True}
    page = open_page(context, uploads="temporary")
    shown = drop(page, files(tmp_path))
    shown.wait_for_selector("[data-facet='type=pdf']")
    assert serious(shown, script) == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390
    shown.fill("#ask-question", "who lit the lamp")
    shown.fill("#ask-steps", "1")
    shown.select_option("#ask-agent-0", "prf-answer")
    shown.press("#ask-question", "Enter")
    page.wait_until_done()
    shown.get_by_text("Open in its document").first.click()
    shown.wait_for_selector("dialog.document")
    assert serious(shown, script) == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_required_word_can_narrow_what_is_shown(open_page: Callable[..., Page]) -> None:  # noqa: F811
    page = open_page()
    shown = page.ask()
    assert shown.locator(".narrow").is_hidden()
    shown.fill("#own-term", "reef")
    shown.press("#own-term", "Enter")
    shown.wait_for_selector(".query .chip.must")
    shown.check("#only-required")
    cards = shown.locator(".card").all_inner_texts()
    assert cards
    assert all("reef" in card.lower() for card in cards)
    shown.uncheck("#only-required")
    assert len(page.best()) == 5
