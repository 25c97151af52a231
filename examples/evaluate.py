"""Compare agents on questions with known answers: a table, and a difference with its interval."""

from orienteer import evaluate
from orienteer.bundled import bundled_questions

result = evaluate(["bm25", "bm25+ps", "prf-answer"], bundled_questions("test"), steps=3, limit=40)
print(result.table())
for difference in result.compare("prf-answer", "bm25+ps"):
    print(
        f"prf-answer - bm25+ps  {difference.measure:7} {difference.difference:+.1f}"
        f"  95 % [{difference.low:+.1f}, {difference.high:+.1f}]  p = {difference.p_holm:.3f}"
    )
