"""Several embedded indexes as one engine, in this process, in processes of their own, or on a Ray cluster."""
