"""What is used where nobody says otherwise."""

from __future__ import annotations

# The best agent: `ask`, the demo, the page and the tools for language models play it.
AGENT = "pointer"
