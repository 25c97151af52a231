"""Draw which room of the package imports which: an arc diagram as SVG, rooms in the order of the import contract.

python tools/import_graph.py docs/pictures/imports.svg
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
ROW, LEFT, BOX, TOP = 30, 12, 128, 16
SINGLE_MODULES = {"cli", "errors", "defaults"}  # imported by nearly all, or importing nearly all: noise in a picture


def rooms() -> list[str]:
    """The rooms from the top layer to the bottom one."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    names = [name.strip() for layer in contract["layers"] for name in layer.split("|")]
    return [name for name in names if name not in SINGLE_MODULES]


def imports(names: list[str]) -> Counter[tuple[str, str]]:
    """How many imports lead from one room to another."""
    graph = grimp.build_graph("orienteer", exclude_type_checking_imports=True)
    counts: Counter[tuple[str, str]] = Counter()
    for module in graph.modules:
        importer = _room(module)
        for imported in map(_room, graph.find_modules_directly_imported_by(module)):
            if importer != imported and importer in names and imported in names:
                counts[importer, imported] += 1
    return counts


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def svg(names: list[str], counts: Counter[tuple[str, str]]) -> str:
    place = {name: TOP + ROW * number for number, name in enumerate(names)}
    height, width = TOP + ROW * len(names), LEFT + BOX + 40 + ROW * len(names) // 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="13">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for (importer, imported), count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
        start, end, x = place[importer] + 11, place[imported] + 11, LEFT + BOX
        reach, upward = x + 14 + abs(end - start) / 2, end < start
        colour = "#c0392b" if upward else "#3d6a9e"
        lines.append(
            f'<path d="M{x} {start}C{reach:.0f} {start} {reach:.0f} {end} {x} {end}" fill="none" stroke="{colour}" '
            f'stroke-opacity="0.55" stroke-width="{min(5.0, 0.6 + count**0.5 / 2):.1f}">'
            f"<title>{escape(importer)} imports {escape(imported)}: {count}</title></path>"
        )
    for name, y in place.items():
        lines.append(
            f'<rect x="{LEFT}" y="{y}" width="{BOX}" height="22" rx="4" fill="#eef3f8" stroke="#3d6a9e"/>'
            f'<text x="{LEFT + 8}" y="{y + 15}" fill="#1c1e22">{escape(name)}</text>'
        )
    return "\n".join([*lines, "</svg>"]) + "\n"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    found = rooms()
    Path(sys.argv[1]).write_text(svg(found, imports(found)), encoding="utf-8")
