"""Training the reader: rows in, a folder with weights out (needs `[train]`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from orienteer.models.bfloat16 import compute_in_bfloat16
from orienteer.models.fake_quantization import rounded
from orienteer.reader.answer_matching import exact_match, f1
from orienteer.reader.batches import Example, batches, cut_whole, groups_of
from orienteer.reader.config import TrainConfig, with_negatives
from orienteer.reader.decoding import best_span
from orienteer.reader.encoding import Marks, head_and_room, pieces, window_at
from orienteer.reader.evaluate import auc
from orienteer.reader.mining import Evidence, TrainingRow
from orienteer.reader.model import ReaderModel, load_tokenizer, tensors_of
from orienteer.training import loop
from orienteer.training.loop import Cursor, Progress, State, parameter_groups, warmup_cosine

Outputs = tuple[Tensor, Tensor, Tensor]  # select [B], start [B, L], end [B, L]


def train(
    rows: Sequence[TrainingRow],
    config: TrainConfig,
    dev_rows: Sequence[TrainingRow] = (),
    show: Callable[[Progress], None] = lambda progress: None,
) -> ReaderModel:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves a reader's folder there."""
    torch.manual_seed(config.seed)
    tokenizer = load_tokenizer(config.base)
    model = ReaderModel.from_pretrained(config.base)
    if config.layers:
        model.keep_layers(config.layers)
    teacher = ReaderModel.from_pretrained(config.teacher).eval() if config.teacher else None
    if config.freeze_embeddings:
        model.encoder.embeddings.requires_grad_(False)
    for layer in model.encoder.encoder.layer[: config.freeze_layers]:
        layer.requires_grad_(False)
    if config.bfloat16:
        for each in (model, teacher):
            if each is not None:
                compute_in_bfloat16(each.encoder)

    shares = with_negatives(config.stream.shares, config.negatives)

    def stream(_: Cursor, step: int) -> Iterator[tuple[Cursor, list[Example]]]:
        endless = batches(rows, tokenizer, replace(config.stream, seed=config.seed, shares=shares))
        return (({}, batch) for batch in islice(endless, step, None))

    def loss(part: list[Example], batch: list[Example]) -> tuple[Tensor, Mapping[str, Tensor]]:
        return _loss(model, teacher, part, batch, config)

    def save(folder: Path, state: State, measures: Mapping[str, float]) -> None:
        seconds = round(state.spent)
        model.save_pretrained(folder, tokenizer, base=Path(config.base).name, steps=state.step, seconds=seconds)

    groups = parameter_groups(model.parameters(), config.learning_rate, config.weight_decay)
    task = loop.Task(
        model=model,
        optimizer=torch.optim.AdamW(groups, fused=True),
        batches=stream,
        split=lambda batch: cut_whole(groups_of(batch), config.part),
        loss=loss,
        schedule=lambda done: warmup_cosine(done, config.warmup),
        save=save,
        evaluate=lambda: dev_measures(model, tokenizer, dev_rows, config.stream.max_pieces) if dev_rows else {},
        around=lambda done: rounded(model.encoder) if done >= 1 - config.rounded_part else nullcontext(),
        unit="passages",
    )
    loop.run(task, config, show)
    return model


def _loss(
    model: ReaderModel, teacher: ReaderModel | None, part: list[Example], batch: list[Example], config: TrainConfig
) -> tuple[Tensor, dict[str, Tensor]]:
    """A part's loss and what it is made of; each counts the examples of the batch that it is defined for."""
    ids, types, mask = tensors_of([e.window.ids for e in part], [e.window.question_size for e in part])
    select, start, end = model(ids, types, mask)
    span = span_loss(start, end, part) / max(1, sum(bool(e.spans) for e in batch))
    chosen = torch.tensor([e.selects for e in part], dtype=torch.float32)
    truth = torch.tensor([bool(e.spans) for e in part], dtype=torch.float32)
    selection = binary_cross_entropy_with_logits(select, truth, chosen, reduction="sum")
    selection = selection / max(1, sum(e.selects for e in batch))
    rank = rank_loss(select, part) / len(groups_of(batch))
    taught = order_loss(select, part) / max(1, sum(e.teacher is not None for e in batch))
    if teacher is not None:
        with torch.no_grad():
            outputs = teacher(ids, types, mask)
        taught = taught + teacher_loss((select, start, end), outputs, part) / len(batch)
    loss = span + config.select_weight * selection + config.rank_weight * rank + config.teacher_weight * taught
    return loss, {"span": span, "select": selection, "rank": rank, "teacher": taught}


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


def order_loss(select: Tensor, part: Sequence[Example]) -> Tensor:
    """Cross-entropy with the cached teacher's softmax over the passages of a draw, a sum over passages with a logit."""
    total = select.sum() * 0.0
    for group in groups_of(part):
        places = [i for i, example in enumerate(part) if example.group == group[0].group]
        if len(places) > 1 and all(part[i].teacher is not None for i in places):
            wanted = torch.softmax(torch.tensor([part[i].teacher for i in places]), 0)
            total = total - len(places) * (wanted * torch.log_softmax(select[places], 0)).sum()
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
    count = max(1, len(matches))
    measures = {"EM": 100 * sum(matches) / count, "F1": 100 * sum(overlaps) / count}
    return {**measures, "AUC": auc(logits, truths)} if len(set(truths)) == 2 else measures
