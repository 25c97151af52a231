"""Leaves out of the shipped copynet and MuZero what the shipped pointer stores too: `python tools/share_tensors.py`.

To be run after a new pointer, copynet or MuZero was put into the package; the models stay the same to the bit.
"""

from __future__ import annotations

from pathlib import Path

from orienteer.models.model_folder import share_tensors

AGENTS = Path(__file__).parents[1] / "src" / "orienteer" / "agents"

if __name__ == "__main__":
    for kind in ("t5", "muzero"):
        saved = share_tensors(AGENTS / kind / "weights", kind, "pointer")
        print(f"{kind}: {saved / 1e6:.1f} MB shared with the pointer")
