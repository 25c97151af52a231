r"""Write the golden tokens: hard texts, and what Lucene's StandardAnalyzer makes of them.

    python tests/engine/golden/write_tokens.py LUCENE_JAR

`tokens.jsonl` holds cases written by hand, `tokens-random.jsonl.xz` random sequences of characters, a few of every
class of the word rules: some that lead into each state of the rules and take each way out of it, others free. A row
is a text and its index terms; null is a removed stop word. The files were made with Lucene 9.9.1.
"""

# ruff: noqa: E501 - a case reads best on one line

from __future__ import annotations

import json
import lzma
import random
import sys
from pathlib import Path

import numpy as np

from orienteer.engine.embedded.analysis import CLASS_OF, TRANSITIONS
from orienteer.engine.embedded.tokenizer_rules import CLASSES, START

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[2] / "benchmarks"))

from lucene_bench import lucene_analyze  # noqa: E402

FREE_TEXTS = 1500
WAYS_OUT = 3  # texts for each class in each state

HARD = [
    # apostrophes and quotes
    "don't Don’t DON‘T rock'n'roll o'clock 'quoted' ''twice'' dogs' 'tis l'été l’Été James's",
    'say "hello" “curly” «angle» ‚low‘ it"s', "a'b'c a''b 'a b' 1'2 a'1 1'a a’1’b",
    # numbers and their separators
    "3.14 1,234.5 1,234,567.89 1.2.3.4 10:30 1;2 1/2 ½ 12e-5 -7 +7 50% $9.99 €5 №5 #1 1st 2nd 4x4 B2B",
    "1.a a.1 1,a a,1 1,,2 1..2 1.,2 .5 5. ,5 5, 1٫5 ١٢٣ ۴۵۶ १२३ 1٬000 1'000 1’000",
    # dots, colons, underscores, hyphens
    "U.S.A. u.s.a e.g. i.e. example.com a.b.c..d x-ray co-op tokyo–bay a:b a·b a‧b a․b a﹒b a．b a﹕b",
    "_ __ ___ _a a_ _a_ a_b __init__ snake_case_1 1_000 _1 1_ a‿b a⁀b ‿ ﹍x a﹏b x＿y _.a a_.b a_'b",
    # stop words: only whole, lower-cased tokens are removed
    "The THE the a A an it It's is IT not no NOT into onto will wills thé The_ the's w/o with.out",
    # Chinese, Japanese, Korean
    "東京 東京都 中文字 漢字かな交じり文 ひらがな カタカナ ｶﾀｶﾅ カタカナー ｰ ー々〆〇 한국어 조선말 ᄀ각ᆨ 한1 1한 漢1 漢a a漢 カa aカ カ1 カ_ア ア゙ アﾞ ゛ア",
    "𠀋𠮷野家 〱〳〵 ゟ ヿ ㍿ ㋿ ㊙ ㊗ ︙ ﹋ ｡｢｣､･ ア・イ ア･イ",
    # South-East Asian scripts
    "ภาษาไทย ไทย1 กำ ก็ ພາສາລາວ ភាសាខ្មែរ မြန်မာဘာသာ ไa aไ ไ漢 ๑๒๓ ไ๑ ๑ไ ᦂᦱᧃ ᨠᩣ ꪀꪱ",
    # Hebrew quotes
    "צה\"ל ד\"ר צ'ק ג׳ירפה ש״ס א' א'ב א\" א\"ב א\"a a\"א א\"1 א'1 א''ב א\"\"ב א״ a'א א.ב א:ב אa'ב ב\"ג\"ד",
    # Indic, Arabic, combining marks and joiners
    "हिन्दी क्‍ष क्‌ष বাংলা தமிழ் العربية كِتَاب مـحمد می‌خواهم می‍خواهم ا‌ب a‌b a‍b",
    "e\u0301 E\u0301 \u0301e a\u0308\u0323b 1\u0301 \u0301 a\u200d\u0301b a\u00adb soft\u00adhyphen a\u2060b a\ufeffb \ufeffa a\u200bb a\u034fb",
    "a'\u0301b a\u0301'b 1.\u03012 1\u0301.2 _\u0301a א\"\u0301ב 漢\u0301\u0301 カ\u0301ナ ไ\u0301ท \u0301\u0301漢",
    # emoji: styles, modifiers, ZWJ sequences, flags, tags, keycaps
    "😀 😀😀 a😀b 😀1 ☺ ☺️ ☺︎ ❤ ❤️ ❤️‍🔥 ✊🏽 👍🏿 🏽 👨‍👩‍👧‍👦 👩🏽‍💻 🏴‍☠️ 🏳️‍🌈 👁️‍🗨️ 👁‍🗨 ‍😀 😀‍ 😀‍a 😀‍‍😀",
    "❤️\u200d🏽 ❤️\u200d\u200d🏽 ❤️\u200d\u200d😀 ❤️\u200d\u200d\u200d😀 #️⃣️⃣ #⃣️⃣ #⃣️⃣️⃣",
    "🇺🇸 🇺 🇺🇸🇬🇧 🇺🇸🇬 a🇺🇸 🇺a🇸 🇺‍🇸 🇺\u0301🇸 🏴󠁧󠁢󠁥󠁮󠁧󠁿 🏴󠁧󠁢󠁥󠁮󠁧 󠁿 🏴️󠁧󠁢󠁿",
    "1️⃣ #️⃣ *️⃣ #⃣ 1⃣ 1️ # * #️ *️a #️⃣️⃣ a#️⃣b 10️⃣ ©️ ® ™️ ℹ️ Ⓜ️ ㊗️ 🅰️ 🈂️ ‼️ ⁉ 〰️ 〽",
    # surrogate pairs
    "𝐁𝐨𝐥𝐝 𝟏𝟐𝟑 𝟙.𝟚 𐐀𐐁 𐐨 𐐀a 𐐀'𐐁 𝕏 𞤀𞤁 𑄶𑄷 𐒠 🄰 🅐 𓀀𓀁 𒀀 𝒳_𝒴 \U0001f9d1\u200d\U0001f680",
    # lower case: one code point at a time, whatever a language would do
    "İstanbul IŞIK ı İ İİ ẞ STRASSE Straße ΟΔΟΣ Σ ΑΣ ΣΑΣ ς ﬁsh ﬀ ŉ ǰ ΐ Ǆ ǅ Ǉ ǈ Ǌ ǋ Ǳ ǲ K Å Ω ϴ Ⅷ Ⓐ Ꭰ ꭰ Ა ა Ⴀ Ⴭ ẚ ᾈ ᾳ ᾼ ϒ ϓ Ⱥ Ɫ Ɽ Ɑ Ꟶ Ꜣ 𐐀 Ⲁ Ⰰ Ѐ Ӏ Ԁ Ꙁ",
    # other letters that are, or are not, letters to the rules
    "ʼ ˈa a˗b ª º µ ʻokina Hawaiʻi n‑gram € ꜀a a꜀ ˥ ˦a ՚ ՛ հ֊հ ՟ ᠎ ᠠ᠎ᠠ ⰰ ⴰ ꙰ ꧀ ᳐ ༼ ༽ ཀ་ཁ ꓐ ℵ ℶ ⅓ ² x² H₂O CO₂ ㎏ ﷺ ﷽ ﬩ ﭏ ﹏ ⸺ ⸻ ⁄ 1⁄2",
    # controls, private use, noncharacters, the replacement character, line ends
    "a\tb\nc\rd\x0be\x0cf\x00g\x1fh\x7fi\x85j\xa0k\u1680l\u2028m\u2029n\u202fo\u3000p",
    "\ue000 a\ue000b \uf8ff a\ufffdb \ufffd a\ufdd0b a\uffffb \U0010ffff a\U000f0000b \U000e0001 a\U000e0001b \ufff9a\ufffab",
    "", " ", "\n", ".", "-", "'", "…", "a", "I", "1",
    # tokens of 255 units and more are cut, wherever that is
    "x" * 254, "x" * 255, "x" * 256, "x" * 511, "x" * 600 + " y", "1" * 300, "ab" * 200 + "c", "a." * 200, "1," * 200,
    "𝐀" * 127, "𝐀" * 128, "𝐀" * 300, "x" + "𝐀" * 130, "x" * 254 + "𝐀x", "x" * 253 + "𝐀x", "x" * 255 + "\u0301y",
    "x" * 254 + "'y", "x" * 253 + "'yz", "x" * 255 + "'y", "x" * 254 + ".", "1" * 254 + ".5", "1" * 253 + ".5.6", "_" * 300,
    "_" * 254 + "a", "_" * 255 + "a", "_" * 300 + "abc", "e\u0301" * 130, "e" + "\u0301" * 300 + "f", "\u0301" * 300 + "a",
    "漢" + "\u0301" * 300 + "字", "カ" * 300, "ไ" * 300, "א" * 254 + '"ב', "א" * 254 + "'ב", "א" * 255 + "'", "א" * 254 + "'",
    "😀" + "\u200d😀" * 100, "😀" + "\u0301" * 260, "🇺" + "\u0301" * 254 + "🇸", "🇺" + "\u0301" * 250 + "🇸a", "#" + "\u0301" * 260 + "\u20e3",
    "🏴️" + "\U000e0067" * 130 + "\U000e007f", "the" + "\u00ad" * 260 + " end", " " * 300 + "x" * 260, "-" * 300 + "y" * 255 + "z",
    "x" * 200 + " " + "y" * 200 + "'" + "z" * 200, "İ" * 256, "ẞ" * 256, "𐐀" * 128,
]  # fmt: skip


def representatives(rng: random.Random) -> list[list[str]]:
    """By class: a few characters of it, from the common to the odd; surrogates are left out."""
    every = []
    for number in range(len(CLASSES)):
        codes = np.flatnonzero(number == CLASS_OF)
        codes = codes[(codes < 0xD800) | (codes > 0xDFFF)].tolist()
        chosen = codes if len(codes) <= 8 else [*codes[:2], *rng.sample(codes, 6)]
        every.append([chr(code) for code in chosen if chr(code) not in "\r\n"])
    return every


def random_text(rng: random.Random, characters: list[list[str]]) -> str:
    # A text of few classes, so that long matches come about; now and then one long enough to be cut.
    classes = rng.sample(characters, rng.choice([1, 2, 3, 3, 4, 6, len(characters)]))
    length = rng.choice([2, 4, 8, 8, 16, 16, 32]) if rng.random() < 0.97 else rng.randint(200, 600)
    few = [rng.choice(group) for group in classes]
    return "".join(rng.choice(rng.choice(classes) if rng.random() < 0.3 else few) for _ in range(length))


def guided_texts(rng: random.Random, characters: list[list[str]]) -> list[str]:
    """Into every state by a shortest way, on with every class, and then a few characters at random."""
    ways: dict[int, list[int]] = {START: []}
    for state in (todo := [START]):
        for kind, after in enumerate(TRANSITIONS[state].tolist()):
            if after and after not in ways:
                ways[after] = [*ways[state], kind]
                todo.append(after)
    everything = range(len(characters))
    return [
        "".join(rng.choice(characters[kind]) for kind in [*way, out, *rng.choices(everything, k=rng.randint(0, 3))])
        for way in ways.values()
        for out in everything
        for _ in range(WAYS_OUT)
    ]


def main(jar: str) -> None:
    rng = random.Random(29)
    characters = representatives(rng)
    texts = guided_texts(rng, characters) + [random_text(rng, characters) for _ in range(FREE_TEXTS)]
    (HERE / "tokens.jsonl").write_text(rows(jar, HARD, ascii=False), encoding="utf-8", newline="\n")
    with lzma.open(HERE / "tokens-random.jsonl.xz", "wt", encoding="utf-8", newline="\n", preset=9) as file:
        file.write(rows(jar, texts, ascii=True))


def rows(jar: str, texts: list[str], ascii: bool) -> str:
    terms = lucene_analyze(jar, texts)
    pairs = zip(texts, terms, strict=True)
    return "".join(json.dumps(pair, ensure_ascii=ascii) + "\n" for pair in pairs)


if __name__ == "__main__":
    main(*sys.argv[1:])
