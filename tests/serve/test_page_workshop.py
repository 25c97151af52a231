"""The Workshop tab in a real browser: mark, watch the query grow, drag its length, why-not, tune, learn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from test_page import Page, open_page, serious  # noqa: F401


def search(page: Page, query: str) -> Any:
    shown = page.page
    shown.fill("#workshop-query", query)
    with shown.expect_response("**/api/search"):
        shown.press("#workshop-query", "Enter")
    shown.wait_for_selector(".hit")
    return shown


def mark(shown: Any, id: str, kind: str = "yes") -> None:
    with shown.expect_response("**/api/workshop/thumbs"):
        shown.click(f".hit[data-id='{id}'] .mark.{kind}")
    shown.wait_for_selector(f".hit[data-id='{id}'] .mark.{kind}[aria-pressed=true]")


def test_marks_stay_while_searching_and_the_query_for_them_grows_and_is_dragged(
    open_page: Callable[..., Page],  # noqa: F811
) -> None:
    page = open_page()
    page.open("#/workshop")
    shown = search(page, "keeper lamp")
    mark(shown, "ardle-1")
    mark(shown, "brisk-2")
    mark(shown, "dunmore-1", "no")
    shown = search(page, "ship reef")
    mark(shown, "corran-2")
    assert shown.locator("#mark-count").inner_text().startswith("3 relevant, 1 not relevant")
    shown.click("#find-query")
    shown.wait_for_selector(".found-query table")
    assert shown.locator(".chart .dot").count() >= 2
    longest = shown.locator("#found-boolean").inner_text()
    shown.focus("#query-length")
    shown.keyboard.press("Home")
    shortest = shown.locator("#found-boolean").inner_text()
    assert len(shortest) < len(longest)
    assert "1 clause" in shown.locator(".length").inner_text()
    shown.keyboard.press("ArrowRight")
    assert "2 clauses" in shown.locator(".length").inner_text()
    assert shown.locator(".moves").inner_text().startswith("Enters")
    with shown.expect_response("**/api/search"):
        shown.click("#use-query")
    shown.wait_for_selector(".hit.relevant")
    shown.reload()
    shown.wait_for_selector("#mark-count b")
    assert shown.locator("#mark-count").inner_text().startswith("3 relevant")


def test_why_not_by_id_and_its_smallest_edit_is_applied_by_one_click(
    open_page: Callable[..., Page],  # noqa: F811
) -> None:
    page = open_page()
    page.open("#/workshop")
    shown = search(page, "keeper lamp storm")
    shown.fill("#workshop-id", "eider-2")
    shown.press("#workshop-id", "Enter")
    shown.wait_for_selector(".miss .verdict")
    assert "does not match" in shown.locator(".verdict").first.inner_text()
    with shown.expect_response("**/api/search"):
        shown.locator(".apply-edit").first.click()
    shown.wait_for_selector(".hit[data-id='eider-2']")
    first = shown.eval_on_selector_all(".hit", "all => all.slice(0, 5).map(each => each.dataset.id)")
    assert "eider-2" in first
    shown.locator(".why-not").first.click()
    shown.wait_for_selector(".miss .verdict")
    assert "It is found: rank 1" in shown.locator(".miss .verdict").inner_text()


QUESTIONS = {
    "lamp keeper": "ardle-1", "red tower": "ardle-2", "whale oil": "brisk-1", "foghorn": "brisk-2",
    "ship reef": "corran-2", "painters birds": "eider-2",
}  # fmt: skip


def test_curves_come_from_files_and_a_proposal_is_shown_before_it_is_switched_on(
    open_page: Callable[..., Page],  # noqa: F811
    tmp_path: Path,
) -> None:
    page = open_page()
    shown = page.open("#/workshop")
    shown.click("#learn")
    shown.wait_for_selector(".tool .problem")
    assert "5 or more" in shown.locator(".tool .problem").inner_text()
    rows = [{"_id": str(n), "text": text} for n, text in enumerate(QUESTIONS)]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, rows)))
    lines = [f"{n}\t{id}\t1" for n, id in enumerate(QUESTIONS.values())]
    (tmp_path / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]))
    shown.set_input_files("#judged-files", [tmp_path / "queries.jsonl", tmp_path / "test.tsv"])
    shown.wait_for_selector("#tuning-verdict")
    assert shown.locator(".curves figure").count() == 4
    assert "6 questions" in shown.locator(".tool", has=shown.locator("#tuning-verdict")).inner_text()
    for question, id in QUESTIONS.items():
        search(page, question)
        mark(shown, id)
    shown.click("#learn")
    shown.wait_for_selector("#learn-verdict")
    assert shown.locator("#workshop-learned").is_hidden()
    shown.click("#switch-learned")
    shown.wait_for_selector("#switch-learned[aria-pressed=true]")
    with shown.expect_response("**/api/search") as response:
        shown.check("#workshop-learned")
    assert json.loads(response.value.request.post_data)["learned"] is True
    shown.click("#switch-learned")
    shown.wait_for_selector("#switch-learned[aria-pressed=false]")
    assert shown.locator("#workshop-learned").is_hidden()
    page.complaints = [said for said in page.complaints if "422" not in said]


def test_thumbs_on_a_card_are_kept_as_judgements_of_the_question(open_page: Callable[..., Page]) -> None:  # noqa: F811
    page = open_page()
    shown = page.ask()
    with shown.expect_response("**/api/workshop/thumbs") as response:
        shown.locator(".card .thumb").first.click()
    assert response.value.json()["thumb"] == 1
    shown.wait_for_selector(".card .thumb[aria-pressed=true]")


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_workshop_fits_the_screen_and_axe_is_content(
    open_page: Callable[..., Page],  # noqa: F811
    width: int,
    scheme: str,
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    script = Path(axe.__file__).parent / "axe.min.js"
    page = open_page({"viewport": {"width": width, "height": 844}, "color_scheme": scheme, "bypass_csp": True})
    page.open("#/workshop")
    shown = search(page, "keeper lamp storm")
    mark(shown, "ardle-1")
    mark(shown, "dunmore-1", "no")
    shown.click("#find-query")
    shown.wait_for_selector(".found-query table")
    shown.fill("#workshop-id", "eider-2")
    shown.press("#workshop-id", "Enter")
    shown.wait_for_selector(".apply-edit")
    assert serious(shown, script) == []
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
