"""Text to text: the T5 agent, a state as a string in and the next refinement as a string out; the answer generator."""
