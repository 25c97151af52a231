"""The small models of other rooms' tests."""

from __future__ import annotations

import sys
from pathlib import Path

for part in ("session", "reader", "agents/pointer", "agents/t5", "agents/muzero"):
    sys.path.insert(0, str(Path(__file__).parents[1] / part))
