"""The workbench: an HTTP API and a page on which people and agents search together (extra: serve)."""

from orienteer.errors import MissingExtraError

try:
    from orienteer.serve.app import make_app
    from orienteer.serve.security import Limits
except ModuleNotFoundError as error:
    if error.name in ("fastapi", "starlette", "pydantic", "prometheus_client"):
        raise MissingExtraError(error.name, "serve") from None
    raise

__all__ = ["Limits", "make_app"]
