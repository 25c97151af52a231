"""Orienteer inside other frameworks: a retriever each for LangChain and LlamaIndex, a transformer for PyTerrier."""
