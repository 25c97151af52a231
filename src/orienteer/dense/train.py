"""A small bi-encoder taught by a large one: texts in, the teacher's vectors out (needs `[train]`).

The student learns, text by text, the teacher's vectors; no label is needed. Vectors matter by their cosines alone,
which a rotation leaves as they are: so the teacher's are turned, before training, to where they are nearest to what the
student gives already (orthogonal Procrustes). What the teacher writes before a question the student learns to do
without.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import torch
from safetensors.numpy import load as load_safetensors
from safetensors.numpy import save as save_safetensors
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from transformers import BertModel

from orienteer.data.atomic import atomic_write
from orienteer.dense.config import TrainConfig
from orienteer.dense.encoder import TextEncoder
from orienteer.engine.protocol import StoresPassages
from orienteer.errors import TrainingError
from orienteer.models.fake_quantization import rounded
from orienteer.models.model_folder import CONFIG, TOKENIZER, WEIGHTS, quantise
from orienteer.reader.bi_encoder import PIECES
from orienteer.reader.encoding import Marks, pieces
from orienteer.reader.model import keep_layers, load_tokenizer, no_load_report, tensors_of
from orienteer.training import loop
from orienteer.training.loop import Cursor, Progress, State, parameter_groups, warmup_cosine

_HELD_OUT = 200  # passages, and as many questions, to judge on
_ROTATED = 2048  # texts that find the rotation
_ROTATION = "rotation.safetensors"


@dataclass(frozen=True, slots=True)
class Text:
    text: str
    is_question: bool
    ids: list[int]


def train(
    passages: StoresPassages,
    questions: Sequence[str],
    config: TrainConfig,
    show: Callable[[Progress], None] = lambda progress: None,
) -> BertModel:
    """Trains, from the last checkpoint in `config.out` if there is one, and leaves an encoder's folder there."""
    torch.manual_seed(config.seed)
    tokenizer = load_tokenizer(config.base)
    teacher = TextEncoder.from_pretrained(config.teacher, config.threads)
    model = _bert(config.base)
    if config.layers:
        keep_layers(model, config.layers)
    model.embeddings.requires_grad_(False)
    texts = _Texts(passages, questions, tokenizer, config)
    judged = texts.held_out()
    if not (config.out / _ROTATION).exists():
        turned = [text for _, batch in islice(texts.batches({}, 0), _ROTATED // config.batch) for text in batch]
        config.out.mkdir(parents=True, exist_ok=True)
        atomic_write(config.out / _ROTATION, save_safetensors({"rotation": _rotation(model, teacher, turned).numpy()}))
    # A copy lies in memory as torch likes it: the bits of a product may depend on where its factors lie.
    rotation = torch.from_numpy(load_safetensors((config.out / _ROTATION).read_bytes())["rotation"]).clone()
    wanted = _vectors(teacher, judged) @ rotation

    def loss(part: list[Text], batch: list[Text]) -> tuple[Tensor, Mapping[str, Tensor]]:
        away = (1 - (directions(model, part) * (_vectors(teacher, part) @ rotation)).sum(1)).sum() / len(batch)
        return away, {"away": away}

    def evaluate() -> Mapping[str, float]:
        model.eval()
        found: dict[str, float] = _measures(model, judged, wanted)
        return found

    def save(folder: Path, state: State, measures: Mapping[str, float]) -> None:
        save_encoder(folder, model, tokenizer, teacher=config.teacher.name, steps=state.step, **measures)

    groups = parameter_groups(model.parameters(), config.learning_rate, config.weight_decay)
    task = loop.Task(
        model=model,
        optimizer=torch.optim.AdamW(groups, fused=True),
        batches=texts.batches,
        split=lambda batch: [batch[at : at + config.part] for at in range(0, len(batch), config.part)],
        loss=loss,
        schedule=lambda done: warmup_cosine(done, config.warmup),
        save=save,
        evaluate=evaluate,
        around=lambda done: rounded(model) if done >= 1 - config.rounded_part else nullcontext(),
        unit="texts",
    )
    loop.run(task, config, show)
    return model


@torch.no_grad()
def _rotation(model: BertModel, teacher: TextEncoder, texts: Sequence[Text]) -> Tensor:
    """The rotation [width, width] after which the teacher's vectors are nearest to the student's."""
    ours = torch.cat([directions(model, texts[at : at + 16]) for at in range(0, len(texts), 16)])
    left, _, right = torch.linalg.svd(_vectors(teacher, texts).T @ ours)
    return left @ right


def _bert(folder: str) -> BertModel:
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    with no_load_report():
        return BertModel.from_pretrained(folder, add_pooling_layer=False, **quiet)


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


class _Texts:
    """An endless stream of batches, the same for a seed: two passages for every question."""

    def __init__(
        self, passages: StoresPassages, questions: Sequence[str], tokenizer: Tokenizer, config: TrainConfig
    ) -> None:
        if min(len(passages), len(questions)) <= _HELD_OUT:
            raise TrainingError(f"an encoder learns from more than {_HELD_OUT} passages and as many questions")
        self._passages, self._tokenizer = passages, tokenizer
        self._seed, self._batch = config.seed, config.batch
        shuffled = random.Random(config.seed)
        self._questions = shuffled.sample(questions, len(questions))
        self._numbers = shuffled.sample(range(len(passages)), len(passages))

    def held_out(self) -> list[Text]:
        """Texts that batches never have."""
        return self._encoded(range(_HELD_OUT), range(_HELD_OUT))

    def batches(self, _: Cursor, step: int) -> Iterator[tuple[Cursor, list[Text]]]:
        return (({}, batch) for batch in islice(self._endless(), step, None))

    def _endless(self) -> Iterator[list[Text]]:
        generator = random.Random(self._seed)
        count = self._batch // 3
        while True:
            passages = generator.choices(range(_HELD_OUT, len(self._numbers)), k=self._batch - count)
            questions = generator.choices(range(_HELD_OUT, len(self._questions)), k=count)
            yield sorted(self._encoded(passages, questions), key=lambda text: len(text.ids))  # for parts of like length

    def _encoded(self, passages: Sequence[int], questions: Sequence[int]) -> list[Text]:
        texts = [self._passages.passage_at(self._numbers[place]).contents for place in passages]
        texts += [self._questions[place] for place in questions]
        cls, sep = Marks.of(self._tokenizer)
        ids = ([cls, *each.ids[: PIECES - 2], sep] for each in pieces(self._tokenizer, texts))
        return [
            Text(text, place >= len(passages), row) for place, (text, row) in enumerate(zip(texts, ids, strict=True))
        ]


def directions(model: BertModel, texts: Sequence[Text]) -> Tensor:
    """Unit vectors of the mean state, [texts, width]."""
    rows = [text.ids for text in texts]
    ids, types, mask = tensors_of(rows, [len(row) for row in rows])
    states = model(input_ids=ids, token_type_ids=types, attention_mask=mask).last_hidden_state
    return normalize((states * mask.unsqueeze(-1)).sum(1), dim=1)


def _vectors(teacher: TextEncoder, texts: Sequence[Text]) -> Tensor:
    """The teacher's unit vectors, [texts, width]."""
    rows = torch.empty(len(texts), teacher.width)
    for kind, encode in ((False, teacher.encode), (True, teacher.encode_questions)):
        places = [place for place, text in enumerate(texts) if text.is_question is kind]
        if places:
            rows[places] = torch.from_numpy(encode([texts[place].text for place in places]))
    return rows


@torch.no_grad()
def _measures(model: BertModel, texts: Sequence[Text], wanted: Tensor) -> dict[str, float]:
    """The mean cosine with the teacher's vectors, and how well cosines of questions with passages agree."""
    ours = torch.cat([directions(model, texts[at : at + 16]) for at in range(0, len(texts), 16)])
    kinds = torch.tensor([text.is_question for text in texts])
    likeness = [rows[kinds] @ rows[~kinds].T for rows in (ours, wanted)]
    agreement = torch.corrcoef(torch.stack([each.flatten() for each in likeness]))[0, 1]
    return {"cosine": (ours * wanted).sum(1).mean().item(), "correlation": agreement.item()}
