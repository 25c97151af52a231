"""What an index is, read from its mapping and settings: fields, analysers, similarity, shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from orienteer.engine.adapters.opensearch.service import Service
from orienteer.engine.embedded.analysis import MAX_TOKEN_UNITS, STOP_WORDS
from orienteer.errors import ServiceIndexError

META = "orienteer"  # our corner of the mapping's `_meta`
NESTED = "nested"
_WHY_NOT = {
    "keyword": "it is a keyword: it holds whole values, no words",
    NESTED: "it lies in nested objects, into which a plain search does not look",
}
STANDARD, KEEPS_STOP_WORDS, OTHER = "standard", "standard without stop words", "another"


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """A searched field; `analyzer` is one of the three kinds above, by what it does and not by its name.

    It is the analyser of searches, where the field has one of its own: passages then hold the terms of words and more,
    such as their beginnings.
    """

    name: str
    analyzer: str
    analyzer_name: str
    similarity: str  # as written: BM25 k1=1.2 b=0.75
    fit: bool  # whether that is Lucene's BM25 with k1 1.2 and b 0.75
    indexed_as: str  # the analyser that passages were indexed with


@dataclass(frozen=True, slots=True)
class IndexInfo:
    uuid: str
    shards: int
    contents: FieldInfo
    title: FieldInfo | None
    ordered: bool  # passages know their place in the collection
    meta: Mapping[str, Any]  # what `orienteer index --to` wrote there
    kinds: Mapping[str, str]  # every field's type, by its whole name; "nested" for all that lies in nested objects


def read_index_info(service: Service) -> IndexInfo:
    """Raises `ServiceIndexError` for an index that cannot be searched."""
    answer, address, names = service.describe(), service.address, service.settings.names
    service.several = len(answer) > 1 or any("data_stream" in each for each in answer.values())  # which rolls over
    newest = answer[max(answer)]  # of a data stream, or of indexes by date behind an alias
    service.newest = replace(address, index=max(answer))
    mapping, settings = newest.get("mappings", {}), newest["settings"]["index"]
    every = [each["settings"]["index"] for each in answer.values()]
    shards = sum(int(each.get("number_of_shards", 1)) for each in every)
    uuid = "+".join(sorted(str(each.get("uuid", "")) for each in every))
    contents = _field(mapping, settings, names.of("contents"))
    _refuse_unlike(answer, address.index, [name for name, _ in names.weighted("contents")])
    kinds = dict(_kinds(mapping))
    if contents is None or kinds.get(contents.name) == NESTED:
        texts = sorted(name for name, kind in kinds.items() if kind == "text")
        kind = kinds.get(names.of("contents"))
        why = "" if kind is None else f" ({_WHY_NOT.get(kind, f'it is of type {kind}')})"
        raise ServiceIndexError(
            f"{address} has no text field {names.of('contents')!r} to search{why}; "
            f"it has {', '.join(texts) or 'none'}; "
            "name the fields, for instance ORIENTEER_SEARCH_FIELDS=contents=body,title=headline"
        )
    return IndexInfo(
        uuid, shards, contents, _field(mapping, settings, names.of("title")),
        not service.several and _at(mapping, names.order).get("type") in ("long", "integer"),
        mapping.get("_meta", {}).get(META, {}), kinds,
    )  # fmt: skip


def _kinds(mapping: Mapping[str, Any], before: str = "", nested: bool = False) -> Iterator[tuple[str, str]]:
    for name, each in mapping.get("properties", {}).items():
        inside = nested or each.get("type") == NESTED
        if "properties" in each:
            yield from _kinds(each, f"{before}{name}.", inside)
        else:
            yield before + name, NESTED if inside else str(each.get("type", "object"))
        for more, other in each.get("fields", {}).items():
            yield f"{before}{name}.{more}", NESTED if inside else str(other.get("type"))


def _refuse_unlike(answer: Mapping[str, Any], name: str, fields: Sequence[str]) -> None:
    """Indexes behind one name must read their text in one way, or a word would mean several terms."""
    kinds: dict[tuple[str, ...], str] = {}
    for index, whole in answer.items():
        found = [_field(whole.get("mappings", {}), whole["settings"]["index"], field) for field in fields]
        kinds[tuple(each.analyzer_name if each else "no text field" for each in found)] = index
    if len(kinds) > 1:
        told = "; ".join(f"{index}: {', '.join(kind)}" for kind, index in sorted(kinds.items()))
        raise ServiceIndexError(
            f"{name!r} stands for indexes that read {', '.join(fields)} differently ({told}); name one"
        )


def _at(mapping: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A field's part of the mapping; `a.b` is b inside the object a, or a second reading of the field a."""
    here: Mapping[str, Any] = mapping
    for part in name.split("."):
        here = {**here.get("fields", {}), **here.get("properties", {})}.get(part, {})
    return here


def _field(mapping: Mapping[str, Any], settings: Mapping[str, Any], name: str) -> FieldInfo | None:
    here = _at(mapping, name)
    if here.get("type") not in ("text", "match_only_text"):
        return None
    analysis = settings.get("analysis", {})
    known = analysis.get("analyzer", {})
    indexed = here.get("analyzer", "default" if "default" in known else "standard")
    searched = here.get("search_analyzer", "default_search" if "default_search" in known else indexed)
    similarity, fit = _similarity(settings, here.get("similarity"))
    fit &= here.get("type") == "text"
    return FieldInfo(name, _kind(analysis, searched), searched, similarity, fit, indexed)


def _kind(analysis: Mapping[str, Any], name: str) -> str:
    """What an analyser does to text, as far as Orienteer has to know."""
    made = analysis.get("analyzer", {}).get(name)
    if made is None:
        return KEEPS_STOP_WORDS if name == "standard" else OTHER
    if made.get("type") == "standard":
        if int(made.get("max_token_length", MAX_TOKEN_UNITS)) != MAX_TOKEN_UNITS:
            return OTHER
        return _by_stop_words(made.get("stopwords", "_none_"))
    if made.get("type", "custom") == "custom" and made.get("tokenizer") == "standard" and not made.get("char_filter"):
        filters = made.get("filter", [])
        filters = [filters] if isinstance(filters, str) else list(filters)
        if filters == ["lowercase"]:
            return KEEPS_STOP_WORDS
        own = analysis.get("filter", {}).get(filters[-1], {"type": filters[-1]}) if filters else {}
        if len(filters) == 2 and filters[0] == "lowercase" and own.get("type") == "stop":
            return _by_stop_words(own.get("stopwords", "_english_"))
    return OTHER


def _by_stop_words(words: Any) -> str:
    given = {words} if isinstance(words, str) else set(words)
    if given in ({"_english_"}, set(STOP_WORDS)):
        return STANDARD
    return KEEPS_STOP_WORDS if given in ({"_none_"}, set()) else OTHER


def _similarity(settings: Mapping[str, Any], name: str | None) -> tuple[str, bool]:
    known = settings.get("similarity", {})
    made = known.get(name or "default", {"type": name or "BM25"})
    if made.get("type") not in ("BM25", "LegacyBM25"):
        return str(made.get("type")), False
    k1, b = float(made.get("k1", 1.2)), float(made.get("b", 0.75))
    return f"{made['type']} k1={k1:g} b={b:g}", (k1, b) == (1.2, 0.75)
