"""The addresses that `assets/upload.js` sends files to."""

from __future__ import annotations

from fastapi import Request
from fastapi.responses import JSONResponse, Response

from editor.errors import EditorError
from editor.web.long_work import LongWork
from editor.web.uploads import Uploads


def add_upload_routes(server: object, uploads: Uploads, long_work: LongWork) -> None:
    """Adds ``PUT /_upload`` (one file) and ``POST /_upload`` (the upload is complete: where is its model?)."""

    async def receive(request: Request) -> Response:
        upload, name = request.query_params.get("upload", ""), request.query_params.get("name", "")
        try:
            await uploads.receive(upload, name, request.stream())
        except EditorError as error:
            return JSONResponse({"error": str(error)}, 400)
        return JSONResponse({"error": ""})

    async def finish(request: Request) -> Response:
        try:
            path = await long_work.run(uploads.finish, request.query_params.get("upload", ""))
        except EditorError as error:
            return JSONResponse({"path": "", "error": str(error)}, 400)
        return JSONResponse({"path": str(path), "error": ""})

    server.add_api_route("/_upload", receive, methods=["PUT"], include_in_schema=False)  # type: ignore[attr-defined]
    server.add_api_route("/_upload", finish, methods=["POST"], include_in_schema=False)  # type: ignore[attr-defined]
