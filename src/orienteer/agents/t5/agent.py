"""The agents that write, `t5` and `copynet`, without torch: observations as strings in, refinements out."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from math import exp
from pathlib import Path
from typing import Any

from orienteer.agents.action_space import can_refine
from orienteer.agents.t5.constraints import LegalActions, action_of
from orienteer.agents.t5.generator import Generator, Hypothesis
from orienteer.agents.t5.model_files import SHIPPED, ModelFiles, load_folder
from orienteer.agents.t5.rendering import layout_of, parse_output, render
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError
from orienteer.models.bert_encoder import Compute
from orienteer.query import GRAMMARS, Grammar, Operator, Refinement
from orienteer.query.refinement import MAX_TERM_CHARS
from orienteer.session import NO_COST, STOP, Action, AgentCost, Lexicon, Observation, Stop

BEAM = 4
HELD = "held"  # the fallback of a free agent whose text is no legal action: it writes again, held to the grammar
_BLANKS = re.compile(r"\s+")

Decision = tuple[Action, dict[str, Any]]  # an action and its notes


class T5Agent:
    """An `Agent` from a folder that `orienteer train t5` wrote; by default the shipped one.

    Held to the grammar, it can only write legal refinements. Free, it writes any text: the first hypothesis that
    parses as a legal action is taken, and where none does, the state is decoded again, held to the grammar.
    """

    def __init__(
        self,
        files: ModelFiles,
        engine: Engine,
        grammar: Grammar | None = None,
        *,
        free: bool = False,
        beam: int = BEAM,
        compute: Compute = "int8",
        threads: int = 0,
    ) -> None:
        self.layout = layout_of(files)
        self.grammar = grammar or GRAMMARS[self.layout.grammar]
        self.free, self.beam = free, beam
        limits = self.layout.max_source, self.layout.max_target
        self.generator = Generator(files, *limits, compute=compute, threads=threads)
        self._lexicon = Lexicon(engine)
        self._legal = LegalActions(self.generator.codec, self.grammar, self._lexicon, self.layout.max_target)
        self.fingerprint = f"{files.fingerprint}-{self.grammar.name}-{compute}{'-free' if free else ''}"

    @classmethod
    def from_pretrained(
        cls, folder: str | Path | None, engine: Engine, grammar: Grammar | None = None, **options: Any
    ) -> T5Agent:
        """Options are those of the constructor; `threads` = 0 takes one for each core this process may use."""
        return cls(load_folder(Path(folder) if folder else SHIPPED, "t5"), engine, grammar, **options)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self.act_with_explanations(observations)]

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        held = AgentCost(fallbacks={HELD: 1})
        return [
            (action, held if notes.get("refused") else NO_COST)
            for action, notes in self.act_with_explanations(observations)
        ]

    def act_with_explanations(self, observations: Sequence[Observation]) -> list[Decision]:
        """Each action with the likeliest targets and their probabilities."""
        open_states = [can_refine(each, self._lexicon) for each in observations]
        refinable = [each for each, is_open in zip(observations, open_states, strict=True) if is_open]
        decisions = iter(self._unconstrained(refinable) if self.free else self._constrained(refinable))
        return [next(decisions) if is_open else (STOP, {}) for is_open in open_states]

    def render(self, observation: Observation) -> str:
        """The string that the model reads."""
        return render(observation, self.grammar, self.layout)

    def _constrained(self, observations: Sequence[Observation]) -> list[Decision]:
        tries = [self._legal.trie(observation) for observation in observations]
        filled = [number for number, trie in enumerate(tries) if trie]
        texts = [self.render(observations[number]) for number in filled]
        decisions: list[Decision] = [(STOP, {})] * len(observations)
        generated = self.generator.generate(texts, [tries[number] for number in filled], self.beam)
        for number, hypotheses in zip(filled, generated, strict=True):
            if not hypotheses:
                raise ModelCorruptError(
                    "these weights give no probability to any refinement; copy or train the T5 again"
                )
            actions = [action_of(each.value) for each in hypotheses]
            likeliest = [[str(a), _probability(h)] for a, h in zip(actions, hypotheses, strict=True)]
            decisions[number] = actions[0], {"likeliest": likeliest}
        return decisions

    def _unconstrained(self, observations: Sequence[Observation]) -> list[Decision]:
        texts = [self.render(observation) for observation in observations]
        generated = self.generator.generate(texts, [None] * len(texts), self.beam)
        decisions = [self._first_legal(*each) for each in zip(observations, generated, strict=True)]
        refused = [number for number, (action, _) in enumerate(decisions) if action is None]
        retried = dict(zip(refused, self._constrained([observations[n] for n in refused]), strict=True))
        return [
            (retried[number][0], {**retried[number][1], **notes}) if action is None else (action, notes)
            for number, (action, notes) in enumerate(decisions)
        ]

    def _first_legal(
        self, observation: Observation, hypotheses: Sequence[Hypothesis]
    ) -> tuple[Refinement | Stop | None, dict[str, Any]]:
        """The first legal action of the likeliest hypothesis that has one; None where all are refused."""
        texts = [self.generator.codec.decode(each.tokens) for each in hypotheses]
        notes: dict[str, Any] = {"wrote": [[t, _probability(h)] for t, h in zip(texts, hypotheses, strict=True)]}
        offered = {fold_term(term.text): term.text for term in reversed(observation.terms)}
        for text in texts:
            parsed = parse_output(text)
            if parsed.stop and observation.may_stop:
                return STOP, notes
            for refinement in parsed.refinements:
                if (legal := self._legal_form(refinement, observation, offered)) is not None:
                    return legal, notes
        return None, {**notes, "refused": True}

    def _legal_form(
        self, refinement: Refinement, observation: Observation, offered: Mapping[str, str]
    ) -> Refinement | None:
        """The refinement with its term as the observation has it; None where the grammar or the session forbids it."""
        operator = Operator(refinement.op, refinement.weight)
        term = offered.get(fold_term(refinement.term), refinement.term)
        same = self._lexicon.as_term(term)
        if operator not in self.grammar.operators or len(term) > MAX_TERM_CHARS or not same or same in observation.used:
            return None
        return operator.apply(refinement.field, term)


def fold_term(text: str) -> str:
    """A term as a wordpiece vocabulary keeps it: without blanks, case and accents."""
    plain = unicodedata.normalize("NFD", _BLANKS.sub("", text).lower())
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Mn")


def _probability(hypothesis: Hypothesis) -> float:
    return round(exp(hypothesis.log_probability), 6)
