"""MuZero for search: queries planned rule by rule in a learned model, the grammar and tries holding the actions in."""
