"""The query workshop: explain a miss, tune the ranking, find the query of a set of passages, learn from use."""
