"""Search sessions: state, actions, score and reward, observations, environment, records, batched runner."""

from orienteer.session.agent import Agent, CostingAgent
from orienteer.session.environment import Environment, Seconds
from orienteer.session.observation import Lexicon, Observation, ObservedPassage, Term
from orienteer.session.record import (
    Record,
    RecordError,
    ReplayError,
    check_replay,
    from_line,
    read_records,
    record,
    replay,
    to_line,
    write_records,
)
from orienteer.session.runner import Run, play, run_sessions
from orienteer.session.score import Score, ndcem, ndcg, reward, score, weights
from orienteer.session.settings import Settings, SettingsError
from orienteer.session.state import (
    NO_COST,
    STOP,
    UNDO,
    Action,
    AgentCost,
    Ending,
    Read,
    SeenPassage,
    Session,
    Step,
    Stop,
    Undo,
    best_of,
)

__all__ = [
    "NO_COST", "STOP", "UNDO",
    "Action", "Agent", "AgentCost", "CostingAgent", "Ending", "Environment", "Lexicon", "Observation",
    "ObservedPassage", "Read", "Record", "RecordError", "ReplayError", "Run", "Score", "Seconds", "SeenPassage",
    "Session", "Settings", "SettingsError", "Step", "Stop", "Term", "Undo", "best_of", "check_replay", "from_line",
    "ndcem", "ndcg", "play", "read_records", "record", "replay", "reward", "run_sessions", "score", "to_line",
    "weights", "write_records",
]  # fmt: skip
