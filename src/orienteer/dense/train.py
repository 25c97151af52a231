"""A bi-encoder learns which passages hold an answer: mined rows in, an encoder's folder out (needs `[train]`).

Of each question's passages, one that holds the answer is to be nearest, before those that do not and before the
passages of the other questions of a step (InfoNCE); and the cosines of a question's own passages follow the order that
teachers gave them (cross-entropy of the softmaxes). A student of fewer layers also copies the vectors of the encoder
that it is cut from.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save as save_safetensors
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from transformers import BertModel

from orienteer.data import Passage
from orienteer.data.atomic import atomic_write
from orienteer.dense.config import TrainConfig
from orienteer.errors import TrainingError
from orienteer.models.bfloat16 import compute_in_bfloat16
from orienteer.models.fake_quantization import rounded
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS, quantise
from orienteer.reader.bi_encoder import PIECES
from orienteer.reader.encoding import Marks, pieces
from orienteer.reader.evaluate import auc
from orienteer.reader.mining import Evidence, TrainingRow
from orienteer.reader.model import keep_layers, load_tokenizer, no_load_report, tensors_of
from orienteer.training import loop
from orienteer.training.loop import Cursor, Progress, State, parameter_groups, warmup_cosine


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and some of its passages, as wordpieces; the first one holds the answer.

    `teacher`: the logits of the passages, None where no teacher scored them.
    """

    question: list[int]
    passages: list[list[int]]
    holds: tuple[bool, ...]
    teacher: tuple[float, ...] | None


def train(
    rows: Sequence[TrainingRow],
    config: TrainConfig,
    show: Callable[[Progress], None] = lambda progress: None,
) -> BertModel:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves an encoder's folder there."""
    torch.manual_seed(config.seed)
    tokenizer = load_tokenizer(config.base)
    model = _bert(config.base)
    if config.layers:
        keep_layers(model, config.layers)
    teacher = _bert(config.teacher).eval() if config.teacher else None
    model.embeddings.requires_grad_(False)
    if config.bfloat16:
        for each in (model, teacher):
            if each is not None:
                compute_in_bfloat16(each)
    shuffled = random.Random(config.seed)
    useful = [row for row in rows if row.negatives and (row.gold or row.retrieved)]
    useful = shuffled.sample(useful, len(useful))
    judged, learned = useful[: config.held_out], useful[config.held_out :]
    if len(learned) < config.batch:
        raise TrainingError(
            f"{len(useful)} questions with a passage that holds the answer and one that does not; an encoder learns "
            f"from {config.held_out + config.batch} or more"
        )

    def stream(_: Cursor, step: int) -> Iterator[tuple[Cursor, list[Asked]]]:
        return (({}, batch) for batch in islice(_batches(learned, tokenizer, config), step, None))

    def loss(part: list[Asked], batch: list[Asked]) -> tuple[Tensor, Mapping[str, Tensor]]:
        texts = [*(e.question for e in part), *_passages(part)]
        vectors = directions(model, texts)
        nearest, taught = losses(config.scale * vectors[: len(part)] @ vectors[len(part) :].T, part)
        loss = nearest + config.teacher_weight * taught
        if teacher is None:
            return loss, {"nearest": nearest, "teacher": taught}
        with torch.no_grad():
            wanted = directions(teacher, texts)
        apart = 1 - (vectors * wanted).sum(1).mean()
        return loss + config.scale * apart, {"nearest": nearest, "teacher": taught, "1 - cosine": apart}

    def save(folder: Path, state: State, measures: Mapping[str, float]) -> None:
        save_encoder(folder, model, tokenizer, base=Path(config.base).name, steps=state.step, **measures)

    groups = parameter_groups(model.parameters(), config.learning_rate, config.weight_decay)
    task = loop.Task(
        model=model,
        optimizer=torch.optim.AdamW(groups, fused=True),
        batches=stream,
        split=lambda batch: [batch],  # every question is compared with the passages of all
        loss=loss,
        schedule=lambda done: warmup_cosine(done, config.warmup),
        save=save,
        evaluate=lambda: _measures(model, tokenizer, judged),
        around=lambda done: rounded(model) if done >= 1 - config.rounded_part else nullcontext(),
        unit="questions",
    )
    loop.run(task, config, show)
    return model


def losses(logits: Tensor, asked: Sequence[Asked]) -> tuple[Tensor, Tensor]:
    """Of logits [questions, passages of all]: InfoNCE, and the cross-entropy with the teachers; means over questions.

    Another passage that holds a question's answer is neither right nor wrong: InfoNCE leaves it out.
    """
    nearest = taught = logits.sum() * 0.0
    at = 0
    for row, each in zip(logits, asked, strict=True):
        own = row[at : at + len(each.holds)]
        others = torch.cat([row[:at], row[at + len(each.holds) :]])
        wrong = own[~torch.tensor(each.holds)]
        nearest = nearest + torch.logsumexp(torch.cat([own[:1], wrong, others]), 0) - own[0]
        if each.teacher is not None:
            wanted = torch.softmax(torch.tensor(each.teacher), 0)
            taught = taught - (wanted * torch.log_softmax(own, 0)).sum()
        at += len(each.holds)
    return nearest / len(asked), taught / len(asked)


def directions(model: BertModel, rows: Sequence[list[int]]) -> Tensor:
    """Unit vectors of the mean state, [rows, width]; rows of like length go through the encoder together."""
    order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
    found = []
    for at in range(0, len(order), 16):
        chosen = [rows[i] for i in order[at : at + 16]]
        ids, types, mask = tensors_of(chosen, [len(row) for row in chosen])
        states = model(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
        found.append(normalize((states * mask.unsqueeze(-1)).sum(1), dim=1))
    places = torch.empty(len(order), dtype=torch.int64)
    places[torch.tensor(order)] = torch.arange(len(order))
    return torch.cat(found)[places]


def save_encoder(folder: Path, model: BertModel, tokenizer: Tokenizer, **notes: object) -> None:
    """The folder of an encoder that takes the mean of its states, as `TextEncoder` reads it: int8 by rows."""
    config = {name: value for name, value in model.config.to_dict().items() if name != "_name_or_path"}
    tensors = {f"encoder.{name}": tensor.numpy(force=True) for name, tensor in model.state_dict().items()}
    files = {
        CONFIG: json.dumps({**config, "model_type": "bert", "encoder": notes}, indent=2),
        TOKENIZER: tokenizer.to_str(),
        f"1_Pooling/{CONFIG}": json.dumps({"pooling_mode_mean_tokens": True}),
        WEIGHTS: save_safetensors({n.removeprefix("encoder."): t for n, t in quantise(tensors).items()}),
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        atomic_write(folder / name, content)


def _bert(folder: str) -> BertModel:
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    with no_load_report():
        return BertModel.from_pretrained(folder, add_pooling_layer=False, **quiet)


def _batches(rows: Sequence[TrainingRow], tokenizer: Tokenizer, config: TrainConfig) -> Iterator[list[Asked]]:
    """An endless stream of batches, the same for a seed."""
    generator = random.Random(config.seed)
    while True:
        order = generator.sample(rows, len(rows))
        for at in range(0, len(order) - config.batch + 1, config.batch):
            yield [_drawn(row, tokenizer, config.passages, generator) for row in order[at : at + config.batch]]


def _drawn(row: TrainingRow, tokenizer: Tokenizer, count: int, generator: random.Random) -> Asked:
    """One passage that holds the answer, then others; the annotated one half of the time, where there is one."""
    right = row.gold if row.gold and (not row.retrieved or generator.random() < 0.5) else None
    right = right or generator.choice(row.retrieved)
    others = [each for each in row.passages if each is not right]
    return _asked(row, [right, *generator.sample(others, min(count - 1, len(others)))], tokenizer)


def _asked(row: TrainingRow, passages: Sequence[Evidence], tokenizer: Tokenizer) -> Asked:
    cls, sep = Marks.of(tokenizer)
    texts = [row.question, *(Passage("", each.title, each.text).contents for each in passages)]
    question, *others = ([cls, *each.ids[: PIECES - 2], sep] for each in pieces(tokenizer, texts))
    scores = [each.teacher for each in passages]
    teacher = tuple(score for score in scores if score is not None)
    holds = tuple(bool(each.spans) for each in passages)
    return Asked(question, others, holds, teacher if len(teacher) == len(scores) else None)


def _passages(asked: Sequence[Asked]) -> list[list[int]]:
    return [ids for each in asked for ids in each.passages]


@torch.no_grad()
def _measures(model: BertModel, tokenizer: Tokenizer, rows: Sequence[TrainingRow]) -> dict[str, float]:
    """Of questions that were not trained on: how often the nearest passage holds the answer, and the AUC of cosines."""
    model.eval()
    asked = [_asked(row, row.passages, tokenizer) for row in rows]
    questions = directions(model, [each.question for each in asked])
    passages = directions(model, _passages(asked)).split([len(each.passages) for each in asked])
    cosines = [(found @ question).numpy() for found, question in zip(passages, questions, strict=True)]
    first = [each.holds[int(np.argmax(found))] for each, found in zip(asked, cosines, strict=True)]
    truths = [holds for each in asked for holds in each.holds]
    return {"Top-1": 100 * float(np.mean(first)), "AUC": auc(np.concatenate(cosines).tolist(), truths)}
