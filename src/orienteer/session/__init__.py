"""A search session: its state, score and reward, observations, record, and sessions in lock-step."""

from orienteer.session.actions import STOP, UNDO, Action, Stop, Undo
from orienteer.session.agent import Agent
from orienteer.session.environment import Environment, Seconds
from orienteer.session.errors import RecordError, ReplayError, SettingsError
from orienteer.session.observation import Lexicon, Observation, ObservedPassage, Term
from orienteer.session.record import Record, from_line, read_records, record, to_line, write_records
from orienteer.session.replay import check_replay, replay
from orienteer.session.runner import Run, play, run_sessions
from orienteer.session.score import Score, ndcem, ndcg, reward, score, weights
from orienteer.session.settings import Settings
from orienteer.session.state import Ending, Seen, Session, Step, best_of

__all__ = [
    "STOP", "UNDO",
    "Action", "Agent", "Ending", "Environment", "Lexicon", "Observation", "ObservedPassage", "Record", "RecordError",
    "ReplayError", "Run", "Score", "Seconds", "Seen", "Session", "Settings", "SettingsError", "Step", "Stop", "Term",
    "Undo", "best_of", "check_replay", "from_line", "ndcem", "ndcg", "play", "read_records", "record", "replay",
    "reward", "run_sessions", "score", "to_line", "weights", "write_records",
]  # fmt: skip
