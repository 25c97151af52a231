"""The agent `muzero`: plans each refinement in its learned model, without torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from orienteer.agents.muzero.display import turn_tree
from orienteer.agents.muzero.grammar import query_grammar
from orienteer.agents.muzero.index_trie import index_words
from orienteer.agents.muzero.lookahead_prior import promises_little
from orienteer.agents.muzero.mcts import SearchSettings
from orienteer.agents.muzero.model_files import SHIPPED, MuZeroFiles, load_folder
from orienteer.agents.muzero.planning import Grown, Plan, plan_turns
from orienteer.agents.muzero.representation import Eyes
from orienteer.agents.muzero.root import Mind
from orienteer.agents.muzero.self_play import Senses
from orienteer.agents.muzero.tries import Trie, local_tries
from orienteer.agents.pointer.agent import plain_tokenizer
from orienteer.agents.pointer.decoding import has_room
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError
from orienteer.query import GRAMMARS
from orienteer.reader.runtime import Compute
from orienteer.session import STOP, UNDO, Action, Observation
from orienteer.session.agent import tree_explanation


class MuZeroAgent:
    """An `Agent` from a folder that training wrote; the shipped one unless told otherwise."""

    def __init__(
        self,
        files: MuZeroFiles,
        engine: Engine,
        search: SearchSettings | None = None,
        *,
        compute: Compute = "int8",
        threads: int = 0,
        eyes: Eyes | None = None,
        index: Trie | None = None,
    ) -> None:
        """`eyes` and `index` where a caller has them already."""
        config = files.config
        tokenizer = plain_tokenizer(files.tokenizer)
        self.search = replace(search or config.search, noise_share=0.0)
        self.grammar = query_grammar(GRAMMARS[config.grammar], config.shape, config.fields)
        eyes = eyes or Eyes(files.bert, files.tensors, tokenizer, compute=compute, threads=threads)
        self._senses = Senses.of(tokenizer, engine, eyes, self.grammar, config)
        trie = index if index is not None else index_words(engine, self._senses.spelling)
        try:
            self._mind = Mind(files.own, config.sizes, eyes.words, self.grammar, trie)
        except (KeyError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make a MuZero: {error!r}; train it again") from None
        self._threads = threads or len(os.sched_getaffinity(0))
        self.fingerprint = f"{files.fingerprint}-{self.search.simulations}-{compute}"

    @classmethod
    def from_pretrained(
        cls, folder: str | Path | None, engine: Engine, search: SearchSettings | None = None, *, threads: int = 0
    ) -> MuZeroAgent:
        """`threads` = 0 takes one for each core this process may use."""
        return cls(load_folder(Path(folder) if folder else SHIPPED), engine, search, threads=threads)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _ in self._decide(observations, None)]

    def act_with_explanations(self, observations: Sequence[Observation]) -> list[tuple[Action, dict[str, Any]]]:
        """Each action with its value, and the trees that were searched for its rules."""
        grown: list[list[Grown]] = [[] for _ in observations]
        decided = self._decide(observations, grown)
        return [(action, self._notes(plan, searches)) for (action, plan), searches in zip(decided, grown, strict=True)]

    def _decide(
        self, observations: Sequence[Observation], grown: list[list[Grown]] | None
    ) -> list[tuple[Action, Plan]]:
        seen = self._senses.see(observations)
        scenes = [
            self._mind.scene(
                sight, look.terms, local_tries(look.terms, self._senses.spelling),
                self._senses.memory(observation.refinements, self._mind.sizes.past),
                max(1, observation.steps_left), observation.may_stop,
            )
            for (look, sight), observation in zip(seen, observations, strict=True)
        ]  # fmt: skip
        decided: list[tuple[Action, Plan]] = []
        plans = plan_turns(self._mind, scenes, self.search, grown=grown, threads=self._threads)
        for plan, (look, sight), observation in zip(plans, seen, observations, strict=True):
            action: Action = plan.action(look.terms)
            if promises_little(sight, self._senses.config) and observation.refinements:
                action = UNDO
            room = has_room(observation, self._senses.looker.lexicon)
            decided.append((action if room else STOP, plan))
        return decided

    def _notes(self, plan: Plan, searches: Sequence[Grown]) -> dict[str, Any]:
        told = {
            "simulations": self.search.simulations,
            "value": round(plan.values[0], 4) if plan.values else 0.0,
        }
        return {**told, **tree_explanation(turn_tree(searches, self.grammar, self._senses.spelling))}
