"""The page in a real browser: ask, watch, refine, undo, branch, compare, explain, reload; a server that goes away."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lexical_reader import LexicalReader
from serving_world import TIMEOUT, GatedEngine, as_program
from small_world import QUESTIONS

from orienteer.data.passage import Passage
from orienteer.engine import EmbeddedEngine, ReferenceEngine, build_index, open_index
from orienteer.evaluation import evaluate
from orienteer.session import Settings

QUESTION = "who keeps the lamp on the rock"
XSS = [
    "<script>window.hurt = 1</script>",
    "<img src=x onerror='window.hurt = 2'>",
    "\"><svg onload='window.hurt = 3'>",
    "<iframe srcdoc='<script>parent.hurt = 4</script>'></iframe>",
    "javascript:window.hurt=5",
    "<a href='javascript:window.hurt=6'>lamp</a>",
    "{{constructor.constructor('window.hurt = 7')()}}",
    "</p><style>*{display:none}</style>",
    "<details open ontoggle='window.hurt = 9'>",
    "${window.hurt = 10}&lt;script&gt;",
]


class Page:
    """A page that writes down what a browser would complain of."""

    def __init__(self, browser: Any, address: str, **context: Any) -> None:
        self.address = address
        self.complaints: list[str] = []
        self.hosts: set[str] = set()
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page = self.context.new_page()
        self.page.set_default_timeout(1000 * TIMEOUT)
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.hosts.add(request.url.split("/")[2]))

    def open(self, path: str = "") -> Any:
        self.page.goto(self.address + path)
        self.page.wait_for_selector("main h1", state="attached")
        return self.page

    def ask(self, question: str = QUESTION, *, steps: int = 3, agent: str = "bm25+ps") -> Any:
        page = self.open()
        page.fill("#ask-question", question)
        page.fill("#ask-steps", str(steps))
        page.select_option("#ask-agent-0", agent)
        page.press("#ask-question", "Enter")
        self.wait_until_done()
        return page

    def wait_until_done(self) -> None:
        self.page.wait_for_selector("article.panel[aria-busy=false] .card")

    def best(self) -> list[str]:
        ids: list[str] = self.page.eval_on_selector_all(".card", "cards => cards.map(card => card.dataset.id)")
        return ids

    def steps(self) -> int:
        return int(self.page.locator(".step").count())


@pytest.fixture
def open_page(browser: Any, serve: Callable[..., str]) -> Iterator[Callable[..., Page]]:
    """Pages of a workbench; at the end no page may have complained or called another host."""
    pages: list[Page] = []

    def make(context: dict[str, Any] | None = None, **options: Any) -> Page:
        pages.append(Page(browser, serve(**options), **(context or {})))
        return pages[-1]

    yield make
    for each in pages:
        assert each.complaints == []
        assert each.hosts == {each.address.split("/")[2]}
        each.context.close()


def test_asked_the_page_shows_each_step_the_answer_and_the_cost(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask(steps=4, agent="prf-answer")
    assert page.steps() == 5
    assert len(page.best()) == 5
    assert shown.locator(".chip").count() >= 4
    assert shown.locator(".the-answer strong").inner_text() not in ("", "none found")
    assert "all steps taken" in shown.locator(".cost").inner_text()
    assert shown.locator(".card .ps-number").count() == 5
    assert "Mean PS" in shown.locator(".score").inner_text()


def test_the_session_is_seen_to_unfold(open_page: Callable[..., Page]) -> None:
    engine = GatedEngine(2)
    page = open_page(engines={"lighthouses": engine})
    shown = page.open()
    shown.fill("#ask-question", QUESTION)
    shown.select_option("#ask-agent-0", "prf-answer")
    shown.press("#ask-question", "Enter")
    shown.wait_for_selector(".step >> nth=1")
    assert page.steps() == 2
    assert shown.locator("#stop").is_visible()
    engine.gate.set()
    shown.wait_for_selector(".step >> nth=5")
    page.wait_until_done()
    assert page.steps() == 6


def test_a_running_agent_can_be_stopped_and_the_session_taken_over(open_page: Callable[..., Page]) -> None:
    engine = GatedEngine(2)
    page = open_page(engines={"lighthouses": engine})
    shown = page.open()
    shown.fill("#ask-question", QUESTION)
    shown.fill("#ask-steps", "30")
    shown.select_option("#ask-agent-0", "prf-answer")
    shown.press("#ask-question", "Enter")
    shown.wait_for_selector(".step >> nth=1")
    shown.click("#stop")
    page.wait_until_done()
    before = page.steps()
    assert before == 2
    engine.gate.set()
    shown.fill("#own-term", "storm")
    shown.press("#own-term", "Enter")
    shown.wait_for_selector(f".step >> nth={before}")


def test_a_click_on_a_word_refines_and_undo_takes_it_back(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask()
    first = page.best()
    shown.locator(".card .w", has_text=re.compile("^Tower$|^tower$")).first.click()
    shown.wait_for_selector(".menu")
    shown.click(".menu [data-op='-']")
    shown.wait_for_selector(".query .chip.not")
    shown.wait_for_selector(".step >> nth=1")
    assert page.best() != first
    assert "you" in shown.locator(".step").nth(1).inner_text()
    assert shown.locator(".moved.new").count() >= 1
    assert "Pushed out" in shown.locator(".pushed").inner_text()
    shown.click("#undo")
    shown.wait_for_selector(".step >> nth=2")
    assert shown.locator(".query .chip").count() == 0


def test_a_word_of_a_title_is_taken_from_the_title(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask()
    shown.locator(".card h3 .w").first.click()
    shown.click(".menu [data-weight='4']")
    shown.wait_for_selector(".query .chip.boost .field")


def test_everything_goes_by_keyboard(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.open()
    keyboard = shown.keyboard
    keyboard.type(QUESTION)
    keyboard.press("Enter")
    page.wait_until_done()
    before = page.steps()
    shown.locator("main").focus()
    keyboard.press("r")
    keyboard.type("storm")
    keyboard.press("Enter")
    shown.wait_for_selector(f".step >> nth={before}")
    shown.locator("main").focus()
    keyboard.press("u")
    shown.wait_for_selector(f".step >> nth={before + 1}")
    shown.locator("main").focus()
    keyboard.press("k")
    shown.wait_for_selector(f"[data-step='{before}'][aria-current]")
    keyboard.press("ArrowUp")
    shown.wait_for_selector(f"[data-step='{before - 1}'][aria-current]")
    keyboard.press("?")
    assert "hand back" in shown.locator("dialog").inner_text()
    keyboard.press("Escape")
    shown.wait_for_selector("dialog", state="detached")


def test_the_menu_of_a_word_is_closed_by_escape_and_walked_by_arrows(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask()
    shown.locator(".card .text .w").first.click()
    assert shown.evaluate("document.activeElement.dataset.op") == "+"
    shown.keyboard.press("ArrowRight")
    assert shown.evaluate("document.activeElement.dataset.op") == "-"
    shown.keyboard.press("Escape")
    assert shown.locator(".menu").count() == 0


def test_an_earlier_step_is_shown_and_refining_it_branches(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask(agent="prf-answer")
    address = shown.url
    shown.click("[data-step='1']")
    assert shown.locator(".query .chip").count() == 1
    shown.locator(".card .text .w").first.click()
    assert "starts a branch from step 1" in shown.locator(".menu").inner_text()
    shown.keyboard.press("Escape")
    shown.click("#branch")
    shown.wait_for_url(lambda url: url != address)
    assert page.steps() == 2


def test_handed_back_the_agent_goes_on(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask(steps=1, agent="prf-answer")
    shown.fill("#more-steps", "2")
    shown.click("#hand-back")
    shown.wait_for_selector(".step >> nth=3")
    page.wait_until_done()
    assert page.steps() == 4


def test_why_this_passage_is_explained_with_shares_and_the_questions_rank(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask()
    shown.locator(".why-button").first.click()
    explanation = shown.locator(".why").inner_text()
    assert "by the question alone rank" in explanation
    assert shown.locator(".why tbody tr").count() >= 1
    shown.locator(".why-button").first.click()
    shown.wait_for_selector(".why", state="detached")


def test_two_agents_are_compared_side_by_side(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.open("#/compare")
    shown.fill("#ask-question", QUESTION)
    shown.select_option("#ask-agent-0", "bm25")
    shown.select_option("#ask-agent-1", "prf-idf-t")
    shown.press("#ask-question", "Enter")
    shown.wait_for_url(re.compile(r"#/compare/.+/.+"))
    assert shown.locator(".side-title").all_inner_texts() == ["bm25", "prf-idf-t"]
    assert "in common" in shown.locator(".summary").inner_text()
    shown.reload()
    shown.wait_for_selector(".card")
    assert shown.locator("article.panel").count() == 2


def test_a_reloaded_page_shows_the_same_session(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask(agent="prf-answer")
    before = page.best()
    shown.reload()
    page.wait_until_done()
    assert page.best() == before
    assert shown.input_value("#ask-question") == QUESTION


def test_a_session_is_saved_shared_as_a_file_and_opened_from_it(open_page: Callable[..., Page], tmp_path: Path) -> None:
    page = open_page()
    shown = page.ask(agent="prf-answer")
    best = page.best()
    shown.click("#save")
    shown.wait_for_selector("#save:has-text('Saved')")
    with shown.expect_download() as download:
        shown.click("#share")
    file = tmp_path / "shared.jsonl"
    download.value.save_as(file)
    assert json.loads(file.read_text())["question"] == QUESTION
    shown.click("nav >> text=Sessions")
    shown.wait_for_selector(".badge:has-text('saved')")
    shown.set_input_files("#session-file", file)
    shown.wait_for_url(re.compile("#/session/"))
    page.wait_until_done()
    assert page.best() == best


def test_known_answers_give_a_score_and_colour_the_answer(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.open()
    shown.locator(".example", has_text=QUESTIONS[0].question).click()
    page.wait_until_done()
    assert shown.locator(".score").get_attribute("aria-label").startswith("Score")
    assert "expected: Maren Holt" in shown.locator(".the-answer").inner_text()
    assert shown.locator("mark.right, mark.wrong").count() >= 1


def test_the_gallery_is_filtered_and_its_sessions_open(
    open_page: Callable[..., Page], engine: EmbeddedEngine, tmp_path: Path
) -> None:
    evaluate(
        engine, LexicalReader(), QUESTIONS, ["bm25", "prf-idf-t"], tmp_path, settings=Settings(steps=3), figures=False
    )  # fmt: skip
    page = open_page(evaluation=tmp_path)
    shown = page.open("#/gallery")
    shown.wait_for_selector(".row")
    assert shown.locator(".figures tbody tr").count() == 2
    assert shown.locator(".row").count() == len(QUESTIONS)
    shown.click("[data-operator='-t']")
    shown.wait_for_selector("[data-operator='-t'][aria-pressed=true]")
    shown.fill("#gallery-text", "painted")
    shown.wait_for_selector("text=1 of 1 session")
    shown.click(".row-main")
    shown.wait_for_url(re.compile("#/session/"))
    page.wait_until_done()
    assert page.steps() == 4


def test_the_search_tree_behind_a_step_is_shown_and_walked_by_keys(
    open_page: Callable[..., Page], tree_searcher: str, tmp_path: Path
) -> None:
    page = open_page()
    shown = page.ask(agent=tree_searcher, steps=2)
    summary = shown.locator(".tree summary")
    assert summary.inner_text() == "Search tree: 32 visits · value 0.60"
    summary.focus()
    shown.keyboard.press("Enter")
    items = shown.locator(".tree [role=treeitem]:visible")
    assert items.count() == 4  # those that were visited; the one taken is unfolded
    assert "31 visits · value 0.63 · prior 0.40" in items.first.inner_text()
    assert shown.locator(".tree .taken").count() == 1
    shown.keyboard.press("Tab")
    for key, number, at in (
        ("ArrowLeft", 2, 0), ("ArrowRight", 4, 0), ("ArrowRight", 4, 1), ("ArrowDown", 4, 2), ("End", 4, 3),
        ("Home", 4, 0), ("ArrowDown", 4, 1), ("ArrowLeft", 4, 0), ("ArrowLeft", 2, 0), ("Enter", 4, 0), (" ", 2, 0),
    ):  # fmt: skip
        shown.keyboard.press(key)
        assert items.count() == number, key
        assert items.nth(at).evaluate("node => node === document.activeElement"), key
    shown.click("[data-step='1']")
    assert shown.locator(".tree[open]").count() == 1  # the step before has its own, and it is unfolded too
    with shown.expect_download() as download:
        shown.click("#share")
    shown.click("nav >> text=Sessions")
    shown.set_input_files("#session-file", download.value.path())
    shown.wait_for_url(re.compile("#/session/"))
    page.wait_until_done()
    assert "32 visits" in shown.locator(".tree summary").inner_text()
    shown.click("[data-step='0']")
    shown.wait_for_selector(".tree", state="detached")


def test_what_an_agent_considered_is_shown(open_page: Callable[..., Page], tmp_path: Path) -> None:
    page = open_page()
    shown = page.ask(agent="prf-answer", steps=1)
    with shown.expect_download() as download:
        shown.click("#share")
    row = json.loads(Path(download.value.path()).read_text())
    row["steps"][1]["notes"] = {"likeliest": [['+(contents:"lamp")', 0.75], ["<b>", 0.25], "odd"], "stop": 0.01}
    file = tmp_path / "noted.jsonl"
    file.write_text(json.dumps(row))
    shown.click("nav >> text=Sessions")
    shown.set_input_files("#session-file", file)
    shown.click(".considered summary")
    assert "stop 0.01" in shown.locator(".considered summary").inner_text()
    assert shown.locator(".considered code").all_inner_texts() == ['+(contents:"lamp")', "<b>"]


def test_xss_in_passages_titles_and_questions_is_shown_as_text(open_page: Callable[..., Page]) -> None:
    passages = [Passage(f"<b>{n}</b>", f"{text} title {n}", f"lamp {n} {text} keeper") for n, text in enumerate(XSS)]
    page = open_page(engines={"<i>hostile</i>": ReferenceEngine(passages)})
    for n, text in enumerate(XSS):
        shown = page.ask(f"lamp {n} {text}", steps=1, agent="prf-answer")
        assert text in shown.locator(".query .words").inner_text()
        assert text in shown.locator(".card h3").all_inner_texts()[0] + shown.locator(".best").inner_text()
        shown.locator(".why-button").first.click()
        shown.wait_for_selector(".why")
        shown.click("#save")
        shown.wait_for_selector("#save:has-text('Saved')")
        assert shown.evaluate("window.hurt") is None
        assert shown.locator("main script, main img, main iframe, main a[href^=javascript], main style").count() == 0
    shown = page.open("#/sessions")
    shown.wait_for_selector(".row")
    assert XSS[0] in shown.locator(".rows").inner_text()
    assert shown.evaluate("window.hurt") is None


def test_a_mistake_is_explained_in_words(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask()
    shown.fill("#own-term", "the")
    shown.press("#own-term", "Enter")
    shown.wait_for_selector("#banner:not([hidden])")
    assert "no index term" in shown.locator("#banner").inner_text()
    # The browser itself writes a refused request to the console; nothing else may stand there.
    page.complaints = [said for said in page.complaints if "422" not in said]


def test_a_server_that_goes_away_is_announced_and_comes_back(browser: Any, tmp_path: Path) -> None:
    with as_program(tmp_path, refinements=2) as (address, process):
        page = Page(browser, address)
        shown = page.ask(steps=1, agent="prf-answer")
        shown.click("#save")
        shown.wait_for_selector("#save:has-text('Saved')")
        saved = shown.url
        shown.fill("#ask-steps", "30")
        shown.press("#ask-question", "Enter")
        shown.wait_for_selector("#stop")
        shown.wait_for_selector(".step >> nth=1")
        process.kill()
        shown.wait_for_selector("#banner.gone:not([hidden])")
        assert "went away" in shown.locator("#banner").inner_text()
        assert shown.locator(".card").count() == 5
    with as_program(tmp_path, port=int(address.split(":")[2].strip("/"))):
        shown.wait_for_selector("#banner", state="hidden")
        shown.goto(saved)
        shown.reload()
        page.wait_until_done()
        assert page.steps() == 2
    page.context.close()


def test_a_token_is_asked_for_once(open_page: Callable[..., Page]) -> None:
    page = open_page(token="correct-horse-battery")
    page.page.goto(page.address)
    page.page.fill("#token", "correct-horse-battery")
    page.page.press("#token", "Enter")
    page.page.wait_for_selector("#ask-question")
    page.page.reload()
    page.page.wait_for_selector("#ask-question")
    page.complaints = [said for said in page.complaints if "401" not in said]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_no_serious_issue(
    open_page: Callable[..., Page], tree_searcher: str, scheme: str, width: int
) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    script = Path(axe.__file__).parent / "axe.min.js"
    page = open_page(context={"color_scheme": scheme, "viewport": {"width": width, "height": 844}, "bypass_csp": True})
    shown = page.ask(agent=tree_searcher)
    shown.locator(".why-button").first.click()
    shown.wait_for_selector(".why")
    shown.click(".tree summary")
    shown.locator(".tree [aria-expanded]").first.click()
    looked_at = [("session", None), ("menu", ".card .text .w")]
    for name, click in looked_at:
        if click:
            shown.locator(click).first.click()
        assert serious(shown, script) == [], name
        shown.keyboard.press("Escape")
    for path in ("", "#/compare", "#/sessions"):
        page.open(path)
        shown.wait_for_load_state("networkidle")
        assert serious(shown, script) == [], path


def serious(page: Any, script: Path) -> list[str]:
    """What axe-core calls serious or critical, in short; animations are over first."""
    page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished.catch(() => null)))")
    page.add_script_tag(content=script.read_text())
    report = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{each['id']}: {each['nodes'][0]['html'][:200]} {each['nodes'][0].get('failureSummary', '')[:300]}"
        for each in report["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("width", [360, 768, 1280])
def test_nothing_is_wider_than_the_screen(open_page: Callable[..., Page], width: int) -> None:
    page = open_page(context={"viewport": {"width": width, "height": 800}})
    shown = page.ask(agent="prf-answer", steps=5)
    shown.locator(".why-button").first.click()
    shown.wait_for_selector(".why")
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_a_passage_of_a_record_is_completed_from_the_index(open_page: Callable[..., Page], tmp_path: Path) -> None:
    text = "and so on " * 40 + "until Maren Holt lit the lamp " + "and so on " * 40
    build_index([Passage("long", "Long Light", text.strip())], tmp_path / "index")
    page = open_page(engines={"long": open_index(tmp_path / "index", threads=1)})
    shown = page.ask("who keeps the Long lamp", steps=0)
    with shown.expect_download() as download:
        shown.click("#share")
    shown.click("nav >> text=Sessions")
    shown.set_input_files("#session-file", download.value.path())
    shown.wait_for_url(re.compile("#/session/"))
    page.wait_until_done()
    assert len(shown.locator(".card .text").inner_text().split()) < 60
    shown.click("text=Whole passage")
    shown.wait_for_selector("text=Less")
    assert shown.locator(".card .text").inner_text() == text.strip()
    assert shown.locator(".card mark").inner_text() == "Maren Holt"


def test_who_refines_while_the_agent_is_at_work_takes_over(open_page: Callable[..., Page]) -> None:
    engine = GatedEngine(2)
    page = open_page(engines={"lighthouses": engine})
    shown = page.open()
    shown.fill("#ask-question", QUESTION)
    shown.fill("#ask-steps", "30")
    shown.select_option("#ask-agent-0", "prf-answer")
    shown.press("#ask-question", "Enter")
    shown.wait_for_selector(".step >> nth=1")
    shown.fill("#own-term", "storm")
    # The page breaks off the agent's stream, then sends the refinement until the server has noticed.
    with shown.expect_request("**/refine"):
        shown.press("#own-term", "Enter")
    engine.gate.set()
    shown.wait_for_selector(".step .who")
    page.wait_until_done()
    assert page.steps() < 31
    assert "you" in shown.locator(".step").last.inner_text()
    # The browser writes a refusal of the first try to its console; the page tries again by itself.
    page.complaints = [said for said in page.complaints if "409" not in said]


@pytest.mark.parametrize("width", [360, 1280])
def test_two_agents_fit_the_screen_and_begin_at_one_height(open_page: Callable[..., Page], width: int) -> None:
    page = open_page(context={"viewport": {"width": width, "height": 800}})
    shown = page.open("#/compare")
    shown.fill("#ask-question", QUESTION)
    shown.press("#ask-question", "Enter")
    shown.wait_for_url(re.compile(r"#/compare/.+/.+"))
    assert shown.evaluate("document.documentElement.scrollWidth") <= width
    tops = shown.eval_on_selector_all(".best", "lists => lists.map(list => list.getBoundingClientRect().top)")
    assert (tops[0] == pytest.approx(tops[1], abs=1)) == (width > 704)


MANUAL = [
    Passage(
        f"manual-{page}",
        "Lamp manual",
        f"Page {page} of the manual. {text}",
        {"file": "lamps/manual.pdf", "page": page},
    )
    for page, text in enumerate(["The reef is dark.", "Maren Holt lit the first lamp.", "Oil is kept dry."], 1)
]


def test_a_card_names_its_source_opens_it_at_the_place_and_is_cited(
    open_page: Callable[..., Page], tmp_path: Path
) -> None:
    build_index(MANUAL, tmp_path / "index")
    page = open_page(
        {"permissions": ["clipboard-read", "clipboard-write"]}, engines={"manual": open_index(tmp_path / "index")}
    )
    shown = page.ask("who lit the first lamp", steps=0)
    card = shown.locator('.card[data-id="manual-2"]')
    assert card.locator(".source").inner_text() == "lamps/manual.pdf, page 2"
    card.get_by_text("Copy citation").click()
    card.get_by_text("Copied").wait_for()
    assert shown.evaluate("navigator.clipboard.readText()").endswith("(Lamp manual, lamps/manual.pdf, page 2)")
    card.get_by_text("Open in its document").click()
    dialog = shown.locator("dialog.document")
    assert dialog.locator("h2").inner_text() == "lamps/manual.pdf, page 2"
    assert dialog.locator("section").count() == 3
    assert "Maren Holt lit the first lamp." in dialog.locator(".here").inner_text()
    assert dialog.locator(".here mark").count() == 1
    dialog.get_by_text("Close").click()
    dialog.wait_for(state="detached")


def test_how_sure_the_answer_is_stands_beside_it(open_page: Callable[..., Page]) -> None:
    page = open_page()
    shown = page.ask(steps=1, agent="prf-answer")
    told = shown.locator(".sure, .declined")
    assert told.count() == 1
    assert "%" in told.inner_text()


def test_on_a_phone_the_answer_stands_above_the_controls(open_page: Callable[..., Page]) -> None:
    page = open_page({"viewport": {"width": 390, "height": 800}})
    shown = page.ask(steps=1)
    top = {name: shown.locator(name).bounding_box()["y"] for name in (".outcome", ".tools", ".results")}
    assert top[".outcome"] < top[".tools"] < top[".results"]


def test_the_recommended_agent_comes_first_and_says_what_it_does(open_page: Callable[..., Page]) -> None:
    shown = open_page().open()
    first = shown.locator("#ask-agent-0 optgroup >> nth=0")
    assert first.get_attribute("label") == "Recommended"
    assert first.locator("option").count() == 1
    assert shown.locator("#ask-agent-0-about").inner_text()
    shown.select_option("#ask-agent-0", "bm25+ps")
    assert "ordered by the passage scorer" in shown.locator("#ask-agent-0-about").inner_text()


def test_a_gallery_without_an_evaluation_explains_itself(open_page: Callable[..., Page]) -> None:
    shown = open_page().open("#/gallery")
    assert "orienteer serve --index my-index --evaluation out" in shown.locator("main").inner_text()
