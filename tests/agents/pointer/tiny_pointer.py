"""A pointer of a few thousand random weights, and observations to show it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "reader"))

import tiny
from small_world import PASSAGES

from orienteer.agents.action_space import OPERATORS, SLOTS, Decoding
from orienteer.agents.encoding import KINDS, MARKS, SOURCES, STATE_FEATURES, TERM_FEATURES
from orienteer.agents.lookahead.passage_features import FEATURES
from orienteer.agents.pointer.model_files import Layout, save_folder
from orienteer.data.passage import Passage
from orienteer.engine import Engine
from orienteer.models.model_folder import Tensors
from orienteer.query import G4, Refinement
from orienteer.session import Lexicon, Observation, ObservedPassage, Term

CONFIG: dict[str, Any] = {**tiny.CONFIG, "max_position_embeddings": 320, "type_vocab_size": KINDS}
HIDDEN = 24


def pointer_tokenizer() -> Tokenizer:
    """The tiny reader's vocabulary with unused tokens and the small world's words."""
    words = {word.lower().strip(".,;") for passage in PASSAGES for word in passage.contents.split()}
    known = tiny.tiny_tokenizer().get_vocab()
    names = [*sorted(known, key=known.__getitem__), *(f"[unused{n}]" for n in range(MARKS))]
    names += sorted(word for word in words if word not in known)
    tokenizer = Tokenizer(WordPiece({name: i for i, name in enumerate(names)}, unk_token="[UNK]"))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


def pointer_tensors(seed: int = 0) -> Tensors:
    generator = np.random.default_rng(seed)
    width = CONFIG["hidden_size"]
    tensors = {name: value for name, value in tiny.tiny_tensors(seed).items() if name.startswith("encoder.")}
    shapes: dict[str, tuple[int, ...]] = {
        "encoder.embeddings.word_embeddings.weight": (pointer_tokenizer().get_vocab_size(), width),
        "encoder.embeddings.position_embeddings.weight": (CONFIG["max_position_embeddings"], width),
        "encoder.embeddings.token_type_embeddings.weight": (KINDS, width),
    }
    around = width + len(STATE_FEATURES)
    for name, rows, columns in (
        ("term", HIDDEN, len(SOURCES) * width + len(TERM_FEATURES)),
        ("moment", HIDDEN, around),
        ("mix", HIDDEN, HIDDEN),
        ("slots", len(SLOTS), HIDDEN),
        ("whole", HIDDEN, around + len(OPERATORS) + HIDDEN),
        ("outcome", 2, HIDDEN),
    ):
        shapes |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    return tensors | {name: generator.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}


def value_model_tensors(seed: int = 0) -> Tensors:
    """A value model of random weights."""
    generator = np.random.default_rng(seed)
    tensors: Tensors = {
        "weigher.centre": np.zeros(len(FEATURES), np.float32), "weigher.width": np.ones(len(FEATURES), np.float32),
        "weigher.spread": np.zeros(2, np.float32),
    }  # fmt: skip
    for name, rows, columns in (("first", 8, len(FEATURES)), ("second", 6, 8), ("told", 3, 6)):
        tensors[f"weigher.{name}.weight"] = generator.normal(0, 0.5, (rows, columns)).astype(np.float32)
        tensors[f"weigher.{name}.bias"] = np.zeros(rows, np.float32)
    return tensors


def save_pointer(
    folder: Path,
    seed: int = 0,
    decoding: Decoding | None = None,
    layout: Layout | None = None,
    more: Tensors | None = None,
) -> Path:
    tokenizer = pointer_tokenizer()
    config = {**CONFIG, "vocab_size": tokenizer.get_vocab_size()}
    tensors = {**pointer_tensors(seed), **(more or {})}
    save_folder(folder, config, tensors, tokenizer.to_str(), layout or Layout(), decoding or Decoding())
    return folder


_WORDS = [
    *dict.fromkeys(word for passage in PASSAGES for word in passage.contents.split()),
    "the", "of", "O'Neil’s", "mid-1871", "İstanbul", "灯塔", "x" * 300, "🙂", "\ud800", "1,000.5", "AT&T", "ß", "_",
]  # fmt: skip
words = st.lists(st.sampled_from(_WORDS), max_size=40).map(" ".join)


@st.composite
def observations(draw: st.DrawFn, engine: Engine) -> Observation:
    """States as sessions make them, and some that no session would."""
    lexicon = Lexicon(engine)
    question = draw(words)
    passages = []
    for number in range(draw(st.integers(0, 5))):
        snippet = draw(words)
        parts = snippet.split()
        start = draw(st.integers(0, max(0, len(parts) - 1)))
        answer = " ".join(parts[start : start + draw(st.integers(0, 4))]) if draw(st.booleans()) else draw(words)
        title = " ".join(draw(words).split()[:6])
        passages.append(ObservedPassage(f"p{number}", title, snippet, answer, draw(st.floats(0, 1))))
    sources: dict[str, set[str]] = {}
    for kind, text in [("question", question), *(
        (kind, getattr(each, kind)) for each in passages for kind in ("title", "answer", "snippet")
    )]:  # fmt: skip
        for term in lexicon.terms(text):
            sources.setdefault(term, set()).add(kind)
    used = frozenset(term for term in sources if draw(st.integers(0, 5)) == 0)
    refinements = []
    for term in sorted(used)[:20]:
        operator = draw(st.sampled_from(G4.operators))
        if len(term) <= 256:
            refinements.append(operator.apply(draw(st.sampled_from(operator.fields)), term))
    if draw(st.booleans()):
        refinements.append(Refinement("^", "title", "by hand", 3.3))
    hits = tuple(draw(st.lists(st.sampled_from(PASSAGES), max_size=5, unique=True)))
    step = draw(st.integers(len(refinements), 40))
    terms = tuple(
        Term(term, lexicon.idf(term), frozenset(kinds)) for term, kinds in sources.items() if term not in used
    )
    return Observation(
        question, tuple(refinements), tuple(passages), hits, terms, {}, used, step, max(0, 20 - step),
        draw(st.booleans()), draw(st.integers(0, 9)),
    )  # fmt: skip


def observation(engine: Engine, question: str, passages: list[ObservedPassage]) -> Observation:
    """A first state with these passages."""
    lexicon = Lexicon(engine)
    sources: dict[str, set[str]] = {}
    for kind, text in [("question", question), *(
        (kind, getattr(each, kind)) for each in passages for kind in ("title", "answer", "snippet")
    )]:  # fmt: skip
        for term in lexicon.terms(text):
            sources.setdefault(term, set()).add(kind)
    terms = tuple(Term(term, lexicon.idf(term), frozenset(kinds)) for term, kinds in sources.items())
    hits: tuple[Passage, ...] = ()
    return Observation(question, (), tuple(passages), hits, terms, {}, frozenset(), 0, 20, False, 0)
