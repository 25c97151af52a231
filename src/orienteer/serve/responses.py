"""What clients get: sessions, steps and passages as JSON, from a session at work or from a record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from orienteer.query import Refinement, parse
from orienteer.serve.sessions import Work
from orienteer.session import Record, Score, SeenPassage, Session, Step
from orienteer.session.agent import TREE, TreeNode, tree_of
from orienteer.session.record import RecordedPassage, RecordedStep

QUESTION = "question"
_CHILDREN, _LEVELS = 20, 12  # of a tree that is shown


class View(BaseModel):
    """Base of all answers: no field is left out, none is added."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RefinementView(View):
    op: str
    field: str
    term: str
    weight: float
    text: str


class QueryView(View):
    """The query as words and operators, and as Lucene writes it."""

    question: str
    refinements: list[RefinementView]
    text: str


class HitView(View):
    id: str
    score: float


class ScoreView(View):
    """S and its parts; only where answers are known."""

    ndcg: float
    ndcem: float
    ps: float
    total: float


class TreeView(View):
    """A node of an agent's search tree, its most visited children first; `hidden` of them are not shown.

    `taken`: the agent went this way in the end.
    """

    label: str
    visits: int
    value: float | None
    prior: float | None
    children: list[TreeView]
    hidden: int
    taken: bool


class StepView(View):
    """`by` is the agent's name, `you` or `question`; `action` is a refinement as Lucene writes it, or `undo`.

    `tree` is what the agent searched before it acted, `notes` what else it told.
    """

    number: int
    by: str
    action: str | None
    refinement: RefinementView | None
    query: QueryView
    hits: list[HitView]
    best: list[str]
    entered: list[str]
    left: list[str]
    dead_end: bool
    mean_ps: float
    score: ScoreView | None
    seconds: float
    tree: TreeView | None
    notes: dict[str, Any] | None


class PassageView(View):
    """A passage seen. Its text is untrusted. `text[start:end]` is the reader's answer; `whole`: not only a snippet."""

    id: str
    title: str
    text: str
    whole: bool
    start: int
    end: int
    answer: str
    ps: float
    step: int
    rank: int
    relevant: bool | None
    exact: bool | None


class SessionHead(View):
    """All of a session but its steps and passages."""

    id: str
    index: str
    agent: str
    question: str
    answers: list[str]
    ended: str | None
    stopped: str | None
    error: str
    answer: str
    queries: int
    passages_read: int
    seconds: float
    saved: bool
    playable: bool
    parent: str | None


class SessionView(SessionHead):
    steps: list[StepView]
    passages: dict[str, PassageView]


class StepEvent(View):
    """One step as it is streamed: what was not seen before it comes with it."""

    step: StepView
    passages: dict[str, PassageView]


def session_view(work: Work, saved: bool) -> SessionView:
    head = head_view(work, saved).model_dump()
    if work.played is not None:
        steps = [_live_step(work, step) for step in work.played.steps]
        passages = {each.passage.id: _seen(each) for each in work.played.seen}
    elif work.recorded is not None:
        steps, passages = record_parts(work.recorded)
    else:
        steps, passages = [], {}
    return SessionView(**head, steps=steps, passages=passages)


def head_view(work: Work, saved: bool) -> SessionHead:
    state: Session | Record | None = work.played or work.recorded
    read = len(state.seen) if isinstance(state, Session) else len(state.passages) if state else 0
    return SessionHead(
        id=work.id, index=work.index, agent=work.agent,
        question=work.question.question, answers=list(work.question.answers),
        ended=state.ended if state else None, stopped=work.stopped, error=state.error if state else "",
        answer=state.answer if state else "", queries=state.queries if state else 0, passages_read=read,
        seconds=sum(work.seconds), saved=saved, playable=bool(work.index), parent=work.parent,
    )  # fmt: skip


def step_event(work: Work, number: int) -> StepEvent:
    assert work.played is not None
    fresh = {each.passage.id: _seen(each) for each in work.played.seen if each.step == number}
    return StepEvent(step=_live_step(work, work.played.steps[number]), passages=fresh)


def record_parts(record: Record) -> tuple[list[StepView], dict[str, PassageView]]:
    """Steps and passages of a record, which has a snippet of each of the best and no more."""
    scores = {id: passage.score for id, passage in record.passages.items()}
    agent = record.provenance.agent
    steps = [_recorded_step(number, step, agent, scores) for number, step in enumerate(record.steps)]
    return steps, {id: _recorded(id, passage) for id, passage in record.passages.items()}


def refinement_view(refinement: Refinement) -> RefinementView:
    return RefinementView(
        op=refinement.op, field=refinement.field, term=refinement.term, weight=refinement.weight, text=str(refinement)
    )


def query_view(text: str) -> QueryView:
    query = parse(text)
    return QueryView(
        question=query.question, refinements=[refinement_view(each) for each in query.refinements], text=text
    )


def _live_step(work: Work, step: Step) -> StepView:
    assert work.played is not None
    recorded = RecordedStep(
        step.action, str(step.query), step.hits, step.best, step.entered, step.left, step.score,
        work.notes[step.number],
    )  # fmt: skip
    best = set(step.best)
    scores = {each.passage.id: each.reading.score for each in work.played.seen if each.passage.id in best}
    return _recorded_step(step.number, recorded, work.agent, scores, work.seconds[step.number])


def _recorded_step(
    number: int, step: RecordedStep, agent: str, scores: Mapping[str, float], seconds: float = 0.0
) -> StepView:
    notes = dict(step.notes or {})
    tree = tree_of(notes)
    notes.pop(TREE, None)
    by = QUESTION if step.action is None else str(notes.pop("by", agent))
    return StepView(
        number=number, by=by,
        action=None if step.action is None else str(step.action),
        refinement=refinement_view(step.action) if isinstance(step.action, Refinement) else None,
        query=query_view(step.query), hits=[HitView(id=hit.id, score=hit.score) for hit in step.hits],
        best=list(step.best), entered=list(step.entered), left=list(step.left), dead_end=not step.hits,
        mean_ps=mean_ps(scores[id] for id in step.best), score=_score(step.score), seconds=seconds,
        tree=tree_view(tree) if tree else None, notes=notes or None,
    )  # fmt: skip


def tree_view(node: TreeNode, depth: int = 0) -> TreeView:
    """As much of a tree as can be looked at: nothing that was never visited, some children a node."""
    visited = sorted((child for child in node.children if child.visits), key=lambda child: -child.visits)
    shown = visited[:_CHILDREN] if depth < _LEVELS else []
    return TreeView(
        label=node.label, visits=node.visits, value=node.value, prior=node.prior,
        children=[tree_view(child, depth + 1) for child in shown], hidden=len(node.children) - len(shown),
        taken=node.taken,
    )  # fmt: skip


def mean_ps(scores: Iterable[float]) -> float:
    """The mean PS of the best five; it divides by 5 always, as in `eq:score`."""
    return sum(scores) / 5


def _score(score: Score | None) -> ScoreView | None:
    if score is None:
        return None
    return ScoreView(ndcg=score.ndcg, ndcem=score.ndcem, ps=score.ps, total=score.total)


def _seen(each: SeenPassage) -> PassageView:
    passage, reading = each.passage, each.reading
    return PassageView(
        id=passage.id, title=passage.title, text=passage.text, whole=True,
        start=int(reading.start), end=int(reading.end), answer=reading.answer, ps=float(reading.score),
        step=each.step, rank=each.rank, relevant=each.relevant, exact=each.exact,
    )  # fmt: skip


def _recorded(id: str, passage: RecordedPassage) -> PassageView:
    text, answer = passage.text or "", " ".join((passage.answer or "").split())
    start = max(0, text.find(answer))
    end = start + len(answer) if answer and answer in text else start
    return PassageView(
        id=id, title=passage.title or "", text=text, whole=False, start=start, end=end, answer=passage.answer or "",
        ps=passage.score, step=passage.step, rank=passage.rank, relevant=passage.relevant, exact=passage.exact,
    )  # fmt: skip
