"""`train t5` and `train answerer`: from recorded Rocchio sessions to models of text to text, on the command line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orienteer.commands.terminal import out
from orienteer.commands.training import World, questions_of, sessions_encoded
from orienteer.errors import MissingExtraError, OrienteerError

if TYPE_CHECKING:
    from orienteer.agents.t5.dataset import StreamConfig, TextExample
    from orienteer.agents.t5.model_files import ModelFiles
    from orienteer.agents.t5.train import Judge, TrainConfig


Sessions = Annotated[list[Path], typer.Option(help="files that `orienteer rocchio` wrote; may be repeated")]
Questions = Annotated[list[Path], typer.Option(help="the questions of the sessions; may be repeated")]
IndexOf = Annotated[Path, typer.Option(help="the index that the sessions were searched in")]
ReaderOf = Annotated[Path | None, typer.Option(help="folder of the sessions' reader; none: the shipped one")]
CacheOf = Annotated[Path | None, typer.Option(help="file of readings, so that a passage is read once")]
Base = Annotated[
    str | None,
    typer.Option(
        help="small: from scratch; a T5, BERT, reader or pointer: folder, hub name, `shipped` (reader) or `pointer`; "
        "none: the preset's"
    ),
]
PresetName = Annotated[
    str,
    typer.Option(help="copying, small (from scratch) or paper: every value of its table; options change single ones"),
]
Dev = Annotated[Path | None, typer.Option(help="questions to judge progress on, by real sessions")]
DevLimit = Annotated[int, typer.Option(help="how many of them", min=1)]
Minutes = Annotated[float, typer.Option(help="of training in all, kills included")]
Steps = Annotated[int, typer.Option(help="instead of minutes: resumes to the same weights")]
JudgeMinutes = Annotated[float, typer.Option(help="between two judgements on --dev")]
Patience = Annotated[int, typer.Option(help="judgements without a new best one, then stop; 0: never")]
Rate = Annotated[float | None, typer.Option(help="AdaFactor's, relative to each matrix's own size; none: the preset's")]
Decay = Annotated[
    float | None, typer.Option(help="last part of training in which the rate falls; 0: constant; none: the preset's")
]
BatchTokens = Annotated[int | None, typer.Option(help="tokens of a batch; none: the preset's", min=512)]
Dropout = Annotated[float | None, typer.Option(help="none: the preset's", min=0.0, max=0.9)]
DecoderLayers = Annotated[int, typer.Option(help="of a new decoder, where the base is an encoder alone", min=1)]
FreezeWords = Annotated[bool | None, typer.Option(help="word vectors stay as they are; none: the preset's")]
FreezeEncoder = Annotated[
    bool | None,
    typer.Option(help="the decoder learns alone, many times as fast; none: the preset's. To go on: --base OUT/trained"),
]
Threads = Annotated[int, typer.Option(help="threads to use", min=1)]


def train_t5(
    sessions: Sessions,
    questions: Questions,
    index: IndexOf,
    out_dir: Annotated[Path, typer.Option("--out", help="folder of checkpoints, examples and the agent")],
    grammar: Annotated[
        str, typer.Option(help="G0 to G4, several with commas, or all: whose sessions it learns")
    ] = "all",
    plays: Annotated[str | None, typer.Option(help="the grammar that the bare name `t5` plays; G1 or the only")] = None,
    base: Base = None,
    preset: PresetName = "copying",
    reader: ReaderOf = None,
    cache: CacheOf = None,
    dev: Dev = None,
    dev_limit: DevLimit = 50,
    snippet: Annotated[int | None, typer.Option(help="words of a passage that the agent sees; none: 30", min=1)] = None,
    minutes: Minutes = 0.0,
    steps: Steps = 0,
    judge_minutes: JudgeMinutes = 20.0,
    patience: Patience = 0,
    learning_rate: Rate = None,
    decay: Decay = None,
    tokens: BatchTokens = None,
    dropout: Dropout = None,
    decoder_layers: DecoderLayers = 2,
    freeze_words: FreezeWords = None,
    freeze_encoder: FreezeEncoder = None,
    temperature: Annotated[
        float | None,
        typer.Option(
            help="of soft targets among the improving ones, by gain; 0: only the best, as the paper's; "
            "none: the preset's",
            min=0.0,
        ),
    ] = None,
    stops: Annotated[float, typer.Option(help="how much of the epochs see a Stop", min=0.0, max=1.0)] = 0.3,
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    threads: Threads = 2,
) -> None:
    """Train a T5 agent; run it again after a kill and it goes on from its last checkpoint.

    orienteer train t5 --sessions sessions.jsonl --questions train.jsonl --index my-index --out DIR
    """
    run = _Run(base, preset, out_dir, learning_rate, decay, tokens, dropout, minutes, steps, seed, threads)
    from orienteer.agents.imitation import grammars_of
    from orienteer.agents.judging import Judge
    from orienteer.agents.t5.agent import T5Agent
    from orienteer.agents.t5.dataset import agent_examples
    from orienteer.agents.t5.rendering import phrases
    from orienteer.session import Environment, Settings

    grammars = grammars_of(grammar)
    [played] = grammars_of(plays or (grammars[0].name if len(grammars) == 1 else run.preset.layout.grammar))
    layout = replace(run.preset.layout, grammar=played.name, snippet=snippet or run.preset.layout.snippet)
    world = World(index, reader, cache, threads)
    examples = agent_examples(
        out_dir / "examples", sessions, lambda: questions_of(questions), grammars, layout, world.open, stops,
        sessions_encoded,
    )  # fmt: skip
    refine = sum(example.targets[0][1] > 0 for example in examples)
    out.print(f"{len(examples):,} examples, {refine:,} of them with a refinement")
    judge: Judge[ModelFiles] | None = None
    if dev is not None:
        judged = questions_of([dev])[:dev_limit]
        environment = Environment(*world.open(), Settings(snippet=layout.snippet))
        judge = Judge(environment, judged, lambda files: T5Agent(files, environment.engine, played, threads=threads))
    config, stream = run.configs("t5", layout, judge_minutes, patience, freeze_words, freeze_encoder, temperature)
    run.train(examples, config, stream, decoder_layers, phrases(), judge)
    out.print(f"{out_dir / 'int8'}: play it as t5={out_dir / 'int8'}")


def train_answerer(
    sessions: Sessions,
    questions: Questions,
    index: IndexOf,
    out_dir: Annotated[Path, typer.Option("--out", help="folder of checkpoints, examples and the answerer")],
    grammar: Annotated[str, typer.Option(help="whose sessions it learns from")] = "G4",
    base: Base = None,
    preset: PresetName = "copying",
    reader: ReaderOf = None,
    cache: CacheOf = None,
    dev: Dev = None,
    dev_limit: DevLimit = 200,
    dev_agent: Annotated[str, typer.Option(help="whose sessions on --dev it is judged on")] = "bm25+ps",
    snippet: Annotated[int | None, typer.Option(help="words of a passage that it sees; none: 70", min=1)] = None,
    minutes: Minutes = 0.0,
    steps: Steps = 0,
    judge_minutes: JudgeMinutes = 20.0,
    patience: Patience = 0,
    learning_rate: Rate = None,
    decay: Decay = None,
    tokens: BatchTokens = None,
    dropout: Dropout = None,
    decoder_layers: DecoderLayers = 2,
    freeze_words: FreezeWords = None,
    freeze_encoder: FreezeEncoder = None,
    earlier: Annotated[
        float, typer.Option(help="how much of the epochs see a state before a session's last; 0: as the paper", max=1.0)
    ] = 0.3,
    seed: Annotated[int, typer.Option(help="decides every draw")] = 0,
    threads: Threads = 2,
) -> None:
    """Train an answer generator on the passages that Rocchio found; a killed run goes on.

    orienteer train answerer --sessions sessions.jsonl --questions train.jsonl --index my-index --minutes 60 --out DIR
    """
    if base is None and preset == "copying":
        base = "shipped"  # the reader's encoder knows where answers stand
    run = _Run(base, preset, out_dir, learning_rate, decay, tokens, dropout, minutes, steps, seed, threads)
    from orienteer.agents.imitation import grammars_of
    from orienteer.agents.t5.answerer import ANSWERER_LAYOUT, ExactMatch, play_sessions
    from orienteer.agents.t5.dataset import answerer_examples

    [taught] = grammars_of(grammar)
    layout = ANSWERER_LAYOUT if snippet is None else replace(ANSWERER_LAYOUT, snippet=snippet)
    world = World(index, reader, cache, threads)
    asked = questions_of(questions)
    examples = answerer_examples(
        out_dir / "examples", sessions, lambda: asked, taught, layout, world.open, earlier, sessions_encoded
    )
    out.print(f"{len(examples):,} examples")
    judge = None
    if dev is not None:
        judge = ExactMatch(play_sessions(*world.open(), dev_agent, questions_of([dev])[:dev_limit]), threads)
    config, stream = run.configs("answerer", layout, judge_minutes, patience, freeze_words, freeze_encoder, 0.0)
    run.train(examples, config, stream, decoder_layers, [], judge)
    out.print(f"{out_dir / 'int8'}: evaluate with --answerer {out_dir / 'int8'}")


class _Run:
    """What the two commands do alike: a preset with options before it, training, int8."""

    def __init__(
        self, base: str | None, preset: str, out_dir: Path, learning_rate: float | None, decay: float | None,
        tokens: int | None, dropout: float | None, minutes: float, steps: int, seed: int, threads: int,
    ) -> None:  # fmt: skip
        try:
            import torch  # noqa: F401
            import transformers  # noqa: F401
        except ImportError as error:
            raise MissingExtraError(error.name or "torch", "train") from None
        from orienteer.agents.t5.presets import PRESETS

        if preset not in PRESETS:
            raise OrienteerError(f"no preset is called {preset!r}; expected copying, small or paper")
        given: dict[str, Any] = {
            "base": base,
            "learning_rate": learning_rate,
            "decay": decay,
            "tokens": tokens,
            "dropout": dropout,
        }
        self.preset = replace(PRESETS[preset], **{name: value for name, value in given.items() if value is not None})
        if base not in (None, "pointer", "shipped"):
            # A preset freezes the encoder that it names; another one may have much to learn.
            self.preset = replace(self.preset, frozen=False)
        self.out, self.minutes, self.steps, self.seed, self.threads = out_dir, minutes, steps, seed, threads
        if not minutes and not steps:
            self.steps = self.preset.steps
        if not minutes and not self.steps:
            raise OrienteerError("nothing says when to stop; give --minutes or --steps")

    def configs(
        self, purpose: Any, layout: Any, judge_minutes: float, patience: int, freeze_words: bool | None,
        freeze_encoder: bool | None, temperature: float | None,
    ) -> tuple[TrainConfig, StreamConfig]:  # fmt: skip
        from orienteer.agents.t5.dataset import StreamConfig
        from orienteer.agents.t5.train import TrainConfig

        preset = self.preset
        freeze_words = preset.frozen if freeze_words is None else freeze_words
        freeze_encoder = preset.frozen if freeze_encoder is None else freeze_encoder
        temperature = preset.temperature if temperature is None else temperature
        stream = StreamConfig(
            layout.max_source, layout.max_target, preset.tokens, temperature=temperature, seed=self.seed
        )
        config = TrainConfig(
            out=self.out / "trained", purpose=purpose, layout=layout.as_dict(), steps=self.steps, minutes=self.minutes,
            learning_rate=preset.learning_rate, decay=preset.decay, dropout=preset.dropout, threads=self.threads,
            freeze_words=freeze_words,
            freeze_encoder=freeze_encoder, judge_minutes=judge_minutes, patience=patience, seed=self.seed,
            notes={"base": Path(preset.base).name, "tokens": preset.tokens, "temperature": temperature},
        )  # fmt: skip
        return config, stream

    def train(
        self, examples: list[TextExample], config: TrainConfig, how: StreamConfig, decoder_layers: int,
        phrases: list[str], judge: Judge | None,
    ) -> None:  # fmt: skip
        """`phrases`: what a new decoder may write beside words of its source."""
        from orienteer.agents.t5.dataset import batches, hold_out, tokenize
        from orienteer.agents.t5.model import load
        from orienteer.agents.t5.model_files import Codec, to_int8
        from orienteer.agents.t5.train import train

        model, tokenizer = load(self.preset.base, self.preset.dropout, decoder_layers=decoder_layers, phrases=phrases)
        codec = Codec(tokenizer, model.config)
        learned, held = hold_out(examples)
        train(
            model, tokenizer, lambda place: batches(learned, codec, how, place), tokenize(held[:500], codec, how),
            config, judge, lambda progress: out.print(str(progress)),
        )  # fmt: skip
        to_int8(config.out, self.out / "int8")
