"""What may be written: exactly the legal refinements, spelled as the tokenizer would spell their sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_world import PASSAGES
from tiny_pointer import observations
from tiny_seq2seq import seq2seq_tokenizer, tiny_config
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.decoders import Metaspace as MetaspaceDecoder
from tokenizers.models import BPE, Unigram
from tokenizers.pre_tokenizers import ByteLevel, Metaspace
from tokenizers.trainers import BpeTrainer, UnigramTrainer

from orienteer.agents.action_space import SLOTS, open_slots, usable_terms
from orienteer.agents.t5.agent import fold_term
from orienteer.agents.t5.constraints import LegalActions, SentenceTokenizer, Trie, TrieNode, action_of
from orienteer.agents.t5.model_files import Codec
from orienteer.agents.t5.rendering import parse_output, sentence
from orienteer.engine import ReferenceEngine
from orienteer.query import G1, G2, G4, GRAMMARS, Operator, Refinement
from orienteer.session import STOP, Lexicon, Observation

ENGINE = ReferenceEngine(PASSAGES)
SENTENCES = [sentence(operator.apply(field, p.text.split()[0])) for p in PASSAGES for operator, field in SLOTS]


def sentence_pieces() -> Tokenizer:
    """As T5's: a unigram model over words that begin with a mark."""
    tokenizer = Tokenizer(Unigram())
    tokenizer.pre_tokenizer = Metaspace()
    tokenizer.decoder = MetaspaceDecoder()
    trainer = UnigramTrainer(vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>")
    tokenizer.train_from_iterator([*SENTENCES, *(p.contents for p in PASSAGES)], trainer)
    return tokenizer


def whole_lines() -> Tokenizer:
    """Of a kind that joins words: pieces may reach over blanks."""
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(use_regex=False)
    tokenizer.decoder = ByteLevelDecoder()
    trainer = BpeTrainer(vocab_size=500, special_tokens=["<pad>", "</s>"], initial_alphabet=ByteLevel.alphabet())
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return tokenizer


MAKERS = {"wordpieces": seq2seq_tokenizer, "sentencepieces": sentence_pieces, "whole lines": whole_lines}
CODECS: dict[str, Codec] = {}


@pytest.fixture(params=list(MAKERS))
def codec(request: pytest.FixtureRequest) -> Codec:
    if request.param not in CODECS:
        tokenizer = MAKERS[request.param]()
        CODECS[request.param] = Codec(tokenizer, replace(tiny_config(), vocabulary=tokenizer.get_vocab_size()))
    return CODECS[request.param]


def leaves(
    trie: Trie, node: TrieNode | None = None, tokens: tuple[int, ...] = ()
) -> Iterator[tuple[tuple[int, ...], object]]:
    node = trie.root if node is None else node
    if (value := trie.value(node)) is not None:
        yield tokens, value
    for token in trie.allowed(node):
        yield from leaves(trie, trie.advance(node, token), (*tokens, token))


def test_only_a_tokenizer_that_joins_words_spells_whole_sentences(codec: Codec) -> None:
    assert SentenceTokenizer(codec).by_words == (codec is not CODECS.get("whole lines"))


@given(term=st.sampled_from(["lamp", "o'neil", "1,000.5", "zyx", "x" * 40, "café", "b.b.c", "210", "d'arc's"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_term_is_spelled_as_its_sentence_is_cut(codec: Codec, term: str) -> None:
    texts = [sentence(operator.apply(field, term)) for operator, field in SLOTS]
    whole = tuple(map(tuple, codec.tokenize(texts)))
    expected = () if any(codec.unknown in tokens for tokens in whole) else whole
    assert SentenceTokenizer(codec).sentences(term) == expected


@pytest.mark.long
@given(data=st.data())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_trie_holds_what_is_legal_and_nothing_else(codec: Codec, data: st.DataObject) -> None:
    seen: Observation = data.draw(observations(ENGINE))
    lexicon, grammar = Lexicon(ENGINE), data.draw(st.sampled_from([G1, G2, G4]))
    found = dict(leaves(LegalActions(codec, grammar, lexicon, 32).trie(seen)))
    actions = [action_of(value) for value in found.values()]  # type: ignore[arg-type]
    terms = usable_terms(seen, lexicon)
    open = {term.text: row for term, row in zip(terms, open_slots(terms).tolist(), strict=True)}
    for tokens, action in zip(found, actions, strict=True):
        if action == STOP:
            assert seen.may_stop
            continue
        assert isinstance(action, Refinement)
        assert Operator(action.op, action.weight) in grammar.operators
        assert open[action.term][SLOTS.index((Operator(action.op, action.weight), action.field))]
        assert lexicon.as_term(action.term) not in seen.used
        assert len(tokens) <= 32
        [read] = parse_output(codec.decode(tokens)).refinements
        assert (read.op, read.field, read.weight) == (action.op, action.field, action.weight)
        assert fold_term(read.term) == fold_term(action.term)
    # All that can be spelled is there: as many refinements as (term, slot) pairs spelled apart.
    tokenizer = SentenceTokenizer(codec)
    allowed = {slot for slot in SLOTS if slot[0] in grammar.operators}
    wanted = {
        tokens
        for term in terms
        for slot, tokens in zip(SLOTS, tokenizer.sentences(term.text), strict=False)
        if slot in allowed and open[term.text][SLOTS.index(slot)] and len(tokens) <= 32
    }
    assert wanted == {tokens for tokens, action in zip(found, actions, strict=True) if action != STOP}


def test_a_grammar_is_all_that_can_be_written(codec: Codec) -> None:
    from tiny_pointer import observation

    from orienteer.session import ObservedPassage

    passages = [ObservedPassage("1", "Ardle Light", "the keeper lit the lamp", "keeper", 0.5)]
    seen = observation(ENGINE, "who lit the lamp", passages)
    for grammar in GRAMMARS.values():
        trie = LegalActions(codec, grammar, Lexicon(ENGINE), 32).trie(seen)
        actions = [action_of(value) for _, value in leaves(trie)]  # type: ignore[arg-type]
        assert {Operator(each.op, each.weight) for each in actions} == set(grammar.operators)  # type: ignore[union-attr]
        assert {each.term for each in actions if each.field == "title"} <= {"ardle", "light"}  # type: ignore[union-attr]
