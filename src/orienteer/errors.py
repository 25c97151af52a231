"""Everything a user can get wrong, as one small class each.

Each message says what was found, what was expected and how to fix it.
"""

from __future__ import annotations


class OrienteerError(Exception):
    """Base of every error that Orienteer raises on purpose."""


class QueryError(OrienteerError):
    """A query that cannot be read; `place` is the offending character's offset in `text`."""

    def __init__(self, message: str, text: str = "", place: int = 0):
        self.message, self.text, self.place = message, text, place
        super().__init__(f"{message}\n{_pointer(text, place)}" if text else message)


class QuerySyntaxError(QueryError):
    """The text is not a query: an open quote, a stray parenthesis, an operator we do not offer."""


class UnknownFieldError(QueryError):
    """A field other than `contents` and `title`."""


class TermTooLongError(QueryError):
    """A term of more than 256 characters."""


class BoostError(QueryError):
    """A boost outside (0, 1000]."""


class TooManyClausesError(QueryError):
    """More than 1,024 clauses."""


class FilterError(QueryError):
    """A filter over metadata that cannot be read, or names a field that no passage has."""


class DataError(OrienteerError):
    """A row or file of passages or questions that cannot be read; the message names file and line."""


class FolderEmptiedError(DataError):
    """A synced folder that is gone or holds no document any more, perhaps because it is not mounted."""


class DuplicateIdError(DataError):
    """Two passages with one id."""

    def __init__(self, message: str, passage_id: str = ""):
        self.passage_id = passage_id
        super().__init__(message)


class UnknownPassageError(OrienteerError):
    """A passage id that the index does not hold."""


class IndexFilesError(OrienteerError):
    """Base of what can be wrong with an index on disk."""


class IndexMissingError(IndexFilesError):
    """No index at this path."""


class IndexVersionError(IndexFilesError):
    """An index written by another format version."""


class IndexCorruptError(IndexFilesError):
    """A truncated, resized or damaged index."""


class IndexLockedError(IndexFilesError):
    """Another process is writing this index."""


class FolderOccupiedError(IndexFilesError):
    """A folder for an index that holds other files."""


class WriteError(OrienteerError):
    """A file that cannot be written: a full disk, a missing folder, no permission."""


class ModelMissingError(OrienteerError):
    """No model of the expected kind in this folder."""


class ModelCorruptError(OrienteerError):
    """A model's file that is truncated, damaged or of another model."""


class TrainingError(OrienteerError):
    """Training data or a checkpoint that training cannot use."""


class MissingExtraError(OrienteerError):
    """An optional dependency that is not installed; the message gives the line that installs it."""

    def __init__(self, package: str, extra: str):
        super().__init__(
            f"this needs the package {package!r}, which is not installed; run: pip install 'orienteer[{extra}]'"
        )


def _pointer(text: str, place: int, width: int = 60) -> str:
    """The text around `place` on one line, with a caret under it."""
    start = max(0, place - width // 2)
    window = "".join(c if c.isprintable() else " " for c in text[start : start + width])
    return f"  {window}\n  {' ' * (place - start)}^"


class ServiceError(OrienteerError):
    """Base of what can be wrong with an OpenSearch or Elasticsearch service."""


class ServiceAddressError(ServiceError):
    """An address or a setting of the environment that cannot be used."""


class ServiceRefusedError(ServiceError):
    """The service does not accept the credentials, or its certificate is not to be trusted."""


class ServiceIndexError(ServiceError):
    """No such index, or one that Orienteer cannot search or load."""


class NoServiceIndexError(ServiceIndexError):
    """No index of that name."""


class ServiceUnavailableError(ServiceError):
    """The service did not give a whole answer, however often it was asked."""


class CircuitOpenError(ServiceUnavailableError):
    """The service failed many times in a row and is not asked for a while."""


class MirrorError(ServiceError):
    """A folder that is no mirror, or mirrors another index."""


class SearchBudgetError(ServiceError):
    """A session has sent as many searches to the service as it may."""


class ServiceAnswerError(ServiceError):
    """The service understood the question and says no."""
