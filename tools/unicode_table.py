"""Make engine/embedded/unicode_12_1.npz: each code point's class for Lucene's tokenizer rules, and its lower case.

Reads the Unicode properties that Perl knows (5.32 or newer) and keeps the characters of Unicode 12.1, the version
behind Lucene 9's StandardTokenizer. The corrections below are characters whose properties changed after 12.1.

    python tools/unicode_table.py
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from orienteer.engine.embedded.tokenizer_rules import CLASSES

OUT = Path(__file__).parents[1] / "src/orienteer/engine/embedded/unicode_12_1.npz"

PERL = r"""
no warnings; use feature 'unicode_strings';
my @wb = qw(ALetter Hebrew_Letter Numeric Katakana MidLetter MidNum MidNumLet Single_Quote Double_Quote
            ExtendNumLet Extend Format ZWJ Regional_Indicator);
my %wb = map { $_ => qr/\p{WB=$_}/ } @wb;
for my $c (0..0xD7FF, 0xE000..0x10FFFF) {
    my $s = chr $c;
    my $p = "";
    $p .= " pictographic" if $s =~ /\p{Extended_Pictographic}/;
    if ($s =~ /\p{Present_In: 12.1}/) {
        for (@wb) { $p .= " $_" if $s =~ $wb{$_} }
        $p .= " ideograph" if $s =~ /\p{Script=Han}/ || $s =~ /\p{Script=Hiragana}/;
        $p .= " complex" if $s =~ /\p{LB=SA}/;
        $p .= " modifier" if $s =~ /\p{Emoji_Modifier}/;
    }
    print "$c$p\n" if $p;
}
"""

# Code points whose class in 12.1 is not what later Unicode versions say.
CORRECTIONS = [
    (range(0x2E5, 0x2EC), "other"),
    (range(0x55A, 0x55B), "other"),
    (range(0x55F, 0x560), "other"),
    (range(0x58A, 0x58B), "other"),
    (range(0xA708, 0xA717), "other"),
    (range(0x16FE2, 0x16FE3), "other"),
    (range(0x1FB00, 0x1FC00), "pictographic"),
]
SINGLE = {
    0x23: "keycap_base",
    0x2A: "keycap_base",
    0x20E3: "keycap",
    0xFE0E: "text_style",
    0xFE0F: "emoji_style",
}
WORD_BREAK = {
    "Hebrew_Letter": "hebrew", "Numeric": "digit", "Katakana": "katakana", "MidLetter": "mid_letter",
    "MidNum": "mid_digit", "MidNumLet": "mid_both", "Single_Quote": "quote", "Double_Quote": "double_quote",
    "ExtendNumLet": "joiner", "Regional_Indicator": "regional",
}  # fmt: skip


def class_of(code: int, properties: set[str]) -> str:
    if code in SINGLE:
        return SINGLE[code]
    if "ZWJ" in properties:
        return "zwj"
    if 0xE0020 <= code <= 0xE007E:
        return "tag"
    if code == 0xE007F:
        return "tag_end"
    if "modifier" in properties:
        return "modifier"
    if properties & {"Extend", "Format"}:
        return "complex_mark" if "complex" in properties else "mark"
    if "ALetter" in properties:
        return "letter_pictographic" if "pictographic" in properties else "letter"
    for name, ours in WORD_BREAK.items():
        if name in properties:
            return ours
    for name in ("pictographic", "ideograph", "complex"):
        if name in properties:
            return name
    return "other"


def main() -> None:
    table = np.zeros(0x110000, np.uint8)
    output = subprocess.run(["perl", "-e", PERL], check=True, capture_output=True, text=True).stdout
    for line in output.splitlines():
        code, *properties = line.split()
        table[int(code)] = CLASSES.index(class_of(int(code), set(properties)))
    for code, name in SINGLE.items():
        table[code] = CLASSES.index(name)
    for codes, name in CORRECTIONS:
        table[list(codes)] = CLASSES.index(name)
    starts = np.flatnonzero(np.diff(table.astype(np.int16), prepend=-1)).astype(np.uint32)
    # Java lowers one character to one: U+0130 to a plain i.
    lower = {code: chr(code).lower() for code in range(0x110000) if chr(code).lower() != chr(code)}
    pairs = [(code, ord(text) if len(text) == 1 else ord("i")) for code, text in lower.items()]
    np.savez_compressed(OUT, starts=starts, classes=table[starts], lower=np.array(pairs, np.uint32))
    print(f"{OUT.name}: {len(starts)} runs, {len(pairs)} lower-case pairs, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
