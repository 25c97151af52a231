"""The answer generator: the five passages of a session in, the answer out (the paper's EM-T5)."""
