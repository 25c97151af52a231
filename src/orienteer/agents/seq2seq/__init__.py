"""Text in, text out: an encoder and T5's decoder, shared by the T5 agent and the answer generator."""
