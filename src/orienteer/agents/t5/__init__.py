"""The T5 agent: a session's state as a plain string in, the next refinement as a plain string out."""
