"""The T5 agent at work, without torch: observations as strings in, refinements out, held to the grammar or free."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from math import exp
from pathlib import Path
from typing import Any

from orienteer.agents.pointer.decoding import has_room
from orienteer.agents.t5.beam import Written
from orienteer.agents.t5.generator import Writer
from orienteer.agents.t5.layout import SHIPPED, layout_of
from orienteer.agents.t5.legal import Legal, action_of
from orienteer.agents.t5.model_files import ModelFiles, load_folder
from orienteer.agents.t5.parsing import parse_output
from orienteer.agents.t5.rendering import render
from orienteer.engine.protocol import Engine
from orienteer.query import GRAMMARS, Grammar, Operator, Refinement
from orienteer.query.refinement import MAX_TERM_CHARS
from orienteer.reader.runtime import Compute
from orienteer.session import STOP, Action, Lexicon, Observation, Stop

BEAM = 4
_BLANKS = re.compile(r"\s+")

Decided = tuple[Action, dict[str, Any]]


class T5Agent:
    """An `Agent` from a folder that training wrote; the shipped one unless told otherwise.

    Held to the grammar, it can only write legal refinements. Free, it writes what it likes: the first hypothesis that
    reads as a legal action is taken, and where none does the moment is written again, held to the grammar.
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
        self.writer = Writer(files, self.layout.max_source, self.layout.max_target, compute=compute, threads=threads)
        self._lexicon = Lexicon(engine)
        self._legal = Legal(self.writer.codec, self.grammar, self._lexicon, self.layout.max_target)
        self.fingerprint = f"{files.fingerprint}-{self.grammar.name}-{compute}{'-free' if free else ''}"

    @classmethod
    def from_pretrained(
        cls, folder: str | Path | None, engine: Engine, grammar: Grammar | None = None, **options: Any
    ) -> T5Agent:
        """Options are those of the constructor; `threads` = 0 takes one for each core this process may use."""
        return cls(load_folder(Path(folder) if folder else SHIPPED, "t5"), engine, grammar, **options)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self.act_with_notes(observations)]

    def act_with_notes(self, observations: Sequence[Observation]) -> list[Decided]:
        """Each action with the likeliest targets and their probabilities."""
        able = [has_room(each, self._lexicon) for each in observations]
        asked = [each for each, room in zip(observations, able, strict=True) if room]
        decided = iter(self._freely(asked) if self.free else self._held(asked))
        return [next(decided) if room else (STOP, {}) for room in able]

    def render(self, observation: Observation) -> str:
        """The string that the model reads."""
        return render(observation, self.grammar, self.layout.title_words, self.layout.snippet)

    def _held(self, observations: Sequence[Observation]) -> list[Decided]:
        tries = [self._legal.trie(observation) for observation in observations]
        going = [place for place, trie in enumerate(tries) if trie]
        texts = [self.render(observations[place]) for place in going]
        decided: list[Decided] = [(STOP, {})] * len(observations)
        for place, found in zip(going, self.writer.write(texts, [tries[p] for p in going], self.beam), strict=True):
            actions = [action_of(each.name) for each in found]
            likeliest = [[str(a), round(exp(w.log_probability), 6)] for a, w in zip(actions, found, strict=True)]
            decided[place] = actions[0], {"likeliest": likeliest}
        return decided

    def _freely(self, observations: Sequence[Observation]) -> list[Decided]:
        texts = [self.render(observation) for observation in observations]
        written = self.writer.write(texts, [None] * len(texts), self.beam)
        decided = [self._accepted(*each) for each in zip(observations, written, strict=True)]
        refused = [place for place, (action, _) in enumerate(decided) if action is None]
        held = dict(zip(refused, self._held([observations[place] for place in refused]), strict=True))
        return [
            (held[place][0], {**held[place][1], **notes}) if action is None else (action, notes)
            for place, (action, notes) in enumerate(decided)
        ]

    def _accepted(
        self, observation: Observation, written: Sequence[Written]
    ) -> tuple[Refinement | Stop | None, dict[str, Any]]:
        """The first legal action of the likeliest hypothesis that has one; None where all are refused."""
        texts = [self.writer.codec.text(each.tokens) for each in written]
        notes: dict[str, Any] = {
            "wrote": [[text, round(exp(w.log_probability), 6)] for text, w in zip(texts, written, strict=True)]
        }
        offered = {squeezed(term.text): term.text for term in reversed(observation.terms)}
        for text in texts:
            parsed = parse_output(text)
            if parsed.stop and observation.may_stop:
                return STOP, notes
            for refinement in parsed.refinements:
                if (legal := self._legalised(refinement, observation, offered)) is not None:
                    return legal, notes
        return None, {**notes, "refused": True}

    def _legalised(
        self, refinement: Refinement, observation: Observation, offered: Mapping[str, str]
    ) -> Refinement | None:
        """The refinement with its term as the observation has it; None where the grammar or the session forbids it."""
        operator = Operator(refinement.op, refinement.weight)
        term = offered.get(squeezed(refinement.term), refinement.term)
        same = self._lexicon.as_term(term)
        if operator not in self.grammar.operators or len(term) > MAX_TERM_CHARS or not same or same in observation.used:
            return None
        return operator.apply(refinement.field, term)


def squeezed(text: str) -> str:
    """A term as wordpieces tell it apart: without blanks, case and accents."""
    plain = unicodedata.normalize("NFD", _BLANKS.sub("", text).lower())
    return "".join(letter for letter in plain if unicodedata.category(letter) != "Mn")
