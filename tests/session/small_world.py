"""A few passages about made-up lighthouses, questions about them, and agents that misbehave on purpose."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orienteer.data.passage import Passage, Question
from orienteer.query import G4, Refinement
from orienteer.session import STOP, UNDO, Action, Observation

PASSAGES = [
    Passage(
        "ardle-1", "Ardle Light", "Ardle Light stands on a reef. Its keeper Maren Holt lit the first lamp in 1871."
    ),
    Passage("ardle-2", "Ardle Light", "The tower of Ardle was painted red by Oskar Lind after the great storm."),
    Passage("brisk-1", "Brisk Point", "Brisk Point has a lamp that burns whale oil. Tomas Reed built the tower."),
    Passage("brisk-2", "Brisk Point", "A foghorn joined the lamp at Brisk Point in 1902, and the keeper moved out."),
    Passage("corran-1", "Corran Beacon", "Corran Beacon was drawn by Ida Strand, whose brother was keeper of Ardle."),
    Passage("corran-2", "Corran Beacon", "The reef under Corran Beacon wrecked the ship Halcyon in 1888."),
    Passage("dunmore-1", "Dunmore Tower", "Dunmore Tower lost its lamp in a storm; Maren Holt gave it a new one."),
    Passage("dunmore-2", "Dunmore Tower", "Visitors climb Dunmore Tower by 210 steps of red stone."),
    Passage("eider-1", "", "A lamp without a tower hangs on Eider Rock; nobody keeps it."),
    Passage("eider-2", "Eider Rock", "Eider Rock is home to birds. Painters such as Lena Dahl row there in June."),
    Passage("faro-1", "灯塔", "灯塔 stands far to the east, and its first keeper was Wei Lin."),
    Passage("same-1", "Ardle Light", "Ardle Light stands on a reef. Its keeper Maren Holt lit the first lamp in 1871."),
]

QUESTIONS = [
    Question("q1", "who lit the first lamp on the reef", ("Maren Holt",)),
    Question("q2", "who painted the tower of Ardle red", ("Oskar Lind",)),
    Question("q3", "which ship was wrecked under the beacon", ("Halcyon", "the Halcyon")),
    Question("q4", "how many steps of stone lead up the tower", ("210",)),
    Question("q5", "who keeps the lamp on the rock"),
]

HARD_QUESTIONS = [
    Question("no-answers", "who keeps the lamp"),
    Question("no-hits", "zyxwv qponm", ("Maren Holt",)),
    Question("stop-words", "who is the of and", ("Maren Holt",)),
    Question("empty", "", ("Maren Holt",)),
    Question("blanks", " \t\n ", ("Maren Holt",)),
    Question("chinese", "灯塔 的 keeper", ("Wei Lin",)),
    Question("greek", "ποιος άναψε τη λάμπα", ("Maren Holt",)),
    Question("operators", 'lamp AND -tower +"reef" ^4 (contents:x', ("1871",)),
    Question("surrogate", "lamp \ud800 tower", ("Tomas Reed",)),
    Question("empty-answers", "who lit the lamp", ("", "the", "!")),
    Question("too-many-words", "lamp " * 1100, ("1871",)),
    Question("long-word", "x" * 300 + " lamp" * 2, ("1871",)),
    Question("many-terms", " ".join(f"a{n}-b{n}" for n in range(600)), ("1871",)),
]


class Wanderer:
    """Any refinement of G4 with any term offered, drawn with the observation's own seed; sometimes takes one back."""

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [self._one(observation) for observation in observations]

    def _one(self, observation: Observation) -> Action:
        draw = np.random.default_rng(observation.seed)
        if observation.refinements and draw.random() < 0.15:
            return UNDO
        if not observation.terms or (observation.may_stop and draw.random() < 0.1):
            return STOP
        term = observation.terms[draw.integers(len(observation.terms))]
        field = "title" if "title" in term.sources and draw.random() < 0.5 else "contents"
        choices = list(G4.refinements(field, term.text))
        return choices[draw.integers(len(choices))]


class Scripted:
    """The same actions in every session, then stop."""

    def __init__(self, *actions: object) -> None:
        self._actions = actions

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [self._actions[o.step] if o.step < len(self._actions) else STOP for o in observations]  # type: ignore


def plus(term: str) -> Refinement:
    return Refinement("+", "contents", term)


def minus(term: str) -> Refinement:
    return Refinement("-", "contents", term)
