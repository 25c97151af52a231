"""The pointer: behavioural cloning without free generation.

The observation is encoded once, every legal (operator, field, term) is scored from the term's encoded occurrences.
"""
