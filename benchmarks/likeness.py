"""How much of a sentence encoder's idea of likeness survives when it reads question and passage together.

    python benchmarks/likeness.py --base BERT --index INDEX --questions dev.jsonl.xz

For the BM25 top 20 of each question: AUC, for "holds the answer", of the cosine between the mean states of question and
passage, untrained. In the lowest `apart` layers question and passage attend only to themselves; six apart is the
sentence encoder as it was made (with a [CLS] for each part), none apart is the reader's way.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cosine_similarity
from transformers import BertModel

from orienteer.data import read_questions
from orienteer.engine import open_index
from orienteer.reader.encoding import Marks, pieces
from orienteer.reader.evaluate import auc, bm25_passages, holds_answer
from orienteer.reader.model import load_tokenizer

TEXT_PIECES, BATCH = 112, 32


@torch.no_grad()
def likeness(model: BertModel, rows: list[tuple[list[int], list[int]]], apart: int) -> NDArray[np.float64]:
    """The cosine for each (question, passage) of wordpiece ids, marks included."""
    found = np.zeros(len(rows))
    order = sorted(range(len(rows)), key=lambda i: sum(map(len, rows[i])))
    for at in range(0, len(order), BATCH):
        some = order[at : at + BATCH]
        size = max(len(rows[i][0]) + len(rows[i][1]) for i in some)
        ids, places, parts = (torch.zeros(len(some), size, dtype=torch.int64) for _ in range(3))
        for row, i in enumerate(some):
            start = 0
            for part, some_ids in enumerate(rows[i], 1):
                here = slice(start, start + len(some_ids))
                ids[row, here], parts[row, here] = torch.tensor(some_ids), part
                places[row, here] = torch.arange(len(some_ids))
                start += len(some_ids)
        states = model.embeddings(input_ids=ids, position_ids=places)
        whole = (parts > 0)[:, None, None, :].expand(-1, 1, size, -1)
        own = whole & (parts[:, None, :, None] == parts[:, None, None, :])
        for number, layer in enumerate(model.encoder.layer):
            barred = ~(own if number < apart else whole)
            states = layer(states, attention_mask=torch.zeros(barred.shape).masked_fill(barred, -1e9))
            states = states[0] if isinstance(states, tuple) else states
        question, passage = ((states * (parts == part).unsqueeze(-1)).sum(1) for part in (1, 2))
        found[some] = cosine_similarity(question, passage).double().numpy()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="folder or hub name of a BERT")
    parser.add_argument("--index", type=Path, required=True)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--sample", type=int, default=60)
    arguments = parser.parse_args()

    asked = list(read_questions(arguments.questions))[: arguments.sample]
    found = bm25_passages(open_index(arguments.index), asked, 20)
    truths = [holds_answer(p.text, q.answers) for q, (_, passages) in zip(asked, found, strict=True) for p in passages]
    tokenizer = load_tokenizer(arguments.base)
    cls, sep = Marks.of(tokenizer)
    rows = [
        ([cls, *question.ids, sep], [cls, *text.ids[:TEXT_PIECES], sep])
        for asking, passages in found
        for [question] in [pieces(tokenizer, [asking])]
        for text in pieces(tokenizer, [f"{p.title} {p.text}" for p in passages])
    ]
    model = BertModel.from_pretrained(arguments.base, add_pooling_layer=False, attn_implementation="eager").eval()
    for apart in range(model.config.num_hidden_layers, -1, -1):
        print(f"{apart} layers apart: AUC {auc(likeness(model, rows, apart), truths):.3f}", flush=True)


if __name__ == "__main__":
    main()
