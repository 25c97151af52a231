"""Sessions over HTTP: ask, refine, undo, branch, hand back, save, share."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from lexical_reader import LexicalReader
from serving_world import MakeClient, Registered
from small_world import HARD_QUESTIONS, Scripted, plus
from tiny_muzero import save_muzero

from orienteer.agents import CheckpointMissingError, make_agent
from orienteer.data.passage import Question
from orienteer.defaults import AGENT
from orienteer.engine import EmbeddedEngine
from orienteer.serve import Limits
from orienteer.session import UNDO, Environment, Settings, check_replay, from_line, read_records, record, run_sessions
from orienteer.session.confidence import shipped_model

LAMP = "who lit the first lamp on the reef"


def ask(client: TestClient, question: str = LAMP, **options: Any) -> dict[str, Any]:
    answer = client.post("/api/sessions", json={"question": question, "steps": 3, **options})
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def refine(client: TestClient, session: dict[str, Any], op: str, term: str, **options: Any) -> Any:
    return client.post(f"/api/sessions/{session['id']}/refine", json={"op": op, "term": term, **options})


def test_a_session_over_http_is_the_one_that_the_command_line_plays(client: TestClient, engine: EmbeddedEngine) -> None:
    # One without notes, which only a server asks for.
    agent = make_agent("prf-answer", engine, Settings(steps=3, order="agreement"))
    environment = Environment(engine, LexicalReader(), agent.settings)
    [alone] = run_sessions(environment, agent.agent, [Question("ask", LAMP, ("Maren Holt",))]).sessions
    session = ask(client, answers=["Maren Holt"], agent="prf-answer")
    shared = client.get(f"/api/sessions/{session['id']}/file").content
    judged = replace(record(alone, environment, "prf-answer"), confidence=shipped_model().probability(alone))
    assert from_line(shared) == judged
    assert [step["query"]["text"] for step in session["steps"]] == [str(step.query) for step in alone.steps]
    assert session["answer"] == alone.answer
    assert session["ended"] == "steps"


def test_a_step_tells_what_it_brought_in_and_pushed_out(client: TestClient) -> None:
    session = ask(client, "who keeps the lamp on the rock", agent="bm25+ps[order=ps]")
    refined = refine(client, session, "-", "tower").json()
    last = refined["steps"][-1]
    assert last["entered"] == ["ardle-1", "same-1"]
    assert last["left"] == ["eider-2", "dunmore-1"]
    assert last["by"] == "you"
    assert last["refinement"] == {
        "op": "-", "field": "contents", "term": "tower", "weight": 1.0, "text": '-(contents:"tower")',
    }  # fmt: skip
    assert all(id in refined["passages"] for id in last["best"])


@pytest.mark.long
def test_the_answer_stands_at_its_place_in_the_passage(client: TestClient) -> None:
    for passage in ask(client)["passages"].values():
        assert passage["text"][passage["start"] : passage["end"]] == passage["answer"]


def test_undo_takes_the_last_refinement_back(client: TestClient) -> None:
    session = ask(client, agent="bm25+ps")
    refine(client, session, "+", "tower")
    undone = client.post(f"/api/sessions/{session['id']}/undo").json()
    assert undone["steps"][-1]["query"]["refinements"] == []
    assert [step["action"] for step in undone["steps"]] == [None, '+(contents:"tower")', "undo"]


def test_nothing_to_undo_is_refused_and_changes_nothing(client: TestClient) -> None:
    session = ask(client, agent="bm25+ps")
    refused = client.post(f"/api/sessions/{session['id']}/undo")
    assert refused.status_code == 422
    assert "no refinement to take back" in refused.json()["message"]
    assert client.get(f"/api/sessions/{session['id']}").json()["steps"] == session["steps"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("op", "term", "options", "why"),
    [
        ("+", "the", {}, "no index term"),
        ("or", "tower", {"field": "title"}, "plain term searches contents"),
        ("+", "tower", {"weight": 4}, "only ^ takes a weight"),
        ("^", "lamp", {"weight": 4000}, "weight"),
        ("?", "lamp", {}, "op"),
    ],
)
def test_a_refinement_that_is_none_is_refused_with_the_reason(
    client: TestClient, op: str, term: str, options: dict[str, Any], why: str
) -> None:
    refused = refine(client, ask(client), op, term, **options)
    assert refused.status_code == 422
    assert why in refused.json()["message"]


def test_a_term_is_used_once_in_a_session(client: TestClient) -> None:
    session = ask(client, agent="bm25+ps")
    assert refine(client, session, "+", "tower").status_code == 200
    assert "used before" in refine(client, session, "-", "Tower").json()["message"]


def test_a_dead_end_is_shown_and_taken_back(client: TestClient) -> None:
    session = ask(client, agent="bm25+ps")
    refined = refine(client, session, "+", "zyxwv").json()
    assert refined["steps"][-1]["dead_end"]
    assert refine(client, session, "+", "tower").json()["steps"][-1]["query"]["text"].count("zyxwv") == 0


@pytest.mark.long
def test_a_branch_goes_its_own_way(client: TestClient) -> None:
    session = ask(client)
    answer = client.post(f"/api/sessions/{session['id']}/branch", json={"step": 1})
    assert answer.status_code == 201
    branch = answer.json()
    assert branch["parent"] == session["id"]
    assert branch["steps"] == session["steps"][:2]
    assert all(passage["step"] <= 1 for passage in branch["passages"].values())
    refine(client, branch, "-", "reef")
    assert client.get(f"/api/sessions/{session['id']}").json()["steps"] == session["steps"]


@pytest.mark.long
def test_a_branch_of_a_step_that_is_not_there_is_refused(client: TestClient) -> None:
    session = ask(client)
    refused = client.post(f"/api/sessions/{session['id']}/branch", json={"step": 9})
    assert refused.status_code == 422
    assert "0 to 3" in refused.json()["message"]


@pytest.mark.long
def test_handed_back_the_agent_goes_on_from_where_the_person_left(client: TestClient) -> None:
    session = ask(client)
    refine(client, session, "-", "halcyon", field="title")
    answer = client.post(f"/api/sessions/{session['id']}/agent", json={"steps": 2, "agent": "prf-idf-t"})
    steps = answer.json()["steps"]
    assert [step["by"] for step in steps] == ["question", *[AGENT] * 3, "you", "prf-idf-t", "prf-idf-t"]
    assert '-(title:"halcyon")' in steps[-1]["query"]["text"]


@pytest.mark.long
def test_a_session_that_person_and_agent_made_plays_again_to_the_byte(
    client: TestClient, engine: EmbeddedEngine
) -> None:
    session = ask(client)
    refine(client, session, "^", "tower", weight=4)
    client.post(f"/api/sessions/{session['id']}/undo")
    client.post(f"/api/sessions/{session['id']}/agent", json={"steps": 2})
    shared = from_line(client.get(f"/api/sessions/{session['id']}/file").content)
    check_replay(shared, engine, LexicalReader())


@pytest.mark.long
def test_a_saved_session_is_a_file_that_show_reads(client: TestClient, tmp_path: Path) -> None:
    session = ask(client)
    assert client.post(f"/api/sessions/{session['id']}/save").json()["saved"]
    [file] = (tmp_path / "saved").iterdir()
    [kept] = read_records(file)
    assert kept.question.question == LAMP


@pytest.mark.long
def test_saved_sessions_are_there_after_a_restart_and_can_be_continued(make_client: MakeClient) -> None:
    before = make_client()
    session = ask(before)
    refine(before, session, "-", "halcyon")
    before.post(f"/api/sessions/{session['id']}/save")
    unsaved = ask(before, "who painted the tower of Ardle red")
    after = make_client()
    assert [each["id"] for each in after.get("/api/sessions").json()["sessions"]] == [session["id"]]
    again = after.get(f"/api/sessions/{session['id']}").json()
    assert [step["query"] for step in again["steps"][:4]] == [step["query"] for step in session["steps"]]
    assert refine(after, session, "+", "lamp").status_code == 200
    gone = after.get(f"/api/sessions/{unsaved['id']}")
    assert gone.status_code == 404
    assert "may have been deleted" in gone.json()["message"]


@pytest.mark.long
def test_a_shared_file_opens_in_another_workbench(client: TestClient) -> None:
    session = ask(client)
    line = client.get(f"/api/sessions/{session['id']}/file").text
    opened = client.post("/api/sessions/load", json=json.loads(line))
    assert opened.status_code == 201
    loaded = opened.json()
    assert loaded["id"] != session["id"]
    assert [step["best"] for step in loaded["steps"]] == [step["best"] for step in session["steps"]]
    assert refine(client, loaded, "+", "lamp").status_code == 200


@pytest.mark.long
def test_a_session_of_another_index_can_be_looked_at_only(client: TestClient) -> None:
    row = client.get(f"/api/sessions/{ask(client)['id']}/file").json()
    loaded = client.post("/api/sessions/load", json={**row, "index": "0123"}).json()
    assert not loaded["playable"]
    assert loaded["answer"]
    refused = refine(client, loaded, "+", "lamp")
    assert refused.status_code == 409
    assert "looked at, not continued" in refused.json()["message"]


@pytest.mark.long
@pytest.mark.parametrize(
    "damage",
    [
        {"version": 7},
        {"steps": "none"},
        {"steps": [{"action": None, "query": '"', "hits": [], "best": [], "entered": [], "left": []}]},
        {"passages": {"a": {"step": 0}}},
        {"passages": {"ardle-1": {"step": 0, "rank": 1, "score": "high", "start": 0, "end": 0}}},
        {"passages": {}},
        {"settings": {"steps": -1}},
        {"ended": "by itself"},
    ],
)
def test_a_damaged_file_is_refused(client: TestClient, damage: dict[str, Any]) -> None:
    row = client.get(f"/api/sessions/{ask(client)['id']}/file").json()
    refused = client.post("/api/sessions/load", json={**row, **damage})
    assert refused.status_code == 422
    assert "record" in refused.json()["message"]


@pytest.mark.long
def test_a_deleted_session_is_gone_from_disk_too(client: TestClient, tmp_path: Path) -> None:
    session = ask(client)
    client.post(f"/api/sessions/{session['id']}/save")
    assert client.delete(f"/api/sessions/{session['id']}").status_code == 204
    assert not list((tmp_path / "saved").iterdir())
    assert client.delete(f"/api/sessions/{session['id']}").status_code == 404


@pytest.mark.long
@pytest.mark.parametrize("question", HARD_QUESTIONS, ids=lambda question: question.id)
def test_hard_questions_get_a_session_or_a_reason(client: TestClient, question: Question) -> None:
    body = json.dumps({"question": question.question, "steps": 2}).encode()
    answer = client.post("/api/sessions", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (200, 422), answer.text
    if answer.status_code == 200:
        session = answer.json()
        assert session["steps"] or session["error"]
        assert refine(client, session, "or", "lamp").status_code in (200, 409, 422)
    else:
        assert answer.json()["message"]


@pytest.mark.long
def test_the_oldest_session_makes_room_for_a_new_one(make_client: MakeClient) -> None:
    client = make_client(limits=Limits(sessions=3))
    ids = [ask(client)["id"] for _ in range(5)]
    kept = [client.get(f"/api/sessions/{id}").status_code for id in ids]
    assert kept == [404, 404, 200, 200, 200]


@pytest.mark.long
def test_steps_are_limited_for_person_and_agent_together(make_client: MakeClient) -> None:
    client = make_client(limits=Limits(steps=4))
    assert client.post("/api/sessions", json={"question": LAMP, "steps": 5}).status_code == 422
    session = ask(client)
    assert refine(client, session, "-", "halcyon").status_code == 200
    refused = refine(client, session, "-", "eider")
    assert "4 steps were taken" in refused.json()["message"]
    assert client.post(f"/api/sessions/{session['id']}/agent", json={}).status_code == 422


@pytest.mark.parametrize(
    ("agent", "why"),
    [
        ("nobody", "no agent is called"),
        ("pointer=/etc", "names a folder of the server's"),
        ("bm25@5000+ps", "this server allows 100"),
        ("prf-answer[steps=500]", "this server allows 50"),
        ("prf-answer[colour=red]", "unknown option"),
        ("prf-answer[", "open bracket"),
    ],
)
def test_an_agent_that_is_not_offered_is_refused(client: TestClient, agent: str, why: str) -> None:
    refused = client.post("/api/sessions", json={"question": LAMP, "agent": agent})
    assert refused.status_code == 422
    assert why in refused.json()["message"]


@pytest.mark.long
def test_an_agent_that_fails_ends_its_own_session_only(client: TestClient, registered: Registered) -> None:
    failed = ask(client, agent=registered(lambda engine: Scripted(plus("lamp"), UNDO, "nonsense")))
    assert failed["ended"] == "illegal"
    assert "not an action" in failed["error"]
    assert len(failed["steps"]) == 3
    assert refine(client, failed, "+", "tower").status_code == 200


def test_the_tree_of_an_agent_is_kept_with_the_step_and_shown_in_part(
    make_client: MakeClient, tree_searcher: str
) -> None:
    client = make_client()
    session = ask(client, agent=tree_searcher, steps=1)
    step = session["steps"][1]
    assert session["steps"][0]["tree"] is None
    assert step["notes"] is None
    assert (step["tree"]["visits"], step["tree"]["value"], step["tree"]["prior"]) == (32, 0.6, None)
    first, _ = step["tree"]["children"]
    assert (first["label"], first["visits"], first["taken"]) == (step["action"], 31, True)
    assert [child["visits"] for child in first["children"]] == [3, 3]
    shared = client.get(f"/api/sessions/{session['id']}/file").json()
    whole = shared["steps"][1]["notes"]["tree"]["children"]
    assert step["tree"]["hidden"] == len(whole) - 2 > 0
    again = client.post("/api/sessions/load", json=shared).json()
    assert again["steps"][1]["tree"] == step["tree"]


@pytest.mark.long
def test_muzero_tells_its_tree(make_client: MakeClient, tmp_path: Path) -> None:
    agent = f"muzero={save_muzero(tmp_path / 'muzero')}"
    session = ask(make_client(agents=[agent]), agent=agent, steps=2)
    assert session["error"] == ""
    for step in session["steps"][1:]:
        children = step["tree"]["children"]
        assert sum(child["visits"] for child in children) > 0
        assert [child["visits"] for child in children] == sorted((c["visits"] for c in children), reverse=True)
        assert step["notes"]["simulations"] > 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("notes", "why"),
    [
        ({"tree": {"label": "root", "visits": -1}}, "expected a whole number"),
        ({"tree": [1]}, "is a list"),
        ({"tree": {"label": "root", "visits": 1, "value": "high"}}, "expected a finite number"),
        ({"tree": {"label": "root", "visits": 1, "children": {}}}, "expected a list"),
        ({"tree": {"visits": 1}}, "expected a text"),
        ({"seen": {1, 2}}, "not JSON"),
    ],
)
def test_notes_that_no_record_can_hold_end_the_session_with_the_reason(
    client: TestClient, registered: Registered, notes: Any, why: str
) -> None:
    class Noting:
        def __init__(self, engine: Any) -> None: ...

        def act(self, observations: Any) -> list[Any]:
            return [plus("lamp") for _ in observations]

        def act_with_explanations(self, observations: Any) -> list[Any]:
            return [(action, notes) for action in self.act(observations)]

    failed = ask(client, steps=1, agent=registered(Noting))
    assert failed["ended"] == "error"
    assert why in failed["error"]


@pytest.mark.parametrize("deep", [102, 900, 990, 100_000])
def test_a_file_with_a_tree_without_a_bottom_is_refused(client: TestClient, deep: int) -> None:
    session = ask(client, steps=1, agent="prf-answer")  # one that leaves no notes of its own
    file = client.get(f"/api/sessions/{session['id']}/file").text
    node = '{"label":"x","visits":1,"children":['
    notes = '"notes":{"tree":' + node * deep + "]}" * deep + '},"left":'
    before, _, after = file.rpartition('"left":')
    headers = {"content-type": "application/json"}
    refused = client.post("/api/sessions/load", content=before + notes + after, headers=headers)
    assert refused.status_code in (400, 413, 422), refused.text
    assert refused.json()["message"]


@pytest.mark.long
def test_a_file_whose_numbers_are_none_is_refused(client: TestClient) -> None:
    session = ask(client, steps=1)
    file = client.get(f"/api/sessions/{session['id']}/file").text
    damaged = re.sub(r'"score":0\.[0-9]+', '"score":NaN', file, count=1)
    assert damaged != file
    refused = client.post("/api/sessions/load", content=damaged, headers={"content-type": "application/json"})
    assert refused.status_code == 422


@pytest.mark.long
def test_a_saved_file_that_was_damaged_is_left_out_of_the_list_and_told(client: TestClient, tmp_path: Path) -> None:
    session = ask(client, steps=1)
    client.post(f"/api/sessions/{session['id']}/save")
    file = tmp_path / "saved" / f"{session['id']}.jsonl"
    row = json.loads(file.read_text())
    row["passages"].popitem()
    row["passages"].pop(row["steps"][-1]["best"][0], None)
    (tmp_path / "saved" / "damaged-1.jsonl").write_text(json.dumps(row))
    assert [each["id"] for each in client.get("/api/sessions").json()["sessions"]] == [session["id"]]
    refused = client.get("/api/sessions/damaged-1")
    assert refused.status_code == 422
    assert "which is not in it" in refused.json()["message"]


def test_an_agent_named_when_the_server_starts_is_made_at_once_and_offered_with_its_options(
    make_client: MakeClient, tmp_path: Path
) -> None:
    name = "ensemble(prf-idf-t|prf-answer[steps=2])"
    client = make_client(agents=[name])
    assert client.get("/api/about").json()["default_agent"] == name
    assert ask(client, agent=name)["ended"] == "steps"
    with_options = make_client(agents=["prf-answer[steps=2]"])
    assert len(ask(with_options, agent="prf-answer[steps=2]", steps=None)["steps"]) == 3
    with pytest.raises(CheckpointMissingError, match="no folder"):
        make_client(agents=[f"pointer={tmp_path / 'nowhere'}"])
