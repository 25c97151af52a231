"""The agent `muzero`: plans each refinement in its learned model, without torch; and its search trees for display."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from orienteer.agents.action_space import can_refine
from orienteer.agents.muzero.config import SearchSettings
from orienteer.agents.muzero.grammar import QueryGrammar, query_grammar
from orienteer.agents.muzero.model_files import SHIPPED, MuZeroFiles, load_folder
from orienteer.agents.muzero.networks import Networks
from orienteer.agents.muzero.planning import PlannedStep, SearchTrace, plan_steps
from orienteer.agents.muzero.representation import Encoder, ObservationPipeline, below_undo_threshold
from orienteer.agents.muzero.root import root_state
from orienteer.agents.muzero.tries import TermTokenizer, Trie, local_tries, vocabulary_trie
from orienteer.engine.protocol import Engine
from orienteer.errors import ModelCorruptError
from orienteer.models.bert_encoder import Compute, plain_tokenizer
from orienteer.query import GRAMMARS
from orienteer.session import STOP, UNDO, Action, AgentCost, Observation
from orienteer.session.agent import TreeNode, tree_explanation


class MuZeroAgent:
    """An `Agent` from a model folder that training wrote."""

    def __init__(
        self,
        files: MuZeroFiles,
        engine: Engine,
        search: SearchSettings | None = None,
        *,
        compute: Compute = "int8",
        threads: int = 0,
        encoder: Encoder | None = None,
        index: Trie | None = None,
    ) -> None:
        """`encoder` and `index` where a caller has them already."""
        config = files.config
        tokenizer = plain_tokenizer(files.tokenizer)
        self.search = replace(search or config.search, noise_share=0.0)
        self.grammar = query_grammar(GRAMMARS[config.grammar], config.shape, config.fields)
        encoder = encoder or Encoder(files.bert, files.tensors, tokenizer, compute=compute, threads=threads)
        self._pipeline = ObservationPipeline.create(tokenizer, engine, encoder, self.grammar, config)
        trie = index if index is not None else vocabulary_trie(engine, self._pipeline.term_tokenizer)
        try:
            self._networks = Networks(files.networks, config.networks, encoder.word_embeddings, self.grammar, trie)
        except (KeyError, ValueError) as error:
            raise ModelCorruptError(f"these weights do not make a MuZero: {error!r}; train it again") from None
        self._threads = threads or len(os.sched_getaffinity(0))
        self.fingerprint = f"{files.fingerprint}-{self.search.simulations}-{compute}"

    @classmethod
    def from_pretrained(
        cls, folder: str | Path | None, engine: Engine, search: SearchSettings | None = None, *, threads: int = 0
    ) -> MuZeroAgent:
        """The shipped folder by default; `threads` = 0: one per core that this process may use."""
        return cls(load_folder(Path(folder) if folder else SHIPPED), engine, search, threads=threads)

    def act(self, observations: Sequence[Observation]) -> list[Action]:
        return [action for action, _, _ in self._decide(observations, None)]

    def act_with_costs(self, observations: Sequence[Observation]) -> list[tuple[Action, AgentCost]]:
        return [(action, cost) for action, _, cost in self._decide(observations, None)]

    def act_with_explanations(self, observations: Sequence[Observation]) -> list[tuple[Action, dict[str, Any]]]:
        """Each action with its value and the search trees of its grammar actions."""
        traces: list[list[SearchTrace]] = [[] for _ in observations]
        decided = self._decide(observations, traces)
        return [
            (action, self._explanation(plan, searches))
            for (action, plan, _), searches in zip(decided, traces, strict=True)
        ]

    def _decide(
        self, observations: Sequence[Observation], traces: list[list[SearchTrace]] | None
    ) -> list[tuple[Action, PlannedStep, AgentCost]]:
        seen = self._pipeline.encode(observations)
        roots = [
            root_state(
                self._networks, encoded, tokenized.terms,
                local_tries(tokenized.terms, self._pipeline.term_tokenizer),
                self._pipeline.action_history(observation.refinements, self._networks.config.history),
                max(1, observation.steps_left), observation.may_stop,
            )
            for (tokenized, encoded), observation in zip(seen, observations, strict=True)
        ]  # fmt: skip
        decided: list[tuple[Action, PlannedStep, AgentCost]] = []
        plans = plan_steps(self._networks, roots, self.search, traces=traces, threads=self._threads)
        for plan, (tokenized, encoded), observation in zip(plans, seen, observations, strict=True):
            action: Action = plan.action(tokenized.terms)
            if below_undo_threshold(encoded, self._pipeline.config) and observation.refinements:
                action = UNDO
            room = can_refine(observation, self._pipeline.tokenizer.lexicon)
            decided.append((action if room else STOP, plan, encoded.cost))
        return decided

    def _explanation(self, plan: PlannedStep, searches: Sequence[SearchTrace]) -> dict[str, Any]:
        explanation = {
            "simulations": self.search.simulations,
            "value": round(plan.values[0], 4) if plan.values else 0.0,
        }
        return {**explanation, **tree_explanation(search_tree(searches, self.grammar, self._pipeline.term_tokenizer))}


CHILDREN, DEPTH = 5, 6  # of a node; of a search


def search_tree(
    searches: Sequence[SearchTrace],
    grammar: QueryGrammar,
    term_tokenizer: TermTokenizer,
    children: int = CHILDREN,
    depth: int = DEPTH,
) -> TreeNode:
    """The searches of one step as one tree; a label is a rule in a few letters, or a wordpiece.

    A node's value is its Q, which includes the reward of the action that leads there; a root's is its mean value.
    """
    first = searches[0]
    below = _Display(grammar, term_tokenizer, children).children(searches, 0, depth)
    return TreeNode("Q", int(first.result.trees.visits[first.tree, 0]), first.result.value(first.tree), None, below)


class _Display:
    """What all nodes of a display share."""

    def __init__(self, grammar: QueryGrammar, term_tokenizer: TermTokenizer, most: int) -> None:
        self._grammar, self._term_tokenizer, self._most = grammar, term_tokenizer, most

    def children(self, searches: Sequence[SearchTrace], node: int, depth: int) -> tuple[TreeNode, ...]:
        """The children of a node of the first search; the later searches are below the child that was taken."""
        search = searches[0]
        trees, tree = search.result.trees, search.tree
        count = int(trees.num_children[tree, node])
        if depth == 0 or count == 0:
            return ()
        visits, priors = trees.child_visits[tree, node, :count], trees.child_prior[tree, node, :count]
        shown = np.lexsort((np.arange(count), -priors, -visits))[: self._most].tolist()
        taken = search.child if node == 0 else -1
        if taken >= 0 and taken not in shown:
            shown = [*shown[:-1], taken]
        return tuple(self._child(searches, node, position, position == taken, depth) for position in shown)

    def _child(self, searches: Sequence[SearchTrace], node: int, position: int, taken: bool, depth: int) -> TreeNode:
        search = searches[0]
        trees, tree = search.result.trees, search.tree
        action, child = int(trees.child_action[tree, node, position]), int(trees.child_node[tree, node, position])
        below: tuple[TreeNode, ...] = ()
        if taken and len(searches) > 1:
            below = self.children(searches[1:], 0, DEPTH)
        elif child >= 0:
            below = self.children(searches[:1], child, depth - 1)
        value = float(trees.child_q[tree, node, position]) if child >= 0 else None
        visits, prior = int(trees.child_visits[tree, node, position]), float(trees.child_prior[tree, node, position])
        return TreeNode(self._label(action), visits, value, prior, below, taken)

    def _label(self, action: int) -> str:
        rules = len(self._grammar)
        return self._grammar.label(action) if action < rules else self._term_tokenizer.token(action - rules)
