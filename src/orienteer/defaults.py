"""What is used where nobody says otherwise."""

from __future__ import annotations

# The best agent: `ask`, the demo, the page and the tools for language models play it.
AGENT = "pointer"

# Refinements at most, of `ask`, the page and the tools alike; docs/lab-book/answers.md has what more of them bring.
STEPS = 5
