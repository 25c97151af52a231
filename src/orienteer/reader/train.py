"""Training the reader, one file from top to bottom: rows in, a folder with weights out (needs `[train]`).

Each step cuts its batch into small parts of like length and hands them to threads, one core each, whose gradients
are added in the parts' order: the result does not depend on who was faster, and a core taken away by another
program slows a step without stopping it.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from orienteer.errors import TrainingError
from orienteer.models.fake_quantization import rounded
from orienteer.reader.answer_matching import exact_match, f1
from orienteer.reader.batches import Example, Share, StreamConfig, batches, cut_whole, groups_of
from orienteer.reader.decoding import best_span
from orienteer.reader.encoding import Marks, head_and_room, pieces, window_at
from orienteer.reader.measures import auc
from orienteer.reader.mining import Evidence, TrainingRow
from orienteer.reader.model import ReaderModel, load_tokenizer, tensors_of
from orienteer.training.log import Board

# SQuAD-like questions teach spans, and only their own passages do: another passage that holds the same number or name
# seldom answers. Natural Questions teach selection. Gold passages of `nq_restored` are special (see the data's
# README), so retrieved ones stand beside them.
SHARES: Mapping[str, Share] = {
    "squad_train_part": Share(0.26, 0.25, 0.0),
    "squad_train_part2": Share(0.15, 0.25, 0.0),
    "squadshifts_new_wiki": Share(0.15, 0.25, 0.0),
    "reading": Share(0.22, 0.0),
    "nq_restored": Share(0.09, 3.0),
    "nq_dpr_dev": Share(0.08, 3.0),
    "triviaqa_dev": Share(0.04, 2.0),
    "webquestions": Share(0.01, 2.0),
    # Questions of two steps: no passage that search finds answers them alone.
    **dict.fromkeys(("hotpotqa_dev", "hybridqa_dev", "ottqa_dev"), Share(0.0, 0.0)),
}


Outputs = tuple[Tensor, Tensor, Tensor]  # select [B], start [B, L], end [B, L]


@dataclass(frozen=True, slots=True)
class TrainConfig:
    base: str  # a BERT or a reader: folder or hub name
    out: Path
    steps: int = 0  # a schedule by steps resumes to the same weights; 0: by `minutes`
    minutes: float = 0.0  # of training in all, kills included
    learning_rate: float = 2e-4
    warmup: float = 0.04  # of the schedule
    weight_decay: float = 0.01
    clip: float = 1.0
    select_weight: float = 1.5
    rank_weight: float = 1.0
    layers: tuple[int, ...] = ()  # of the base that are kept, counted from 0; none named: all
    teacher: str = ""  # a reader's folder, whose outputs the student also learns
    teacher_weight: float = 1.0
    part: int = 4  # sequences a thread takes at once
    threads: int = 2
    freeze_embeddings: bool = True
    freeze_layers: int = 1  # from below: each saves a ninth of a step of a six-layer encoder
    rounded_part: float = 0.25  # of the schedule, its end, computes as int8 will
    checkpoint_minutes: float = 3.0
    dev_minutes: float = 12.0
    show_seconds: float = 30.0
    stream: StreamConfig = field(default_factory=lambda: StreamConfig(shares=SHARES))
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Progress:
    """What a caller may show: one line a while."""

    step: int
    part_done: float  # of the schedule, 0 to 1
    losses: Mapping[str, float]
    examples_per_second: float
    dev: Mapping[str, float]

    @property
    def scalars(self) -> Mapping[str, float]:
        """As a board shows it."""
        losses = {f"loss/{name}": value for name, value in self.losses.items()}
        dev = {f"dev/{name}": value for name, value in self.dev.items()}
        return {**losses, **dev, "examples_per_second": self.examples_per_second}


def train(
    rows: Sequence[TrainingRow],
    config: TrainConfig,
    dev_rows: Sequence[TrainingRow] = (),
    show: Callable[[Progress], None] = lambda progress: None,
) -> ReaderModel:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves a reader's folder there."""
    if not config.steps and not config.minutes:
        raise TrainingError("nothing says when to stop; give steps or minutes")
    torch.manual_seed(config.seed)
    torch.set_num_threads(1)  # the threads of a step are ours, see above
    tokenizer = load_tokenizer(config.base)
    model = ReaderModel.from_pretrained(config.base)
    if config.layers:
        model.keep_layers(config.layers)
    teacher = ReaderModel.from_pretrained(config.teacher).eval() if config.teacher else None
    if config.freeze_embeddings:
        model.encoder.embeddings.requires_grad_(False)
    for layer in model.encoder.encoder.layer[: config.freeze_layers]:
        layer.requires_grad_(False)
    optimiser = torch.optim.AdamW(_groups(model, config.weight_decay), lr=config.learning_rate, fused=True)
    step, spent = _resume(config.out, model, optimiser)
    board = Board(config.out)
    stream = batches(rows, tokenizer, replace(config.stream, seed=config.seed))
    parameters = [p for p in model.parameters() if p.requires_grad]
    began = saved = shown = tried = time.monotonic()
    seen, shown_step, sums = 0, step, dict.fromkeys(("span", "select", "rank", "teacher"), 0.0)

    with ThreadPoolExecutor(config.threads, initializer=torch.set_num_threads, initargs=(1,)) as workers:
        model.train()
        for batch in islice(stream, step, None):
            done = step / config.steps if config.steps else (spent + time.monotonic() - began) / (60 * config.minutes)
            if done >= 1:
                break
            for group in optimiser.param_groups:
                group["lr"] = config.learning_rate * schedule(done, config.warmup)

            counts = _Counts.of(batch)
            parts = list(cut_whole(groups_of(batch), config.part))
            with rounded(model.encoder) if done >= 1 - config.rounded_part else nullcontext():
                works = [workers.submit(_gradients, model, teacher, parameters, part, counts, config) for part in parts]
                for number, work in enumerate(works):
                    gradients, losses = work.result()
                    for parameter, gradient in zip(parameters, gradients, strict=True):
                        if number and parameter.grad is not None:
                            parameter.grad.add_(gradient)
                        else:
                            parameter.grad = gradient
                    sums = {name: sums[name] + losses[name] for name in sums}
            torch.nn.utils.clip_grad_norm_(parameters, config.clip, foreach=True)
            optimiser.step()
            step += 1
            seen += len(batch)

            now = time.monotonic()
            last = config.steps and step >= config.steps
            if now - shown > config.show_seconds or last:
                dev: Mapping[str, float] = {}
                if dev_rows and (now - tried > 60 * config.dev_minutes):
                    dev, tried = dev_measures(model, tokenizer, dev_rows, config.stream.max_pieces), now
                means = {name: total / (step - shown_step) for name, total in sums.items()}
                progress = Progress(step, done, means, seen / (now - shown), dev)
                board.show(progress.step, progress.scalars)
                show(progress)
                shown, shown_step, seen, sums = time.monotonic(), step, 0, dict.fromkeys(sums, 0.0)
            if now - saved > 60 * config.checkpoint_minutes:
                _save(config, model, optimiser, step, spent + now - began)
                saved = now

    spent += time.monotonic() - began
    _save(config, model, optimiser, step, spent)
    model.save_pretrained(config.out, tokenizer, base=Path(config.base).name, steps=step, seconds=round(spent))
    model.eval()
    return model


def schedule(done: float, warmup: float) -> float:
    """The learning rate's factor when a part `done` of training is over: up in a line, down in a cosine."""
    if done < warmup:
        return max(done, warmup / 100) / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (done - warmup) / (1 - warmup))))


def _groups(model: ReaderModel, weight_decay: float) -> list[dict[str, object]]:
    trained = [p for p in model.parameters() if p.requires_grad]
    return [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]


class _Counts(NamedTuple):
    """How many examples of a batch each loss counts, so that the parts' losses add up to means."""

    spans: int
    selects: int
    groups: int
    examples: int

    @classmethod
    def of(cls, batch: Sequence[Example]) -> _Counts:
        spans, selects = sum(bool(e.spans) for e in batch), sum(e.selects for e in batch)
        return cls(max(1, spans), max(1, selects), len(groups_of(batch)), len(batch))


def _gradients(
    model: ReaderModel,
    teacher: ReaderModel | None,
    parameters: Sequence[torch.nn.Parameter],
    part: Sequence[Example],
    counts: _Counts,
    config: TrainConfig,
) -> tuple[list[Tensor], dict[str, float]]:
    ids, types, mask = tensors_of([e.window.ids for e in part], [e.window.question_size for e in part])
    select, start, end = model(ids, types, mask)
    span = span_loss(start, end, part) / counts.spans
    chosen = torch.tensor([e.selects for e in part], dtype=torch.float32)
    truth = torch.tensor([bool(e.spans) for e in part], dtype=torch.float32)
    selection = binary_cross_entropy_with_logits(select, truth, chosen, reduction="sum") / counts.selects
    rank = rank_loss(select, part) / counts.groups
    taught = select.sum() * 0.0
    if teacher is not None:
        with torch.no_grad():
            outputs = teacher(ids, types, mask)
        taught = teacher_loss((select, start, end), outputs, part) / counts.examples
    loss = span + config.select_weight * selection + config.rank_weight * rank + config.teacher_weight * taught
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
    return gradients, {"span": span.item(), "select": selection.item(), "rank": rank.item(), "teacher": taught.item()}


def span_loss(start: Tensor, end: Tensor, part: Sequence[Example]) -> Tensor:
    """−log of the probability of all of an answer's occurrences together, summed over examples that have any.

    start, end: [B, L]; places outside the text take no part in the softmax.
    """
    total = start.sum() * 0.0
    for row, example in enumerate(part):
        if example.spans:
            low = example.window.text_from
            high = low + len(example.window.offsets)
            starts = torch.log_softmax(start[row, low:high], 0)
            ends = torch.log_softmax(end[row, low:high], 0)
            first = torch.tensor([s - low for s, _ in example.spans])
            last = torch.tensor([e - low for _, e in example.spans])
            total = total - torch.logsumexp(starts[first] + ends[last], 0)
    return total


def rank_loss(select: Tensor, part: Sequence[Example]) -> Tensor:
    """−log softmax of the positive among its own negatives, summed over the draws that have both."""
    total = select.sum() * 0.0
    for group in groups_of(part):
        places = [i for i, example in enumerate(part) if example.group == group[0].group]
        held = [i for i in places if part[i].spans]
        if held and len(held) < len(places):
            total = total + torch.logsumexp(select[places], 0) - torch.logsumexp(select[held], 0)
    return total


def teacher_loss(outputs: Outputs, teacher: Outputs, part: Sequence[Example]) -> Tensor:
    """Cross-entropy with the teacher's probabilities, of holding the answer and of each place in the text; a sum."""
    select, start, end = outputs
    total = binary_cross_entropy_with_logits(select, teacher[0].sigmoid(), reduction="sum")
    for row, example in enumerate(part):
        low = example.window.text_from
        high = low + len(example.window.offsets)
        if example.spans:
            for ours, theirs in ((start, teacher[1]), (end, teacher[2])):
                wanted = torch.softmax(theirs[row, low:high], 0)
                total = total - (wanted * torch.log_softmax(ours[row, low:high], 0)).sum()
    return total


@torch.no_grad()
def dev_measures(
    model: ReaderModel, tokenizer: Tokenizer, rows: Sequence[TrainingRow], max_pieces: int
) -> dict[str, float]:
    """EM and F1 on gold passages, AUC of the selection logit for holding the answer; titles as they are."""
    model.eval()
    read: list[tuple[TrainingRow, Evidence, bool]] = []
    for row in rows:
        read += [(row, row.gold, True)] if row.gold else []
        read += [(row, evidence, False) for evidence in (*row.retrieved[:1], *row.negatives[:2])]
    questions = pieces(tokenizer, [row.question for row, _, _ in read])
    titles = pieces(tokenizer, [evidence.title for _, evidence, _ in read])
    texts = pieces(tokenizer, [evidence.text for _, evidence, _ in read])
    heads = [head_and_room(q, t, Marks.of(tokenizer), max_pieces) for q, t in zip(questions, titles, strict=True)]
    windows = [window_at(head, text, 0, room) for (head, room), text in zip(heads, texts, strict=True)]
    order = sorted(range(len(read)), key=lambda i: len(windows[i].ids))
    matches: list[float] = []
    overlaps: list[float] = []
    logits: list[float] = []
    truths: list[bool] = []
    for at in range(0, len(order), 16):
        chosen = order[at : at + 16]
        inputs = tensors_of([windows[i].ids for i in chosen], [windows[i].question_size for i in chosen])
        select, start, end = (output.numpy() for output in model(*inputs))
        for place, i in enumerate(chosen):
            row, evidence, gold = read[i]
            logits.append(float(select[place]))
            truths.append(bool(evidence.spans))
            if gold:
                low, size = windows[i].text_from, len(windows[i].offsets)
                span = best_span(start[place, low : low + size], end[place, low : low + size])
                begin, finish = windows[i].offsets[span.first][0], windows[i].offsets[span.last][1]
                answer = evidence.text[begin:finish]
                matches.append(exact_match(answer, row.answers))
                overlaps.append(f1(answer, row.answers))
    model.train()
    count = max(1, len(matches))
    measures = {"EM": 100 * sum(matches) / count, "F1": 100 * sum(overlaps) / count}
    return {**measures, "AUC": auc(logits, truths)} if len(set(truths)) == 2 else measures


# -- checkpoints: weights and the optimiser's memory as safetensors, the place in the stream beside them ----------


def _save(config: TrainConfig, model: ReaderModel, optimiser: torch.optim.Optimizer, step: int, spent: float) -> None:
    """One file appears whole or not at all: a kill at any moment leaves the last one."""
    folder = config.out
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in state.items()}
    place = {"step": str(step), "spent": str(spent), "config": json.dumps(asdict(config), default=str)}
    partial = folder / ".checkpoint.partial"
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial, metadata=place)
    with partial.open("rb+") as file:
        os.fsync(file.fileno())
    partial.replace(folder / "checkpoint.safetensors")


def _resume(folder: Path, model: ReaderModel, optimiser: torch.optim.Optimizer) -> tuple[int, float]:
    """Steps done and seconds spent; model and optimiser as they were then."""
    path = folder / "checkpoint.safetensors"
    if not path.exists():
        return 0, 0.0
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            place = file.metadata()
        tensors = load_file(path)
        model.load_state_dict({n[6:]: t for n, t in tensors.items() if n.startswith("model.")})
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("optimiser."):
                _, number, key = name.split(".", 2)
                state.setdefault(int(number), {})[key] = tensor
        optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
        return int(place["step"]), float(place["spent"])
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise TrainingError(
            f"{path}: not a checkpoint of this model ({error}); delete it to start afresh, or give another folder"
        ) from None
