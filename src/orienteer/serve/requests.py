"""What clients send: each request with its bounds, which the OpenAPI page tells too."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from orienteer.defaults import AGENT
from orienteer.query.refinement import MAX_BOOST, MAX_TERM_CHARS
from orienteer.serve.session_store import ID

SessionId = Annotated[str, Field(pattern=f"^{ID.pattern}$", examples=["3vYv5w1ubT9rQk0a"])]
AgentName = Annotated[str, Field(min_length=1, max_length=200, examples=[AGENT])]
IndexName = Annotated[str, Field(max_length=200, description="as /api/indexes lists it; empty: the first")]
PassageId = Annotated[str, Field(min_length=1, max_length=1000)]
Text = Annotated[str, Field(min_length=1, max_length=20_000)]
Steps = Annotated[int, Field(ge=0, le=1000, description="refinements at most; the server's own limit is lower")]
Deadline = Annotated[
    float, Field(gt=0, le=3600, allow_inf_nan=False, description="seconds; then the session so far is returned")
]


class Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SearchRequest(Asked):
    """A query in Lucene's syntax."""

    query: Annotated[Text, Field(examples=['first martian rover +(title:"rover")'])]
    k: Annotated[int, Field(ge=1, le=1000)] = 10
    index: IndexName = ""


class AskRequest(Asked):
    """A question for an agent; with known answers the session is scored."""

    question: Annotated[Text, Field(examples=["which pupil suggested the name of the very first martian rover"])]
    agent: AgentName = AGENT
    steps: Steps | None = None
    answers: Annotated[list[Annotated[str, Field(max_length=1000)]], Field(max_length=100)] = []
    deadline: Deadline | None = None
    index: IndexName = ""


class HandBackRequest(Asked):
    """An agent goes on in a session; none named: the session's own."""

    agent: AgentName | None = None
    steps: Annotated[int, Field(ge=1, le=1000)] = 5
    deadline: Deadline | None = None


class RefineRequest(Asked):
    """A refinement, as an operator on a term of a field."""

    op: Literal["or", "+", "-", "^"]
    term: Annotated[str, Field(min_length=1, max_length=MAX_TERM_CHARS)]
    field: Literal["contents", "title"] = "contents"
    weight: Annotated[float, Field(gt=0, le=MAX_BOOST, allow_inf_nan=False, description="of ^ only")] = 1.0


class BranchRequest(Asked):
    step: Annotated[int, Field(ge=0, le=1000)]


class WhyRequest(Asked):
    """Why a passage stands where it does for a query in Lucene's syntax."""

    query: Text
    passage: PassageId
    index: IndexName = ""
