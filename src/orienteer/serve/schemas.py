"""The API's JSON: what clients send, with its bounds, and what they get: sessions, steps, passages.

FastAPI makes the OpenAPI page from it: class names, fields and docstrings of the models are part of the API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from orienteer.defaults import AGENT
from orienteer.query import Refinement, parse
from orienteer.query.refinement import MAX_BOOST, MAX_TERM_CHARS
from orienteer.serve.sessions import SESSION_ID, ServedSession
from orienteer.session import Record, Score, SeenPassage, Session, Step
from orienteer.session.agent import TREE, TreeNode, tree_of
from orienteer.session.confidence import session_at, shipped_model
from orienteer.session.record import RecordedPassage, RecordedStep

QUESTION = "question"
_MAX_CHILDREN, _MAX_LEVELS = 20, 12  # of a search tree as clients see it

SessionId = Annotated[str, Field(pattern=f"^{SESSION_ID.pattern}$", examples=["3vYv5w1ubT9rQk0a"])]
AgentName = Annotated[str, Field(min_length=1, max_length=200, examples=[AGENT])]
IndexName = Annotated[str, Field(max_length=200, description="as /api/indexes lists it; empty: the first")]
WhereText = Annotated[
    str,
    Field(
        max_length=4096, examples=["year>=2020 and folder:reports"],
        description="a filter over the metadata of passages; empty: all",
    ),
]  # fmt: skip
PassageId = Annotated[str, Field(min_length=1, max_length=1000)]
Text = Annotated[str, Field(min_length=1, max_length=20_000)]
Steps = Annotated[int, Field(ge=0, le=1000, description="refinements at most; the server's own limit is lower")]
Deadline = Annotated[
    float, Field(gt=0, le=3600, allow_inf_nan=False, description="seconds; then the session so far is returned")
]


class RequestModel(BaseModel):
    """Base of all requests: an unknown field is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SearchRequest(RequestModel):
    """A query in Lucene's syntax."""

    query: Annotated[Text, Field(examples=['first martian rover +(title:"rover")'])]
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    index: IndexName = ""
    where: WhereText = ""
    learned: Annotated[bool, Field(description="by the ranking learned from thumbs, where it is switched on")] = False


class AskRequest(RequestModel):
    """A question for an agent; with known answers the session is scored."""

    question: Annotated[Text, Field(examples=["which pupil suggested the name of the very first martian rover"])]
    agent: AgentName = AGENT
    steps: Steps | None = None
    answers: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=100)] = []
    deadline: Deadline | None = None
    index: IndexName = ""
    where: WhereText = ""


class HandBackRequest(RequestModel):
    """An agent goes on in a session; none named: the session's own."""

    agent: AgentName | None = None
    steps: Annotated[int, Field(ge=1, le=1000)] = 5
    deadline: Deadline | None = None


class RefineRequest(RequestModel):
    """A refinement, as an operator on a term of a field."""

    op: Literal["or", "+", "-", "^"]
    term: Annotated[str, Field(min_length=1, max_length=MAX_TERM_CHARS)]
    field: Literal["contents", "title"] = "contents"
    weight: Annotated[float, Field(gt=0, le=MAX_BOOST, allow_inf_nan=False, description="of ^ only")] = 1.0


class BranchRequest(RequestModel):
    step: Annotated[int, Field(ge=0, le=1000)]


class WhyRequest(RequestModel):
    """Why a passage stands where it does for a query in Lucene's syntax."""

    query: Text
    passage: PassageId
    index: IndexName = ""
    where: WhereText = ""


class ResponseModel(BaseModel):
    """Base of all responses: every field is required, none is added."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class RefinementView(ResponseModel):
    op: str
    field: str
    term: str
    weight: float
    text: str


class QueryView(ResponseModel):
    """The query as words and operators, and as Lucene writes it."""

    question: str
    refinements: list[RefinementView]
    text: str


class HitView(ResponseModel):
    id: str
    score: float


class ScoreView(ResponseModel):
    """S and its parts; only where answers or judgements are known, and `ndcem` only where answers are."""

    ndcg: float
    ndcem: float | None
    ps: float
    total: float


class TreeView(ResponseModel):
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


class ConfidenceView(ResponseModel):
    """How likely the answer is right; not `answered`: the documents do not seem to answer the question."""

    probability: float
    words: str
    answered: bool


class StepView(ResponseModel):
    """`by` is the agent's name, `you` or `question`; `action` is a refinement in Lucene's syntax, `undo` or `read …`.

    `tree` is what the agent searched before it acted, `notes` what else it reported.
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
    confidence: ConfidenceView | None
    seconds: float
    tree: TreeView | None
    notes: dict[str, Any] | None


class PassageView(ResponseModel):
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
    source: str = ""


class SessionHead(ResponseModel):
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
    confidence: ConfidenceView | None
    queries: int
    passages_read: int
    seconds: float
    saved: bool
    playable: bool
    parent: str | None
    where: str


class SessionView(SessionHead):
    steps: list[StepView]
    passages: dict[str, PassageView]


class StepEvent(ResponseModel):
    """One step as it is streamed: what was not seen before it comes with it."""

    step: StepView
    passages: dict[str, PassageView]


def session_view(served: ServedSession, saved: bool) -> SessionView:
    head = head_view(served, saved).model_dump()
    if served.session is not None:
        steps = [_step_of_session(served, step) for step in served.session.steps]
        passages = {each.passage.id: _passage_of_session(each) for each in served.session.seen}
    elif served.record is not None:
        steps, passages = _parts_of_record(served.record)
    else:
        steps, passages = [], {}
    return SessionView(**head, steps=steps, passages=passages)


def head_view(served: ServedSession, saved: bool) -> SessionHead:
    state: Session | Record | None = served.session or served.record
    passages_read = len(state.seen) if isinstance(state, Session) else len(state.passages) if state else 0
    return SessionHead(
        id=served.id, index=served.index, agent=served.agent,
        question=served.question.question, answers=list(served.question.answers),
        ended=state.ended if state else None, stopped=served.stopped, error=state.error if state else "",
        answer=state.answer if state else "", confidence=_confidence_now(served),
        queries=state.queries if state else 0, passages_read=passages_read,
        seconds=sum(served.seconds), saved=saved, playable=not served.obstacle, parent=served.parent,
        where=served.where,
    )  # fmt: skip


def step_event(served: ServedSession, number: int) -> StepEvent:
    assert served.session is not None
    new = {each.passage.id: _passage_of_session(each) for each in served.session.seen if each.step == number}
    return StepEvent(step=_step_of_session(served, served.session.steps[number]), passages=new)


def _parts_of_record(record: Record) -> tuple[list[StepView], dict[str, PassageView]]:
    """Steps and passages of a record, which has only a snippet of each passage that was among the best."""
    scores = {id: passage.score for id, passage in record.passages.items()}
    agent = record.provenance.agent
    last = len(record.steps) - 1
    steps = [
        _step_of_record(number, step, agent, scores, confidence=_recorded(record) if number == last else None)
        for number, step in enumerate(record.steps)
    ]
    return steps, {id: _passage_of_record(id, passage) for id, passage in record.passages.items()}


def refinement_view(refinement: Refinement) -> RefinementView:
    return RefinementView(
        op=refinement.op, field=refinement.field, term=refinement.term, weight=refinement.weight, text=str(refinement)
    )


def query_view(text: str) -> QueryView:
    query = parse(text)
    return QueryView(
        question=query.question, refinements=[refinement_view(each) for each in query.refinements], text=text
    )


def _step_of_session(served: ServedSession, step: Step) -> StepView:
    assert served.session is not None
    recorded = RecordedStep(
        step.action, str(step.query), step.hits, step.best, step.entered, step.left, step.score,
        served.notes[step.number],
    )  # fmt: skip
    best = set(step.best)
    scores = {each.passage.id: each.reading.score for each in served.session.seen if each.passage.id in best}
    judged = _confidence_at(served, step.number)
    return _step_of_record(step.number, recorded, served.agent, scores, served.seconds[step.number], judged)


def _step_of_record(
    number: int, step: RecordedStep, agent: str, scores: Mapping[str, float], seconds: float = 0.0,
    confidence: ConfidenceView | None = None,
) -> StepView:  # fmt: skip
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
        mean_ps=mean_ps(scores[id] for id in step.best), score=_score(step.score), confidence=confidence,
        seconds=seconds,
        tree=tree_view(tree) if tree else None, notes=notes or None,
    )  # fmt: skip


def tree_view(node: TreeNode, depth: int = 0) -> TreeView:
    """The visited nodes of a tree, cut at `_MAX_LEVELS` levels and `_MAX_CHILDREN` children a node."""
    visited = sorted((child for child in node.children if child.visits), key=lambda child: -child.visits)
    shown = visited[:_MAX_CHILDREN] if depth < _MAX_LEVELS else []
    return TreeView(
        label=node.label, visits=node.visits, value=node.value, prior=node.prior,
        children=[tree_view(child, depth + 1) for child in shown], hidden=len(node.children) - len(shown),
        taken=node.taken,
    )  # fmt: skip


def mean_ps(scores: Iterable[float]) -> float:
    """The mean PS of the best five; always divided by 5, as in `eq:score`."""
    return sum(scores) / 5


def _confidence_now(served: ServedSession) -> ConfidenceView | None:
    if served.session is not None:
        return _confidence_at(served, len(served.session.steps) - 1) if served.session.steps else None
    return _recorded(served.record) if served.record is not None else None


def _confidence_at(served: ServedSession, number: int) -> ConfidenceView | None:
    """After a step. It is kept: a page shows all steps, and one that read much takes tens of milliseconds."""
    assert served.session is not None
    if number not in served.probabilities:
        state = session_at(served.session, number)
        served.probabilities[number] = shipped_model().probability(state) if state.best else None
    return _confidence(served.probabilities[number])


def _recorded(record: Record) -> ConfidenceView | None:
    return _confidence(record.confidence)


def _confidence(probability: float | None) -> ConfidenceView | None:
    if probability is None:
        return None
    judged = shipped_model().judged(probability)
    return ConfidenceView(probability=judged.probability, words=judged.words, answered=judged.answers)


def _score(score: Score | None) -> ScoreView | None:
    if score is None:
        return None
    return ScoreView(ndcg=score.ndcg, ndcem=score.ndcem, ps=score.ps, total=score.total)


def _passage_of_session(each: SeenPassage) -> PassageView:
    passage, reading = each.passage, each.reading
    return PassageView(
        id=passage.id, title=passage.title, text=passage.text, whole=True,
        start=int(reading.start), end=int(reading.end), answer=reading.answer, ps=float(reading.score),
        step=each.step, rank=each.rank, relevant=each.relevant, exact=each.exact, source=passage.source,
    )  # fmt: skip


def _passage_of_record(id: str, passage: RecordedPassage) -> PassageView:
    text, answer = passage.text or "", " ".join((passage.answer or "").split())
    start = max(0, text.find(answer))
    end = start + len(answer) if answer and answer in text else start
    return PassageView(
        id=id, title=passage.title or "", text=text, whole=False, start=start, end=end, answer=passage.answer or "",
        ps=passage.score, step=passage.step, rank=passage.rank, relevant=passage.relevant, exact=passage.exact,
        source=passage.source or "",
    )  # fmt: skip
