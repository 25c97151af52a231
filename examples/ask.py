"""Ask the bundled corpus a question, and watch the agent's queries as they come."""

import sys

from orienteer import Searcher

question = " ".join(sys.argv[1:]) or "who first isolated sodium metal"
searcher = Searcher.open(steps=5)
for update in searcher.stream(question):
    step = update.steps[-1]
    print(f"q{len(update.steps) - 1}  {step.query}  (answer so far: {update.answer})")
print()
print(update)
print(f"\n{update.answer!r} with confidence {update.confidence:.2f}, {update.cost.passages_read} passages read")
