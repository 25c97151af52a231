"""From files of Rocchio sessions to batches of tokens, for the T5 agent and for the answer generator.

A state is rendered once, into a row of JSON that serves any tokenizer (`training.example_cache`):

    agent      {"question": …, "state": "Query: '…'. …", "targets": {"G1": [["Contents …", 0.31], …], "G4": []}}
               a grammar's targets are its improving refinements with their gains, best first; none where Rocchio stops
    answerer   {"question": …, "state": "Query: '…'. …", "answers": ["…"], "last": true}
               `answers` are the gold answers that a passage shows; a state that shows none is left out

Batches hold sources of like length, in an order that the seed alone decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import islice
from math import exp
from pathlib import Path
from typing import Any, NamedTuple

from orienteer.agents import imitation
from orienteer.agents.imitation import BackendLoader, Label, LabelledState
from orienteer.agents.t5.model_files import Codec
from orienteer.agents.t5.rendering import (
    STOP_SENTENCE,
    TextLayout,
    prefix,
    render_question,
    render_state,
    sentence,
)
from orienteer.data.passage import Question
from orienteer.errors import TrainingError
from orienteer.query import Grammar
from orienteer.reader.answer_matching import holds_answer
from orienteer.rocchio.sessions import read_sessions
from orienteer.training import example_cache
from orienteer.training.example_cache import Row

MAX_TARGETS = 8  # improving refinements kept of a state under a grammar

_VERSION = 1  # of the rows
_HELD_OUT = 50  # one question of so many

Show = Callable[[str, int], None]  # of a file, how many batches of `imitation.SESSIONS_PER_BATCH` sessions are rendered


@dataclass(frozen=True, slots=True)
class TextExample:
    """A source and its targets with their gains, best first.

    question   a digest of the question's id, to hold some questions out
    state      the source without its prefix, in UTF-8: half as large in memory, and shared by several prefixes
    rate       the share of epochs that draw it
    """

    question: int
    state: bytes
    targets: tuple[tuple[str, float], ...]
    prefix: str = ""
    rate: float = 1.0

    @property
    def source(self) -> str:
        return self.prefix + self.state.decode()


class TokenExample(NamedTuple):
    """An example in tokens: what the encoder gets, and what the decoder shall write, each with its weight."""

    source: list[int]
    targets: tuple[tuple[list[int], float], ...]

    @property
    def size(self) -> float:
        """Tokens to write, weighted."""
        return sum(weight * len(ids) for ids, weight in self.targets)


def agent_examples(
    folder: Path,
    files: Sequence[Path],
    questions: Callable[[], Sequence[Question]],
    grammars: Sequence[Grammar],
    layout: TextLayout,
    load_backends: BackendLoader,
    stop_rate: float,
    show: Show = lambda file, batches: None,
) -> list[TextExample]:
    """The agent's examples; index, reader and questions are opened only for what is not rendered yet.

    `stop_rate` is the share of epochs that draw an example whose target is Stop.
    """

    def rows(states: Iterable[LabelledState], questions: object) -> Iterator[Row]:
        return (agent_row(state, layout) for state in states)

    def examples(row: Row) -> Iterator[TextExample]:
        return agent_examples_of(row, grammars, stop_rate)

    key = (_VERSION, layout.title_words, layout.snippet)
    return _gather(folder, files, key, questions, None, layout.snippet, load_backends, rows, examples, show)


def agent_row(state: LabelledState, layout: TextLayout) -> dict[str, Any]:
    return {
        "question": example_cache.digest_of(state.question_id),
        "state": render_state(state.observation, layout),
        "targets": {label.grammar.name: _targets(label) for label in state.labels},
    }


def _targets(label: Label) -> list[tuple[str, float]]:
    """The chosen refinement first: it is the best, and the first of equals."""
    chosen, others = label.gains[:1], sorted(label.gains[1:], key=lambda each: -each[1])
    return [(sentence(refinement), round(gain, 6)) for refinement, gain in [*chosen, *others][:MAX_TARGETS]]


def agent_examples_of(row: Row, grammars: Sequence[Grammar], stop_rate: float) -> Iterator[TextExample]:
    """One example for each grammar that labels the row's state."""
    state = str(row["state"]).encode()
    for grammar in grammars:
        if (gains := row["targets"].get(grammar.name)) is not None:
            targets = tuple((str(text), float(gain)) for text, gain in gains) or ((STOP_SENTENCE, 0.0),)
            yield TextExample(int(row["question"]), state, targets, prefix(grammar), 1.0 if gains else stop_rate)


def answerer_examples(
    folder: Path,
    files: Sequence[Path],
    questions: Callable[[], Sequence[Question]],
    grammar: Grammar,
    layout: TextLayout,
    load_backends: BackendLoader,
    earlier_rate: float,
    show: Show = lambda file, batches: None,
) -> list[TextExample]:
    """The answerer's examples from a grammar's sessions: the five passages of a state in, a gold answer out.

    `earlier_rate` is the share of epochs that draw a state before a session's last. The paper takes last states
    alone; those before them look more like what other agents find.
    """

    def rows(states: Iterable[LabelledState], questions: Any) -> Iterator[Row]:
        made = (answerer_row(state, questions[state.question_id], layout) for state in states)
        return (row for row in made if row["answers"])

    def examples(row: Row) -> Iterator[TextExample]:
        return (example for example in [answerer_example(row, earlier_rate)] if example.rate > 0)

    key = (_VERSION, grammar.name, layout.title_words, layout.snippet)
    return _gather(folder, files, key, questions, grammar, layout.snippet, load_backends, rows, examples, show)


def answerer_row(state: LabelledState, question: Question, layout: TextLayout) -> dict[str, Any]:
    passages = state.observation.passages
    return {
        "question": example_cache.digest_of(state.question_id),
        "state": render_question(state.observation.question, passages, layout),
        "answers": [a for a in question.answers if any(holds_answer(p.snippet, (a,)) for p in passages)],
        "last": any(not label.gains for label in state.labels),
    }


def answerer_example(row: Row, earlier_rate: float) -> TextExample:
    targets = tuple((str(answer), 0.0) for answer in row["answers"])
    rate = 1.0 if row["last"] else earlier_rate
    return TextExample(int(row["question"]), str(row["state"]).encode(), targets, "", rate)


def _gather(
    folder: Path, files: Sequence[Path], key: tuple[object, ...], questions: Callable[[], Sequence[Question]],
    grammar: Grammar | None, snippet: int, load_backends: BackendLoader,
    rows: Callable[[Iterable[LabelledState], Any], Iterator[Row]],
    examples: Callable[[Row], Iterator[TextExample]], show: Show,
) -> list[TextExample]:  # fmt: skip
    """Renders the sessions of each file that has no finished cache, all of them or those of one grammar."""
    backends, by_id = cache(load_backends), cache(lambda: imitation.by_id(questions()))
    gathered: list[TextExample] = []
    for file in files:
        target = folder / example_cache.key(file, *key)

        def batches(done: int, file: Path = file) -> Iterator[Iterator[Row]]:
            header, sessions = read_sessions(file)
            chosen = (session for session in sessions if grammar is None or session.variant.grammar == grammar)
            rest = islice(chosen, done * imitation.SESSIONS_PER_BATCH, None)
            for states in imitation.labelled_states(header, rest, by_id(), *backends(), snippet=snippet):
                yield rows(states, by_id())

        example_cache.build(target, batches, partial(show, file.name))
        try:
            gathered += [example for row in example_cache.read(target) for example in examples(row)]
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise TrainingError(f"{target}: damaged examples ({error!r}); delete it to make them again") from None
    return gathered


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """The batch that comes next. Any batch can be made without those before it."""

    epoch: int = 0
    pool: int = 0
    batch: int = 0


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """tokens        of the encoder in a batch, padding included
    pool          examples sorted by length together
    targets       of a source at most, the best ones
    temperature   each is drawn with the probability softmax(gain / temperature); 0: only the best
    """

    max_source: int = 512
    max_target: int = 32
    tokens: int = 8192
    pool: int = 512
    targets: int = 4
    temperature: float = 0.0
    seed: int = 0


def batches(
    examples: Sequence[TextExample], codec: Codec, config: StreamConfig, start: StreamPosition | None = None
) -> Iterator[tuple[StreamPosition, list[TokenExample]]]:
    """Endless batches from a position on, each with the position after it."""
    if not examples:
        raise TrainingError("no examples to learn from; give sessions that improve on something")
    position = start or StreamPosition()
    while True:
        draw = random.Random(f"{config.seed}/{position.epoch}")
        drawn = [example for example in examples if example.rate >= 1 or draw.random() < example.rate]
        draw.shuffle(drawn)
        pools = -(-len(drawn) // config.pool)
        while position.pool < pools:
            pool = drawn[position.pool * config.pool : (position.pool + 1) * config.pool]
            seed = f"{config.seed}/{position.epoch}/{position.pool}"
            made = _pool_batches(pool, codec, config, random.Random(seed))
            for number in range(position.batch, len(made)):
                last = number == len(made) - 1
                position = StreamPosition(position.epoch, position.pool + last, 0 if last else number + 1)
                yield position, made[number]
        position = StreamPosition(position.epoch + 1)


def _pool_batches(
    pool: Sequence[TextExample], codec: Codec, config: StreamConfig, draw: random.Random
) -> list[list[TokenExample]]:
    """A pool as batches of like length, in random order."""
    made = by_length([_one_target(each, draw) for each in tokenize(pool, codec, config)], config.tokens)
    draw.shuffle(made)
    return made


def _one_target(example: TokenExample, draw: random.Random) -> TokenExample:
    """Draws one of the targets: over the epochs what all of them teach together, for the cost of one."""
    [drawn] = draw.choices([ids for ids, _ in example.targets], [weight for _, weight in example.targets])
    return TokenExample(example.source, ((drawn, 1.0),))


def by_length(examples: Sequence[TokenExample], max_tokens: int) -> list[list[TokenExample]]:
    """Examples sorted by length, in batches of at most `max_tokens` source tokens, padding included."""
    out: list[list[TokenExample]] = []
    for example in sorted(examples, key=lambda example: len(example.source)):
        if out and (len(out[-1]) + 1) * len(example.source) <= max_tokens:
            out[-1].append(example)
        else:
            out.append([example])
    return out


def tokenize(examples: Sequence[TextExample], codec: Codec, config: StreamConfig) -> list[TokenExample]:
    sources = codec.encode_sources([example.source for example in examples], config.max_source)
    weighted = [_weighted(example, config) for example in examples]
    ids = iter(codec.encode_targets([text for targets in weighted for text, _ in targets], config.max_target))
    return [
        TokenExample(source, tuple((next(ids), weight) for _, weight in targets))
        for source, targets in zip(sources, weighted, strict=True)
    ]


def _weighted(example: TextExample, config: StreamConfig) -> list[tuple[str, float]]:
    """The best targets with their weights, which add up to one."""
    if config.temperature <= 0:
        return [(example.targets[0][0], 1.0)]
    ranked = sorted(example.targets, key=lambda each: -each[1])[: config.targets]
    shares = [exp((gain - ranked[0][1]) / config.temperature) for _, gain in ranked]
    return [(text, share / sum(shares)) for (text, _), share in zip(ranked, shares, strict=True)]


def hold_out(examples: Sequence[TextExample]) -> tuple[list[TextExample], list[TextExample]]:
    """Examples to learn from, and those of one question in fifty, to measure the loss on."""
    held = [example for example in examples if example.question % _HELD_OUT == 0]
    return [example for example in examples if example.question % _HELD_OUT], held
