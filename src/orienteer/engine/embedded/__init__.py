"""The embedded engine: Lucene's BM25 from memory-mapped arrays, in this process."""
