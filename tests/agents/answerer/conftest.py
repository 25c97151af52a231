"""Where the tiny models and the T5 agent's tests are."""

from __future__ import annotations

import sys
from pathlib import Path

for room in ("seq2seq", "pointer", "t5"):
    sys.path.insert(0, str(Path(__file__).parent.parent / room))
