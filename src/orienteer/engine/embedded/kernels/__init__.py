"""The loops that must be fast, compiled by numba, cached on disk, run without the interpreter lock.

Every kernel takes plain arrays. Index arrays are read-only, everything else is writable, so that each kernel is
compiled for one signature only.
"""
