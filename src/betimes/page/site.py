"""The pages' application: sign-in, views and their fragments, actions, streams, and error pages.

Every view is a plain URL with its whole state in the query string, and answers from one sample of the service's version
that all pages share for a second. With the header `X-Fragment` only what stands below the menu is sent, for the script.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from betimes.errors import BetimesError, Conflict, InputError, NotAllowed, Unknown
from betimes.page import views
from betimes.page.forms import act, ask_advice, fields, quote, set_policy, submit
from betimes.page.query import local_path, safe_target, whole
from betimes.page.render import render
from betimes.page.session import LINK_S, Codes, Session, Sessions, Stranger
from betimes.page.what_if import what_if
from betimes.service.access.auth import Caller
from betimes.service.access.rights import Action
from betimes.service.api.context import Context
from betimes.service.api.failures import Rejected, answer
from betimes.service.api.streams import RETRY_MS, EventStream, Stream, while_held
from betimes.service.runtime.page_reads import PageReads
from betimes.service.runtime.service_backend import ServiceBackend

_log = logging.getLogger("betimes.page")

SAMPLE_S = 1.0  # for which all pages share one version of the service
NOW_S = 10.0  # after which a page is drawn anew though nothing has happened, as the present moves on
LOOK_S = 0.25  # between looks at the version, for the streams
MOST_KEPT = 64  # drawn pages
STATIC = Path(__file__).parent / "static"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "private, no-cache",
    "Vary": "Cookie, X-Fragment",
}
View = Callable[[PageReads, Request, Session], Awaitable[dict[str, Any]]]
Form = Callable[[PageReads, Context, Session, dict[str, list[str]]], Awaitable[str]]


@dataclass
class _Drawn:
    """A page that is being drawn, or has been."""

    version: str
    body: asyncio.Future[bytes]

    @property
    def has_failed(self) -> bool:
        """Whether it could not be drawn; the next request tries again."""
        return self.body.done() and (self.body.cancelled() or self.body.exception() is not None)


class Site:
    """The pages of one service. sessions: the file in which they are kept; null: in memory."""

    def __init__(self, reads: PageReads, context: Context, sessions: Path | None = None) -> None:
        self.reads, self.context = reads, context
        self.links, self.sessions = Codes(LINK_S), Sessions(context.tokens, sessions)
        self._sampled, self._sampled_s = "", -SAMPLE_S
        self._drawn: dict[tuple[str, str, bool, Session], _Drawn] = {}
        self.app = Starlette(
            routes=[
                Route("/", self._first),
                Route("/queue", self._view("queue", views.queue)),
                Route("/time", self._view("time", views.timeline)),
                Route("/machines", self._view("machines", views.machines)),
                Route("/policy", self._view("policy", views.policy)),
                Route("/promises", self._view("promises", views.promises)),
                Route("/what-if", self._view("what-if", what_if, "submit")),
                Route("/submit", self._view("submit", views.submission, "submit")),
                Route("/job/{number:job}", self._view("job", self._job)),
                Route("/job/{number:job}/helps", self._view("helps", views.helps, "read")),
                Route("/job/{number:job}/log", self._log_of),
                Route("/events", self._events),
                Route("/act", self._form(act, "submit"), methods=["POST"]),
                Route("/submit", self._form(submit, "submit"), methods=["POST"]),
                Route("/quote", self._quote, methods=["POST"]),
                Route("/policy", self._form(set_policy, "operate"), methods=["POST"]),
                Route("/advice", self._form(ask_advice, "operate"), methods=["POST"]),
                Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
                Route("/sign-out", self._sign_out, methods=["POST"]),
                Route("/link", self._link, methods=["POST"]),
                Route("/enter", self._enter),
                Route("/static/{name}", _static),
            ],
            exception_handlers={
                Stranger: self._stranger,
                Rejected: self._failed,
                BetimesError: self._failed,
                HTTPException: self._failed,
                Exception: self._failed,
            },
        )

    # --- views

    def _view(
        self, template: str, view: View, action: Action = "see"
    ) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            session = self.sessions.of(request)
            await self._check(session, action, request)
            is_part = "x-fragment" in request.headers
            version = self._version()
            key = request.url.path, request.url.query, is_part, session
            etag = f'"{hashlib.sha256(repr((version, key)).encode()).hexdigest()[:24]}"'
            headers = {**HEADERS, "ETag": etag}
            if request.headers.get("if-none-match") == etag:
                return Response(status_code=304, headers=headers)
            drawn = self._drawn.pop(key, None)
            if drawn is None or drawn.version != version or drawn.has_failed:
                drawing = self._draw(template, view, request, session, is_part)
                drawn = _Drawn(version, asyncio.ensure_future(drawing))
            self._drawn[key] = drawn
            while len(self._drawn) > MOST_KEPT:
                del self._drawn[next(iter(self._drawn))]
            body = await asyncio.shield(drawn.body)
            self.reads.renew()  # for the next ones: this one does not wait for it
            return Response(body, media_type="text/html", headers=headers)

        return handle

    async def _first(self, request: Request) -> Response:
        """The first page; addresses of the queue from when it stood there lead to where it is."""
        if any(name in request.query_params for name in (*views.QUEUE_FIELDS, "after")):
            return RedirectResponse(f"{_base(request)}queue?{request.url.query}", 307, headers=HEADERS)
        return await self._view("now", views.now)(request)

    async def _job(self, reads: PageReads, request: Request, session: Session) -> dict[str, Any]:
        try:
            await self._check(session, "read", request)
        except NotAllowed:
            return await views.others_job(reads, int(request.path_params["number"]))
        return await views.job(reads, request, session)

    async def _check(self, session: Session, action: Action, request: Request) -> None:
        """Raise NotAllowed unless a page, of the job in its path if it names one, is for this session."""
        if action == "read":
            await self.context.permitted(session, action, [int(request.path_params["number"])])
        else:
            self.context.rights.check(session, action)

    def _reads_of(self, session: Session) -> PageReads:
        """The service as a session may see it."""
        return self.reads.of(self.context.seen_by(session))

    async def _draw(
        self, template: str, view: View, request: Request, session: Session, is_part: bool
    ) -> bytes:
        values = await view(self._reads_of(session), request, session)
        return await asyncio.to_thread(self._render, template, request, is_part, session=session, **values)

    def _render(
        self, template: str, request: Request, is_part: bool, *, session: Session | None, **values: Any
    ) -> bytes:
        scheduler = self.reads.backend.scheduler

        def may(action: Action, owner: str | None = None) -> bool:
            if scheduler.watches and action in ("steer", "operate"):
                return False  # Slurm decides
            return session is not None and self.context.rights.may(session, action, owner)

        return render(
            template,
            layout="part.html" if is_part else "whole.html",
            base=_base(request),
            here=template,
            now_at=self.reads.now_at,
            compiling=scheduler.ledger.policy if scheduler.stands_by else None,
            session=session,
            may=may,
            watches=scheduler.watches,
            **values,
        )

    def _version(self) -> str:
        """The version that all pages show now."""
        if time.monotonic() - self._sampled_s >= SAMPLE_S:
            self._sampled_s = time.monotonic()
            self._sampled = f"{self.reads.version()}-{self._sampled_s // NOW_S}"
        return self._sampled

    # --- streams

    async def _events(self, request: Request) -> Response:
        session = self.sessions.of(request)
        return EventStream(while_held(self.context, session, self._versions()))

    async def _versions(self) -> AsyncGenerator[bytes, None]:
        """The version as an event whenever it changes."""
        sent, sent_s = "", time.monotonic()
        yield f"retry: {RETRY_MS}\n\n".encode()
        while not self.context.closing.is_set():
            self.reads.renew()
            version = self._version()
            if version != sent or time.monotonic() - sent_s > self.context.limits.keep_alive_s:
                sent, sent_s = version, time.monotonic()
                yield f"data: {version}\n\n".encode()
            await asyncio.sleep(LOOK_S)

    async def _log_of(self, request: Request) -> Response:
        session = self.sessions.of(request)
        await self._check(session, "read", request)
        number = int(request.path_params["number"])
        run = whole(request.query_params.get("run"), "run", 1)
        lines = views.log_lines(request)
        reader = await self.reads.backend.open_log(number, run, 0, lines)

        async def output() -> AsyncGenerator[bytes, None]:
            try:
                while not self.context.closing.is_set():
                    goes_on = self.reads.is_running(number, run)
                    while piece := await reader.read():
                        yield piece
                    if not goes_on:
                        return
                    await asyncio.sleep(self.context.limits.follow_s)
            finally:
                reader.close()

        return Stream(
            while_held(self.context, session, output()),
            media_type="text/plain; charset=utf-8",
            headers=HEADERS,
        )

    # --- actions

    def _form(self, form: Form, action: Action) -> Callable[[Request], Awaitable[Response]]:
        async def handle(request: Request) -> Response:
            session = self.sessions.of(request)
            await self._check(session, action, request)
            given = await fields(request, self.context.limits)
            back = await form(self.reads, self.context, session, given)
            self._sampled_s = -SAMPLE_S  # whoever acts sees what came of it
            return RedirectResponse(_base(request) + back, 303, headers=HEADERS)

        return handle

    async def _quote(self, request: Request) -> Response:
        session = self.sessions.of(request)
        self.context.rights.check(session, "submit")
        given = await fields(request, self.context.limits)
        values = await quote(self._reads_of(session), session, given)
        body = await asyncio.to_thread(self._render, "quote", request, True, session=session, **values)
        return Response(body, media_type="text/html", headers=HEADERS)

    # --- signing in

    async def _sign_in(self, request: Request) -> Response:
        problem, back = None, ""
        if request.method == "POST":
            Session.check_origin(request)
            given = await fields(request, self.context.limits)
            back = given.get("back", [""])[0]
            token = given.get("token", [""])[0].strip()
            holder = self.context.tokens.caller(token)
            if holder is not None:
                return self._entered(request, holder, back)
            problem = (
                "This token is unknown to this service, has ended, or is of a user who is disabled. "
                "The operator's is in the file STATE/token."
            )
        return self._sign_in_page(request, problem, back)

    def _sign_in_page(self, request: Request, problem: str | None, back: str = "") -> Response:
        body = self._render("sign-in", request, False, session=None, problem=problem, back=back)
        return Response(body, 401 if problem or back else 200, HEADERS, media_type="text/html")

    def _entered(self, request: Request, holder: Caller, back: str = "") -> Response:
        """Signed in. A page that goes on by itself, not a redirection: a browser that was sent here by another site
        sends a strict cookie only with what this page asks for.
        """
        target = safe_target(back)
        body = self._render("entered", request, False, session=None, target=_base(request) + target)
        response = Response(body, 200, HEADERS, media_type="text/html")
        self.sessions.begin(request, response, holder)
        return response

    async def _sign_out(self, request: Request) -> Response:
        Session.check_origin(request)
        response = RedirectResponse(_base(request) + "sign-in", 303, headers=HEADERS)
        self.sessions.end(request, response)
        return response

    async def _link(self, request: Request) -> Response:
        """For `betimes open`: a link that signs in once."""
        try:
            holder = Session.bearer(request, self.context.tokens)
        except Rejected as error:
            return answer(error.status, error.failure, error.headers)
        return JSONResponse({"path": f"/enter?code={self.links.make(holder)}"}, 201, HEADERS)

    async def _enter(self, request: Request) -> Response:
        holder = self.links.take(request.query_params.get("code", ""), self.context.tokens)
        if holder is None:
            problem = "This link has expired or was used already. `betimes open` makes another."
            return self._sign_in_page(request, problem)
        return self._entered(request, holder)

    # --- errors

    async def _stranger(self, request: Request, error: Exception) -> Response:
        if request.method == "GET" and "x-fragment" not in request.headers and request.url.path != "/events":
            return self._sign_in_page(request, None, local_path(request))
        return Response("You are signed out. Sign in again.", 401, HEADERS, media_type="text/plain")

    async def _failed(self, request: Request, error: Exception) -> Response:
        """A clear page, never a traceback."""
        match error:
            case Rejected():
                status, text = error.status, str(error)
            case Unknown():
                status, text = 404, str(error)
            case Conflict():
                status, text = 409, str(error)
            case NotAllowed():
                status, text = 403, str(error)
            case InputError():
                status, text = 422, str(error)
            case BetimesError():
                status, text = 503, str(error)
            case HTTPException():
                is_missing = error.status_code == 404
                status, text = (
                    error.status_code,
                    "There is no such page here." if is_missing else error.detail,
                )
            case _:
                _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
                status, text = 500, f"The service failed ({type(error).__name__}); its log shows how."
        is_part = "x-fragment" in request.headers
        body = self._render("error", request, is_part, session=None, status=status, text=text)
        return Response(body, status, HEADERS, media_type="text/html")


async def _static(request: Request) -> Response:
    kinds = {"page.css": "text/css", "page.js": "text/javascript", "icon.svg": "image/svg+xml"}
    name = str(request.path_params["name"])
    if name not in kinds:
        raise HTTPException(404)
    return Response((STATIC / name).read_bytes(), media_type=kinds[name], headers=HEADERS)


def _base(request: Request) -> str:
    """The way from a page to the first one, so that links lead there behind any prefix of a proxy."""
    return "../" * (request.scope["path"].count("/") - 1) or "./"


def create_page(backend: ServiceBackend, context: Context, sessions: Path | None = None) -> ASGIApp:
    """The pages of a service, as an application. sessions: the file in which they outlast a restart."""
    return Site(PageReads(backend), context, sessions).app
