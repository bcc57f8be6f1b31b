"""Directories that are sent along with jobs, as archives named by the SHA-256 of their bytes."""

from __future__ import annotations

from fastapi import APIRouter, Request

from betimes.service.api import examples
from betimes.service.api.bodies import ARCHIVE, check_archive, read_pieces
from betimes.service.api.context import Here, Submitter
from betimes.service.api.document import PREFIX, Digest, failing
from betimes.service.views.models import UploadLimits, UploadView

router = APIRouter(prefix=PREFIX, tags=["jobs"])


@router.get(
    "/uploads",
    summary="How large a directory may be",
    operation_id="get_upload_limits",
    responses={
        200: examples.shown(examples.UPLOAD_LIMITS, "Of a directory that is sent along with a job."),
        **failing(401, 403),
    },
)
async def get_upload_limits(here: Here, _: Submitter) -> UploadLimits:
    """The limits of an archive: ask before one is made."""
    return here.backend.upload_limits


@router.get(
    "/uploads/{sha256}",
    summary="A directory that was sent",
    operation_id="get_upload",
    responses={
        200: examples.shown(examples.UPLOAD, "The service has it: a job may name it in `upload`."),
        **failing(401, 403, 404, 422, 503),
    },
)
async def get_upload(sha256: Digest, here: Here, _: Submitter) -> UploadView:
    """Whether the service has it; one that it has stays for a week after it was last asked for or named by a job."""
    return await here.backend.upload(sha256)


@router.put(
    "/uploads/{sha256}",
    summary="Send a directory",
    operation_id="put_upload",
    status_code=201,
    responses={
        201: examples.shown(examples.UPLOAD, "It is kept; a job may name it in `upload`."),
        **failing(401, 403, 413, 415, 422, 503),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {ARCHIVE: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def put_upload(sha256: Digest, request: Request, here: Here, _: Submitter) -> UploadView:
    """Take an archive of regular files, directories, and links that stay inside, in the form of zip."""
    check_archive(request)
    pieces = read_pieces(request, here.backend.most_upload_bytes, here.limits.pause_s)
    return await here.backend.receive_upload(sha256, pieces)
