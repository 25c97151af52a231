"""Makes a folder with a document of every format, and broken, encrypted, empty and foreign files beside them.

    python tests/data/make_documents.py FOLDER [MEGABYTES]

`FACTS` says which word only one file has; `UNREADABLE` which files cannot be read. MEGABYTES adds a text of that size.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

PROSE = "The station stands above the fjord and keeps a record of wind, rain and snow for the harbour office. "
W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"

# file -> (question that only this file answers, a word of the answer)
FACTS = {
    "notes.txt": ("which lantern guided the ferrymen", "quondamite"),
    "latin1.txt": ("who brewed the café potion", "Zorblatt"),
    "guide.md": ("how is the turbine greased", "glimmerfat"),
    "manual.rst": ("which flag starts the daemon", "vexilloid"),
    "page.html": ("what does the observatory measure", "nephelors"),
    "report.pdf": ("which valve failed in March", "brindlecock"),
    "letter.docx": ("who signed the lease", "Ottoline"),
    "novel.epub": ("where did the captain hide the map", "cormorantry"),
    "prices.csv": ("price of the sextant", "sextant"),
    "parts.tsv": ("supplier of the gasket", "Hallvardsen"),
    "reports/2021/deep.md": ("what was drilled in the glacier", "icecoreum"),
    "packed.txt.gz": ("what was packed in the crate", "squillions"),
}
UNREADABLE = {
    "broken.pdf": "broken PDF", "locked.pdf": "encrypted", "scan.pdf": "no text", "broken.docx": "broken DOCX",
    "locked.docx": "encrypted", "broken.epub": "EPUB", "empty.txt": "empty", "blank.md": "no text",
    "picture.png": "unknown type", "binary.txt": "binary",
}  # fmt: skip


LAST_OF_LARGE = "what closes the last entry"


def make_documents(folder: Path, *, megabytes: int = 0) -> None:
    import gzip

    folder.mkdir(parents=True, exist_ok=True)

    def write(name: str, data: str | bytes) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)

    write("notes.txt", f"{PROSE * 8}\n\nThe ferrymen were guided by the quondamite lan-\ntern on the rock.\n")
    write("latin1.txt", (PROSE * 3 + "The café potion was brewed by Zorblatt Müller.\n").encode("latin-1"))
    write("guide.md", f"---\ntitle: Turbine guide\ndate: 2019-05-01\n---\n# Care\n{PROSE}\n## Grease\nThe turbine is "
          "greased with glimmerfat.\n")  # fmt: skip
    write("manual.rst", f"Manual\n======\n\n{PROSE}\n\n.. toctree::\n\n   hidden-menu\n\nStart\n-----\n\nThe daemon "
          "is started with the :option:`vexilloid <--v>` flag.\n")  # fmt: skip
    write("page.html", f"<html lang=en><head><title>Observatory</title><style>p{{}}</style></head><body><nav><ul><li>"
          f"<a href=/>Home menuword</a></ul></nav><main><h1>Work</h1><p>{PROSE * 3}</p><p>The observatory measures "
          "nephelors.</p></main><footer>Footerword</footer><script>'scriptword'</script>")  # fmt: skip
    write("report.pdf", pdf([["Annual report", PROSE[:50], "All was well. The valve that failed in"],
                             ["March was the brindle-", "cock valve of pump two. It was replaced."]]))  # fmt: skip
    write("scan.pdf", pdf([[]]))
    write("broken.pdf", b"%PDF-1.4 and no more")
    write("locked.pdf", pdf([["secret"]], encrypted=True))
    docx(folder / "letter.docx", [("Heading1", "Lease"), ("", PROSE), ("", "The lease was signed by Ottoline Bragg.")])
    write("broken.docx", (folder / "letter.docx").read_bytes()[:200])
    write("locked.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    epub(folder / "novel.epub", f"<h1>The map</h1><p>{PROSE}</p><p>The captain hid the map in the cormorantry.</p>")
    write("broken.epub", b"PK\x05\x06" + bytes(18))
    write("prices.csv", 'name;price;year\nsextant;"1,200";1903\nbarometer;80;1911\n'.replace(";", ","))
    write("parts.tsv", "part\tsupplier\ngasket\tHallvardsen and sons\n")
    write("reports/2021/deep.md", f"# Glacier\n{PROSE}An icecoreum of ninety metres was drilled in the glacier.\n")
    write("packed.txt.gz", gzip.compress(b"In the crate squillions of beads were packed.\n", mtime=0))
    write("empty.txt", b"")
    write("blank.md", " \n\n")
    write("picture.png", b"\x89PNG\r\n\x1a\n" + bytes(50))
    write("binary.txt", bytes(range(256)) * 8)
    write(".hidden.txt", "never read\n")
    if megabytes:
        with (folder / "large.txt").open("w") as out:
            for number in range(100 * megabytes):
                out.write(f"{PROSE * 98}Entry {number} of the log.\n\n")
            out.write("A wombatorium closes the last entry.\n")


def pdf(pages: list[list[str]], *, encrypted: bool = False) -> bytes:
    """A PDF of text lines, by hand."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
               "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]  # fmt: skip
    for number, lines in enumerate(pages):
        drawn = " T* ".join(f"({line}) Tj" for line in lines)
        stream = f"BT /F1 11 Tf 14 TL 50 700 Td {drawn} ET" if lines else "0 0 50 50 re f"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {5 + 2 * number} 0 R "
                       "/Resources << /Font << /F1 3 0 R >> >> >>")  # fmt: skip
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{each}\nendobj\n".encode("latin-1")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    lock = f"/ID [<00><00>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 /O <{'5a' * 32}> /U <{'5a' * 32}> >> "
    return (
        out
        + (
            f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer\n<< /Size {len(objects) + 1} /Root 1 0 R "
            f"{lock if encrypted else ''}>>\nstartxref\n{len(out)}\n%%EOF\n"
        ).encode()
    )


def docx(path: Path, paragraphs: list[tuple[str, str]]) -> None:
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>' if style else
        f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for style, text in paragraphs
    )  # fmt: skip
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("word/document.xml", f'<w:document xmlns:w="{W}"><w:body>{body}</w:body></w:document>')


def epub(path: Path, body: str) -> None:
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("mimetype", "application/epub+zip")
        out.writestr("META-INF/container.xml", '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles>'
                     "</container>")  # fmt: skip
        out.writestr("OPS/book.opf", '<package xmlns="http://www.idpf.org/2007/opf" '
                     'xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata><dc:title>The Captain</dc:title>'
                     '<dc:language>en</dc:language></metadata><manifest><item id="c" href="one%20.xhtml"/></manifest>'
                     '<spine><itemref idref="c"/></spine></package>')  # fmt: skip
        out.writestr("OPS/one .xhtml", f"<html><body>{body}</body></html>")


if __name__ == "__main__":
    make_documents(Path(sys.argv[1]), megabytes=int(sys.argv[2]) if len(sys.argv) > 2 else 0)
