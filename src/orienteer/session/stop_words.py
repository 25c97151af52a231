"""Words that are never offered as terms: English function words, which say nothing about a passage's subject.

The engine's analyser removes 33 of them by itself; the others are index terms like any word.
"""

from __future__ import annotations

_DETERMINERS = """
    a an the this that these those some any each every either neither both all few many much more most
    less such other another own same
"""
_PRONOUNS = """
    i me my mine myself we us our ours ourselves you your yours yourself yourselves
    he him his himself she her hers herself it its itself they them their theirs themselves
    someone something anyone anything everyone everything nobody nothing
"""
_QUESTION_WORDS = "who whom whose which what when where why how whether"
_AUXILIARIES = """
    am is are was were be been being have has had having do does did doing done
    can could shall should will would may might must
    isn't wasn't don't doesn't didn't can't won't it's that's i'm
"""
_PREPOSITIONS = """
    about above across after against along among around as at before behind below between
    by down during for from in into near of off on out over since
    through throughout to toward towards under until up upon with within without
"""
_CONJUNCTIONS_AND_ADVERBS = """
    and or nor but if then than so because although though unless while however
    not no only just also too very again ever never here there now once yet still even
"""

STOP_LIST = frozenset(
    " ".join((_DETERMINERS, _PRONOUNS, _QUESTION_WORDS, _AUXILIARIES, _PREPOSITIONS, _CONJUNCTIONS_AND_ADVERBS)).split()
)


def is_stop_word(term: str) -> bool:
    """Whether an index term is on the list; a typographic apostrophe counts as a plain one."""
    return term.replace("’", "'") in STOP_LIST
