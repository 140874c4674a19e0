"""The engine's error answers, in vLLM 0.32's own shapes.

Leaves: ``Refused``, which a handler raises, and the function that turns it and a pydantic error into a response.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from pydantic import ValidationError
    from starlette.requests import Request
    from starlette.responses import Response


class Refused(Exception):  # noqa: N818  (the answer is the thing, not an error of ours)
    """The engine answers with an error object."""

    def __init__(
        self, message: str, *, status: int = 400, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param

    def response(self) -> Response:
        """Give the answer."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.status}
        return JSONResponse({"error": error}, self.status)


def invalid(error: ValidationError) -> Refused:
    """Turn a failed validation into vLLM's answer: 400, never 422, and it echoes the input."""
    problems = error.errors(include_url=False, include_context=False)
    lines = [f"  {problem['type']}: {problem['msg']}, input: {problem['input']!r}" for problem in problems]
    noun = "error" if len(lines) == 1 else "errors"
    param = ".".join(("body", *map(str, problems[0]["loc"])))
    return Refused("\n".join([f"{len(lines)} validation {noun}:", *lines]), kind="Bad Request", param=param)


def unknown_model(name: str, aliases: tuple[str, ...]) -> Refused:
    """Say that the model does not exist, and which do."""
    message = f"The model `{name}` does not exist. Valid aliases: {', '.join(aliases)}."
    return Refused(message, status=404, kind="NotFoundError", param="model")


async def refused(_: Request, error: Exception) -> Response:
    """Answer for a handler that raised ``Refused``."""
    if not isinstance(error, Refused):
        raise error
    return error.response()


async def not_routed(_: Request, error: Exception) -> Response:
    """Answer 404 and 405 as FastAPI words them."""
    status = getattr(error, "status_code", 500)
    return JSONResponse({"detail": getattr(error, "detail", "")}, status, headers=getattr(error, "headers", None))
