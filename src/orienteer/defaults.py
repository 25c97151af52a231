"""What is used where nobody says otherwise."""

from __future__ import annotations

from typing import Literal

# The best agent: `ask`, the demo, the page and the tools for language models play it.
AGENT = "pointer"

# The order of the passages that a session gives: `answer_voting.py`. Training and the paper's rows order by PS.
ORDER: Literal["agreement"] = "agreement"

# Refinements at most, of `ask`, the page and the tools alike; docs/lab-book/answers.md has what more of them bring.
STEPS = 5
