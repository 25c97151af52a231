"""Lookahead: score all refinements of a query in one engine pass and predict what reading their hits would bring."""
