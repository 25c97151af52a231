"""`orienteer train …`: from questions and recorded sessions to models, on the command line.

Options are the fields of the trainers' configurations. This module is imported by `orienteer train` alone, and torch
only where something is trained.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress as Bar
from rich.progress import track

from orienteer.agents.pointer.config import TrainConfig as PointerConfig
from orienteer.agents.t5.presets import PRESETS, Seq2SeqOptions
from orienteer.commands.agreement import train_agreement
from orienteer.commands.confidence import train_confidence
from orienteer.commands.muzero import train_muzero
from orienteer.commands.options import with_options
from orienteer.commands.terminal import err, out
from orienteer.commands.training import World, encoded, questions_of, sessions_encoded, spread
from orienteer.dense.config import TrainConfig as EncoderConfig
from orienteer.errors import MissingExtraError, OrienteerError, TrainingError
from orienteer.reader.config import TrainConfig as ReaderConfig
from orienteer.training.config import SessionFiles, option

if TYPE_CHECKING:
    from orienteer.agents.t5.dataset import TextExample
    from orienteer.agents.t5.presets import Preset
    from orienteer.agents.t5.train import Judge
    from orienteer.data import Question
    from orienteer.reader.mining import Evidence
    from orienteer.reader.teacher import Teacher
    from orienteer.training.loop import Progress


@with_options(ReaderConfig)
def train_reader(config: ReaderConfig) -> None:
    """Train a reader; run it again after a kill and it goes on from its last checkpoint.

    orienteer train reader --base BERT --index my-index --questions train.jsonl.xz --minutes 90 --out my-reader
    """
    _need_torch()
    from orienteer.engine.open import open_engine
    from orienteer.reader.export import finish
    from orienteer.reader.mining import gather_rows
    from orienteer.reader.train import train

    engine = open_engine(config.index) if config.index else None
    rows = gather_rows(config.out, engine, config.questions, config.reading, config.rows, config.seed)
    dev_rows = gather_rows(config.out / "dev", engine, [config.dev], [], [], config.seed)[:300] if config.dev else []
    if config.teacher:  # a student's lowest layers have others above them now
        config = replace(config, base=config.teacher, freeze_layers=0)
    train(rows, config, dev_rows, _show)
    calibration = [q for path in config.calibrate for q in spread(questions_of([path]), 300)]
    a, b = finish(config.out, config.out / "int8", engine, calibration, config.threads)
    out.print(f"{config.out / 'int8'}: PS = sigmoid({a:.3f}·logit {b:+.3f})", markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowOptions:
    index: Path = option("index that passages are mined from")
    questions: tuple[Path, ...] = option("questions with answers (and gold passages); may be repeated")
    out: Path = option("file of the rows, such as rows.jsonl.zst; what is finished lies beside it until then")
    sources: str = option("how many questions of which source, such as nq_restored=2600,nq_dpr_dev=2600; none: all", "")
    readers: tuple[Path, ...] = option(
        "a teacher: a reader or a cross-encoder; may be repeated", (), names=("--reader",)
    )
    encoders: tuple[Path, ...] = option("a teacher: a bi-encoder; may be repeated", (), names=("--encoder",))
    draws: int = option("passages looked at for each question", 60, min=1)
    negatives: int = option("kept for each question", 6, min=1)
    retrieved: int = option("passages kept that hold an answer, beside the gold one", 2, min=0)
    seed: int = option("decides every draw", 0)
    threads: int = option("threads to use", 2, min=1)


@with_options(RowOptions)
def train_reader_rows(options: RowOptions) -> None:
    """Mine training rows for a reader, scored by teachers; run it again after a kill and it goes on.

    orienteer train reader-rows --index my-index --questions train.jsonl.xz --reader CROSS-ENCODER --encoder BGE --out R
    """
    from orienteer.engine.open import open_engine
    from orienteer.reader.mining import MiningConfig, mine, read_rows, write_rows
    from orienteer.reader.teacher import fit_teachers, score_rows, with_teacher

    work = options.out.with_name(options.out.name + ".work")
    mined = work / "rows.jsonl.zst"
    if not mined.exists():
        work.mkdir(parents=True, exist_ok=True)
        chosen = _of_sources(questions_of(options.questions), options.sources, options.seed)
        how = MiningConfig(
            draws=options.draws, negatives=options.negatives, retrieved=options.retrieved, seed=options.seed
        )
        write_rows(mined, mine(chosen, open_engine(options.index), how))
    rows = list(read_rows(mined))
    teachers = list(_teachers(options, work))
    if teachers:
        with Bar(console=err, disable=not err.is_terminal) as bar:
            task = bar.add_task("teachers", total=len(rows))
            scores = score_rows(rows, teachers, work / "scores", lambda done: bar.update(task, completed=done))
        weights = fit_teachers(rows, scores)
        out.print("logit = " + " + ".join(f"{w:.3f}·teacher {n}" for n, w in enumerate(weights[:-1], 1)))
        rows = list(with_teacher(rows, scores, weights))
    write_rows(options.out, rows)
    out.print(f"{options.out}: {len(rows):,} questions, {sum(len(row.passages) for row in rows):,} passages")


@dataclass(frozen=True, slots=True, kw_only=True)
class LikenessOptions:
    encoder: Path = option("folder of a bi-encoder with the reader's wordpieces, such as bge-small or a student of it")
    index: Path = option("index to search")
    questions: tuple[Path, ...] = option("questions with answers, 300 of each file; may be repeated")
    out: Path = option("folder of the new reader")
    reader: Path | None = option("folder of a reader; none: the shipped one", None)
    threads: int = option("threads to use", 2, min=1)


@with_options(LikenessOptions)
def train_likeness(options: LikenessOptions) -> None:
    """Put a bi-encoder beside a reader: it learns what a cosine counts, and PS is fitted again.

    orienteer train likeness --encoder BGE --index my-index --questions dev-who.jsonl --out my-reader
    """
    from orienteer.dense.encoder import read_encoder
    from orienteer.engine.open import open_engine
    from orienteer.models.model_folder import quantise
    from orienteer.reader.export import add_likeness
    from orienteer.reader.folder import SHIPPED, LikenessFiles, load_folder, save_folder

    found = read_encoder(options.encoder)
    encoder = LikenessFiles(found.config, quantise(found.tensors), found.pooling, 1.0, 0.0)
    chosen = [question for path in options.questions for question in spread(questions_of([path]), 300)]
    files, calibration = add_likeness(
        load_folder(options.reader or SHIPPED), encoder, open_engine(options.index), chosen, options.threads
    )
    save_folder(options.out, files.config, files.tensors, files.tokenizer, calibration, **files.notes)
    weight, at = files.told["likeness"]["weight"], files.told["likeness"]["at"]
    a, b = calibration
    out.print(f"{options.out}: PS = sigmoid({a:.3f}·(logit + {weight:.1f}·(cosine − {at:.3f})) {b:+.3f})", markup=False)


@with_options(EncoderConfig)
def train_encoder(config: EncoderConfig) -> None:
    """Teach a bi-encoder which passages hold an answer; run it again after a kill and it goes on.

    orienteer train encoder --base MINILM --rows taught.jsonl.zst --minutes 60 --out DIR
    """
    _need_torch()
    from orienteer.dense.train import train
    from orienteer.reader.mining import read_rows

    _need_end(config.minutes, config.steps)
    train([row for path in config.rows for row in read_rows(path)], config, _show)
    out.print(f"{config.out}: index with it by --dense {config.out}", markup=False)


def _of_sources(questions: list[Question], sources: str, seed: int) -> list[Question]:
    if not sources:
        return questions
    chosen: list[Question] = []
    generator = random.Random(seed)
    for each in sources.split(","):
        source, _, count = each.partition("=")
        having = [question for question in questions if question.source == source]
        if not having or not count.isdigit():
            known = ", ".join(sorted({question.source for question in questions}))
            raise OrienteerError(f"--sources {each!r}: expected SOURCE=COUNT with a source among {known}")
        chosen += generator.sample(having, min(int(count), len(having)))
    generator.shuffle(chosen)
    return chosen


def _teachers(options: RowOptions, work: Path) -> Iterator[Teacher]:
    from orienteer.data import Passage
    from orienteer.dense import open_encoder
    from orienteer.dense.encoder import Encoder
    from orienteer.reader.runtime import TrainedReader

    for number, folder in enumerate(options.readers):
        folder = _as_reader(folder, work / f"reader-{number}")
        reader = TrainedReader.from_pretrained(folder, threads=options.threads)

        def read(question: str, passages: Sequence[Evidence], reader: TrainedReader = reader) -> list[float]:
            return [each.logit for each in reader.read(question, [Passage("", e.title, e.text) for e in passages])]

        yield read
    for folder in options.encoders:
        encoder = open_encoder(str(folder), options.threads)

        def cosine(question: str, passages: Sequence[Evidence], encoder: Encoder = encoder) -> list[float]:
            vectors = encoder.encode([Passage("", each.title, each.text).contents for each in passages])
            likeness: list[float] = (vectors @ encoder.encode_questions([question])[0]).tolist()
            return likeness

        yield cosine


def _as_reader(name: Path, converted: Path) -> Path:
    """A reader's own folder, or that of the reader which a BERT is before any training."""
    _need_torch()
    from orienteer.reader.model import ReaderModel, load_tokenizer, reader_folder

    if folder := reader_folder(name):
        return folder
    ReaderModel.from_pretrained(name).save_pretrained(converted, load_tokenizer(name), base=name.name)
    return converted


@with_options(SessionFiles, PointerConfig)
def train_pointer(files: SessionFiles, config: PointerConfig) -> None:
    """Train a pointer; run it again after a kill and it goes on from its last checkpoint.

    orienteer train pointer --sessions sessions.jsonl --questions train.jsonl --index my-index --minutes 90 --out DIR
    """
    _need_torch()
    from orienteer.agents.action_space import Decoding
    from orienteer.agents.imitation import by_id, grammars_of
    from orienteer.agents.judging import Judge
    from orienteer.agents.pointer.agent import PointerAgent
    from orienteer.agents.pointer.dagger import LABELLERS, Round, Visits, visited_examples
    from orienteer.agents.pointer.dataset import gather
    from orienteer.agents.pointer.train import to_int8, train
    from orienteer.reader.model import load_tokenizer
    from orienteer.rocchio.sessions import read_sessions
    from orienteer.session import Environment, Settings

    _need_end(config.minutes, config.steps)
    if config.dagger_labels not in LABELLERS:
        raise OrienteerError(f"--dagger-labels {config.dagger_labels!r}: expected {' or '.join(LABELLERS)}")
    [played] = grammars_of(config.plays)
    folder, config = config.out, replace(config, plays=played.name)
    world = World(files.index, files.reader, files.cache, config.threads)
    examples = gather(
        folder / "examples", files.sessions, lambda: questions_of(files.questions), grammars_of(config.grammar),
        load_tokenizer(config.base), config.layout, world.open, config.promise, sessions_encoded,
    )  # fmt: skip
    out.print(f"{len(examples):,} examples, {sum(not e.only_stops for e in examples):,} of them with a refinement")
    judge: Any = None
    if config.dev is not None:
        environment = Environment(*world.open(), Settings(snippet=config.snippet))
        make = partial(PointerAgent, engine=environment.engine, grammar=played, threads=config.threads)
        judge = Judge(environment, questions_of([config.dev])[: config.dev_limit], make)
    config = replace(config, out=folder / "round-0")
    train(examples, config, judge, _show)
    known = by_id(questions_of(files.questions))
    ids = dict.fromkeys(session.id for file in files.sessions for session in read_sessions(file)[1])
    played_questions = [known[id] for id in ids if id in known]  # the cache has many of their readings
    visits = Round(
        config.dagger_questions, Visits(config.dagger_states, seed=config.seed), config.dagger_labels, config.threads
    )
    rate = config.learning_rate / 2
    for number in range(1, config.dagger + 1):
        shown = partial(encoded, f"round {number}", unit=f"of {config.dagger_questions} questions")
        examples += visited_examples(
            folder / "examples", number, config.out, world.open, played_questions, visits, shown
        )
        out.print(f"round {number}: {len(examples):,} examples")
        config = replace(
            config, base=str(config.out), out=folder / f"round-{number}", steps=0, minutes=config.dagger_minutes,
            learning_rate=rate, layers=(),
        )  # fmt: skip
        train(examples, config, judge, _show)
    to_int8(config.out, folder / "int8", Decoding(stop=config.stop))
    out.print(f"{folder / 'int8'}: play it as pointer={folder / 'int8'}", markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookaheadOptions:
    pointer: Path = option("folder of the pointer that learns to look ahead")
    questions: tuple[Path, ...] = option("questions with answers; may be repeated")
    index: Path = option("the index to search")
    out: Path = option("folder of rollouts and of the pointer that looks ahead")
    sessions: tuple[Path, ...] = option("what the pointer was trained on: questions to leave out", ())
    source: str = option("only questions whose source begins with this, such as nq", "")
    count: int = option("questions to learn from", 800, min=100)
    reader: Path | None = option("folder of a reader; none: the shipped one", None)
    cache: Path | None = option("file of readings, so that a passage is read once", None)
    success_weight: float = option(
        "what a passage with the answer among five is worth, where NDCG@5 of 1 is worth 1", 6.0, former=("--success",)
    )
    read_cost: float = option("what a passage must bring to be worth reading", 0.003, former=("--price",))
    undo_threshold: float = option(
        "what a refinement of a refined query must bring, or the last one is undone", 0.2, former=("--back",)
    )
    seed: int = option("decides every draw", 0)
    threads: int = option("threads to use", 2, min=1)


@with_options(LookaheadOptions)
def train_lookahead(options: LookaheadOptions) -> None:
    """Teach a pointer to look ahead; run it again after a kill and it goes on after its last rollouts.

    It learns from sessions of its own, the first quarter of them without lookahead, on questions that it was not
    trained on.

    orienteer train lookahead --pointer DIR/int8 --questions train.jsonl --sessions sessions.jsonl --index INDEX --out D
    """
    _need_torch()
    from orienteer.agents.action_space import Decoding
    from orienteer.agents.lookahead.rollouts import answerable
    from orienteer.agents.lookahead.train import ValueModelConfig, train_lookahead
    from orienteer.agents.pointer.model_files import load_folder, save_folder
    from orienteer.rocchio.sessions import read_sessions
    from orienteer.session import Environment, Settings

    files, world = load_folder(options.pointer), World(options.index, options.reader, options.cache, options.threads)
    known = {session.id for file in options.sessions for session in read_sessions(file)[1]}
    questions = questions_of(options.questions)
    fresh = [each for each in questions if each.source.startswith(options.source) and each.id not in known]
    random.Random(options.seed).shuffle(fresh)
    near = islice(answerable(world.open()[0], fresh), options.count)
    chosen = list(track(near, "questions within reach", options.count, console=err, disable=not err.is_terminal))
    if not chosen:
        raise OrienteerError("no question is left whose answer is found among its first hundred passages")
    out.print(f"{len(chosen)} questions whose answers are within reach")
    environment = Environment(*world.open(), Settings(snippet=files.layout.snippet))
    config = ValueModelConfig(seed=options.seed)
    files, measures = train_lookahead(files, environment, chosen, options.out, config, options.threads, out.print)
    decoding = Decoding(
        stop=files.decoding.stop, success_weight=options.success_weight, read_cost=options.read_cost,
        undo_threshold=options.undo_threshold,
    )  # fmt: skip
    notes = {**files.notes, "look": {"questions": len(chosen), **measures}}
    int8 = options.out / "int8"
    save_folder(int8, files.config, files.tensors, files.tokenizer, files.layout, decoding, **notes)
    out.print(f"{int8}: play it as pointer={int8}", markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    grammar: str = option("G0 to G4, several with commas, or all: whose sessions it learns", "all")
    plays: str | None = option("the grammar that the bare name plays; G1 or the only", None)
    dev_limit: int = option("how many questions of --dev", 50, min=1)
    snippet: int | None = option("words of a passage that the agent sees; none: 30", None, min=1)
    temperature: float | None = option(
        "of soft targets among the improving ones, by gain; 0: only the best, as the paper's; none: the preset's",
        None, min=0.0,
    )  # fmt: skip
    stops: float = option("how much of the epochs see a Stop", 0.3, min=0.0, max=1.0)


@with_options(SessionFiles, WriterOptions, Seq2SeqOptions)
def train_copynet(files: SessionFiles, options: WriterOptions, config: Seq2SeqOptions) -> None:
    """Train a copynet: a decoder that copies, upon the pointer's encoder; a killed run goes on.

    orienteer train copynet --sessions sessions.jsonl --questions train.jsonl --index my-index --out DIR
    """
    _train_writer("copynet", files, options, config)


@with_options(SessionFiles, WriterOptions, Seq2SeqOptions)
def train_t5(files: SessionFiles, options: WriterOptions, config: Seq2SeqOptions) -> None:
    """Train a T5 agent from a pretrained T5; run it again after a kill and it goes on from its last checkpoint.

    orienteer train t5 --base T5 --sessions sessions.jsonl --questions train.jsonl --index my-index --minutes 60 --out A
    """
    _train_writer("t5", files, options, replace(config, preset=config.preset or "fine-tuned"))


def _train_writer(kind: str, files: SessionFiles, options: WriterOptions, config: Seq2SeqOptions) -> None:
    """An agent that writes: `copynet` on a BERT's encoder, or `t5`."""
    _need_torch()
    from orienteer.agents.imitation import grammars_of
    from orienteer.agents.judging import Judge
    from orienteer.agents.t5.agent import T5Agent
    from orienteer.agents.t5.dataset import agent_examples
    from orienteer.agents.t5.rendering import phrases
    from orienteer.session import Environment, Settings

    preset = _preset(config)
    grammars = grammars_of(options.grammar)
    [played] = grammars_of(options.plays or (grammars[0].name if len(grammars) == 1 else preset.layout.grammar))
    layout = replace(preset.layout, grammar=played.name, snippet=options.snippet or preset.layout.snippet)
    if options.temperature is not None:
        preset = replace(preset, temperature=options.temperature)
    world = World(files.index, files.reader, files.cache, config.threads)
    examples = agent_examples(
        config.out / "examples", files.sessions, lambda: questions_of(files.questions), grammars, layout, world.open,
        options.stops, sessions_encoded,
    )  # fmt: skip
    refine = sum(example.targets[0][1] > 0 for example in examples)
    out.print(f"{len(examples):,} examples, {refine:,} of them with a refinement")
    judge: Any = None
    if config.dev is not None:
        environment = Environment(*world.open(), Settings(snippet=layout.snippet))
        make = partial(T5Agent, engine=environment.engine, grammar=played, threads=config.threads)
        judge = Judge(environment, questions_of([config.dev])[: options.dev_limit], make)
    _train_seq2seq("t5", preset, layout, config, examples, phrases(), judge, kind)
    out.print(f"{config.out / 'int8'}: play it as {kind}={config.out / 'int8'}", markup=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswererOptions:
    grammar: str = option("whose sessions it learns from", "G4")
    dev_limit: int = option("how many questions of --dev", 200, min=1)
    dev_agent: str = option("whose sessions on --dev it is judged on", "bm25+ps")
    snippet: int | None = option("words of a passage that it sees; none: 70", None, min=1)
    earlier: float = option("how much of the epochs see a state before a session's last; 0: as the paper", 0.3, max=1.0)


@with_options(SessionFiles, AnswererOptions, Seq2SeqOptions)
def train_answerer(files: SessionFiles, options: AnswererOptions, config: Seq2SeqOptions) -> None:
    """Train an answer generator on the passages that Rocchio found; a killed run goes on.

    orienteer train answerer --sessions sessions.jsonl --questions train.jsonl --index my-index --minutes 60 --out DIR
    """
    _need_torch()
    from orienteer.agents.imitation import grammars_of
    from orienteer.agents.t5.answerer import ANSWERER_LAYOUT, ExactMatch, play_sessions
    from orienteer.agents.t5.dataset import answerer_examples

    if config.base is None and config.preset in (None, "copying"):
        config = replace(config, base="shipped")  # the reader's encoder knows where answers stand
    preset = replace(_preset(config), temperature=0.0)
    [taught] = grammars_of(options.grammar)
    layout = ANSWERER_LAYOUT if options.snippet is None else replace(ANSWERER_LAYOUT, snippet=options.snippet)
    world = World(files.index, files.reader, files.cache, config.threads)
    questions = questions_of(files.questions)
    examples = answerer_examples(
        config.out / "examples", files.sessions, lambda: questions, taught, layout, world.open, options.earlier,
        sessions_encoded,
    )  # fmt: skip
    out.print(f"{len(examples):,} examples")
    judge: Any = None
    if config.dev is not None:
        dev = questions_of([config.dev])[: options.dev_limit]
        judge = ExactMatch(play_sessions(*world.open(), options.dev_agent, dev), config.threads)
    _train_seq2seq("answerer", preset, layout, config, examples, [], judge)
    out.print(f"{config.out / 'int8'}: evaluate with --answerer {config.out / 'int8'}", markup=False)


def _preset(options: Seq2SeqOptions) -> Preset:
    """The preset that was named, with the options that were given."""
    name = options.preset or "copying"
    if name not in PRESETS:
        raise OrienteerError(f"no preset is called {name!r}; expected one of {', '.join(PRESETS)}")
    preset = options.applied_to(PRESETS[name])
    if not preset.base:
        raise OrienteerError(
            f"the preset {name!r} fine-tunes a pretrained T5; name one: --base FOLDER or a hub name. "
            "Without one, `orienteer train copynet` starts from what ships"
        )
    _need_end(options.minutes, options.steps or preset.steps)
    return preset


def _train_seq2seq(
    purpose: Any, preset: Preset, layout: Any, options: Seq2SeqOptions, examples: list[TextExample],
    phrases: list[str], judge: Judge | None, kind: str = "",
) -> None:  # fmt: skip
    """`phrases`: what a new decoder may write beside words of its source; `kind`: of agent that the base must make."""
    from orienteer.agents.t5.dataset import StreamConfig, batches, hold_out, tokenize
    from orienteer.agents.t5.model import load
    from orienteer.agents.t5.model_files import Codec, kind_of_writer, to_int8
    from orienteer.agents.t5.train import TrainConfig, train

    config = TrainConfig(
        out=options.out / "trained", purpose=purpose, layout=layout.as_dict(), minutes=options.minutes,
        steps=options.steps or (0 if options.minutes else preset.steps), seed=options.seed, threads=options.threads,
        judge_minutes=options.judge_minutes, patience=options.patience, learning_rate=preset.learning_rate,
        decay=preset.decay, dropout=preset.dropout, freeze_words=preset.freeze_words,
        freeze_encoder=preset.freeze_encoder,
        notes={"base": Path(preset.base).name, "tokens": preset.tokens, "temperature": preset.temperature},
    )  # fmt: skip
    how = StreamConfig(
        layout.max_source, layout.max_target, preset.tokens, temperature=preset.temperature, seed=options.seed
    )
    model, tokenizer = load(
        preset.base, preset.dropout, decoder_layers=options.decoder_layers, phrases=phrases, seed=options.seed
    )
    if kind and kind != (made := kind_of_writer(model.config)):
        raise TrainingError(f"the base {preset.base} makes a {made}; train it by `orienteer train {made}`")
    codec = Codec(tokenizer, model.config)
    learned, held = hold_out(examples)
    held_out = tokenize(held[:500], codec, how)
    train(model, tokenizer, lambda place: batches(learned, codec, how, place), held_out, config, judge, _show)
    to_int8(config.out, options.out / "int8")


def _need_torch() -> None:
    try:
        import torch  # noqa: F401
        import transformers  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(error.name or "torch", "train") from None


def _need_end(minutes: float, steps: int) -> None:
    if not minutes and not steps:
        raise OrienteerError("nothing says when to stop; give --minutes or --steps")


def _show(progress: Progress) -> None:
    out.print(str(progress), markup=False)


app = typer.Typer(help="Train Orienteer's models (extra: train).", no_args_is_help=True)
for command in (
    train_reader, train_reader_rows, train_encoder, train_likeness, train_agreement, train_confidence, train_pointer,
    train_lookahead, train_copynet, train_t5, train_answerer, train_muzero,
):  # fmt: skip
    app.command(command.__name__.removeprefix("train_").replace("_", "-"))(command)
