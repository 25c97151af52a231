"""SQuAD 1.1 and 2.0: every paragraph a passage, every question a question of its paragraph."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from orienteer.data.passage import Passage, Question
from orienteer.data.rows import Fault, Report, Row, check_id, kind, passage_of, question_of


def passages(blocks: Iterable[bytes], bad: Report, name: str) -> Iterator[tuple[int, Passage]]:
    """Each paragraph as a passage, with its number in the file."""
    for number, passage, _ in _paragraphs(_load(blocks), bad, name):
        yield number, passage


def questions(blocks: Iterable[bytes], bad: Report, name: str) -> Iterator[tuple[int, Question]]:
    """Each question with its paragraph's number; one without an answer has no gold passage either."""
    for number, passage, paragraph in _paragraphs(_load(blocks), bad, name):
        try:
            asked = _list(paragraph, "qas")
        except Fault as fault:
            bad(number, fault)
            continue
        for place, row in enumerate(asked, 1):
            try:
                question = _question(row, passage)
            except Fault as fault:
                bad(number, Fault(f"its question {place}: {fault}"))
            else:
                yield number, question


def _load(blocks: Iterable[bytes]) -> list[Any]:
    data = b"".join(blocks)
    try:
        whole = json.loads(data.removeprefix(b"\xef\xbb\xbf").decode())
    except (ValueError, RecursionError) as error:
        raise Fault(f"invalid JSON: {error}; expected a SQuAD file") from None
    if type(whole) is not dict or type(whole.get("data")) is not list:
        raise Fault(
            f'found {kind(whole)} without a list under "data"; expected a SQuAD file, {{"data": [{{"title", '
            '"paragraphs"}]}, or JSONL, one object with an "id" a line'
        )
    articles: list[Any] = whole["data"]
    return articles


def _paragraphs(articles: list[Any], bad: Report, name: str) -> Iterator[tuple[int, Passage, Row]]:
    """Each paragraph with its number in the file from 1, as a passage and as it stands.

    The id is the article's title, `#` and the paragraph's number under this title: the same on every reading,
    and unique in the file even where two articles share a title.
    """
    number = 0
    under: Counter[str] = Counter()
    for place, article in enumerate(articles, 1):
        try:
            title = _object(article).get("title")
            paragraphs = _list(article, "paragraphs")
        except Fault as fault:
            bad(number + 1, Fault(f"article {place}: {fault}"))
            continue
        prefix = title if type(title) is str and title else name
        # Titles are written as in Wikipedia's addresses, where a blank is an underscore.
        shown = title.replace("_", " ") if type(title) is str else title
        for paragraph in paragraphs:
            number += 1
            under[prefix] += 1
            try:
                text = _object(paragraph).get("context")
                if type(text) is not str:
                    raise Fault(f'the "context" is {kind(text)}; expected a string')
                row = {"id": f"{prefix}#{under[prefix]}", "title": shown, "text": text}
                passage = passage_of(row)
            except Fault as fault:
                bad(number, fault)
            else:
                yield number, passage, paragraph


def _question(row: Any, passage: Passage) -> Question:
    texts: list[str] = []
    start = None
    answers = [] if _object(row).get("answers") is None else _list(row, "answers")
    for answer in answers:
        text, offset = _object(answer).get("text"), answer.get("answer_start")
        if type(text) is not str or type(offset) is not int:
            raise Fault(
                f'an answer has {kind(text)} as "text" and {kind(offset)} as "answer_start"; '
                "expected a string and a number"
            )
        if offset < 0 or not passage.text.startswith(text, offset):
            found = passage.text[max(offset, 0) : max(offset, 0) + len(text)]
            raise Fault(
                f"the answer {text[:40]!r} is not at its answer_start {offset}, where {found[:40]!r} stands; "
                "expected its character offset in the context"
            )
        start = offset if start is None else start
        texts.append(text)
    fields = {"id": check_id(row.get("id")), "question": row.get("question"), "source": "squad"}
    if texts:
        # Several annotators may have given the same answer.
        fields |= {"answers": list(dict.fromkeys(texts)), "passage_id": passage.id, "answer_start": start}
    return question_of(fields)


def _object(value: Any) -> Row:
    if type(value) is not dict:
        raise Fault(f"found {kind(value)}, expected an object")
    return value


def _list(row: Row, field: str) -> list[Any]:
    value = _object(row).get(field)
    if type(value) is not list:
        raise Fault(f'the "{field}" is {kind(value)}; expected a list')
    return value
