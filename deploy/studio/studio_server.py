"""The studio as a server of this machine's own user: who is let in, what an answer bears, and which page is shown."""

from __future__ import annotations

import hmac
import io
import re
import secrets
import tomllib
import zipfile
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl, urlencode

from anyio import to_thread
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ...accounting import dashboard
from ...accounting.listening import listening, serve_on, url_of
from ...accounting.page_gate import LONGEST_HEADERS, SECURITY_HEADERS, Message, PageGate, Refused
from ...accounting.templating import environment
from ...flows.paths import StatePaths
from ...mechanisms.kernel.errors import InputRefused, Refusal
from .draft import Draft, StudioFolder
from .form_answers import TAKE, Form, NotStored, Outdated, Studio, take_column
from .outcome_pages import PAGES, known_problems, result_page
from .page_contexts import STEPS, Frame
from .planned_tables import plan_tables
from .public_previews import PublicPreviews
from .studio_pages import Fields, column_page
from .studio_runs import Runs

FOLDER = Path(__file__).parent
HOST = "127.0.0.1"
COOKIE = "crowdblend-studio"
ENTRY = "/enter"
SHEET = "/result/sheet"
REPORT = "/result/report"
PREVIEW = "/price/preview"
MOST_BYTES = 2_000_000
MOST_FIELDS = 5_000
MOST_AT_ONCE = 50
BLANK = re.compile(r"\{(\w+)\}")
PLACE = re.compile(r"/[^:]*: ")
LANGUAGES = {"en": "English", "de": "Deutsch"}
# Sheet and report are documents with styles of their own; whatever they say, they run nothing and ask for nothing.
SHEET_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'"


NO_SESSION = "Open the address that crowdblend studio printed when it started. It is good once."
PACKED = {"content-disposition": 'attachment; filename="draft.zip"'}
HEADERS = SECURITY_HEADERS | {
    "content-security-policy": "default-src 'none'; style-src 'self'; img-src 'self'; script-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    # With no-referrer a browser would send its own forms with the origin "null".
    "referrer-policy": "same-origin",
    "vary": "Cookie",
}


class StudioGate(PageGate):
    """Lets in who has the session's cookie, which the one-time token gives, and forms of the studio's own pages alone.

    PRIVACY: the address listens to this machine alone, but its other users and their programs reach it too, and so does
    every page that a browser here has open. So no page is shown without the cookie, and no form of elsewhere is taken.
    """

    METHODS = ("GET", "POST")
    WRONG_METHOD = "These pages are read, and their forms are sent."

    def __init__(self, inner: Callable[..., Any], *, token: str) -> None:
        super().__init__(inner)
        self._token: str | None = token
        self.session = secrets.token_urlsafe(32)

    def headers_of(self, path: str) -> Mapping[str, str]:
        """Return the headers of a page; the sheet is a document with styles of its own, and an entry tells no token."""
        own = {"content-security-policy": SHEET_POLICY}
        of_path = {SHEET: own, REPORT: own, PREVIEW: own, ENTRY: {"referrer-policy": "no-referrer"}}
        return HEADERS | of_path.get(path, {})

    def knows_host(self, host: str | None) -> bool:
        """Return whether a Host header is this address."""
        name, _, port = (host or "").partition(":")
        return name in (HOST, "localhost") and (not port or port.isdecimal())

    def note_fault(self, *, kind: str, place: str) -> None:
        """Say where a fault was on the terminal."""
        print(f"crowdblend studio: {kind} in {place}", flush=True)

    def note_answer(self, **_: object) -> None:
        """Take no note: who did what is no one's affair."""

    def spend_token(self, given: str) -> bool:
        """Return whether this is the token, which from then on is none any more."""
        right = self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())
        if right:
            self._token = None
        return right

    async def refusal_of_person(
        self, scope: Message, headers: Mapping[str, str], values: Mapping[str, int]
    ) -> Refused | None:
        """Return why a request isn't taken."""
        if scope["path"] == ENTRY and scope["method"] == "GET":
            return None
        foreign = headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none")
        posted = scope["method"] == "POST"
        # A browser names the origin of every form that it sends, and no page can change that.
        elsewhere = values.get("origin") != 1 or headers["origin"] != f"http://{headers['host']}"
        length = headers.get("content-length", "") if values.get("content-length") == 1 else ""
        large = length.isdecimal() and int(length) > MOST_BYTES
        refused: tuple[tuple[bool, Refused], ...] = (
            (not self._has_session(headers, values), (401, NO_SESSION, {})),
            (foreign, (403, "Another page asked for this one.", {})),
            (posted and elsewhere, (403, "Only the studio's own forms are taken.", {})),
            (posted and not length.isdecimal(), (411, "A form says how long it is.", {})),
            (posted and large, (413, "The form is too large.", {"connection": "close"})),
        )
        return next((why for wrong, why in refused if wrong), None)

    def _has_session(self, headers: Mapping[str, str], values: Mapping[str, int]) -> bool:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            return False
        given = cookies[COOKIE].value if COOKIE in cookies and values.get("cookie") == 1 else ""
        return hmac.compare_digest(given.encode(), self.session.encode())


class StudioApplication:
    """The pages and their forms.

    Args:
        studio: what they work on.
    """

    def __init__(self, studio: Studio) -> None:
        self.studio = studio
        self.texts = read_texts()
        refusals = read_refusals()
        self.said = {name: Said(self.texts[name]["told"], refusals[name]) for name in LANGUAGES}
        self._templates = environment(
            FOLDER / "templates",
            percent=lambda share: f"{100 * share:.0f} %",
            short=lambda figure: f"{figure:,.0f}" if figure >= 10 else f"{figure:.2g}",
        )
        self.gate: StudioGate | None = None

    def routes(self) -> list[Route | Mount]:
        """Return where each page is."""
        static = StaticFiles(directory=FOLDER / "static")
        style = StaticFiles(directory=Path(str(dashboard.__file__)).parent / "static")
        return [
            Route("/", lambda _: RedirectResponse("/dataset", status_code=303)),
            Route(ENTRY, self.enter),
            Route("/run/state", self.progress),
            Route(SHEET, self.sheet),
            Route(REPORT, self.report),
            Route(PREVIEW, self.preview),
            Route("/approval/files", self.files),
            Route("/columns/{number:int}", self.column, methods=["GET", "POST"]),
            *(Route(f"/{step}", self.page, methods=["GET", "POST"]) for step in STEPS),
            Mount("/static", static),
            Mount("/style", style),
        ]

    async def enter(self, request: Request) -> Response:
        """Take the one-time token, and give the session's cookie for it."""
        gate = cast("StudioGate", self.gate)
        if not gate.spend_token(request.query_params.get("token", "")):
            text = self._texts("en")["frame"]["wrong_token"]
            return HTMLResponse(self._templates.get_template("entered.html").render(text=text, right=False), 403)
        # Not a redirect: whatever opened the address is another site, and what it leads to would have no strict cookie.
        text = self._texts(self._language(request))["frame"]["entered"]
        answer = HTMLResponse(self._templates.get_template("entered.html").render(text=text, right=True))
        answer.set_cookie(COOKIE, gate.session, httponly=True, samesite="strict", path="/")
        return answer

    async def page(self, request: Request) -> Response:
        """Show a page, or take its form."""
        step = request.url.path.strip("/")
        return await self._answer(request, step, PAGES[step], TAKE.get(step), path=step)

    async def column(self, request: Request) -> Response:
        """Show the page of one column, or take its form."""
        number = request.path_params["number"]

        def show(studio: Studio, draft: Draft, fields: Fields) -> object:
            return column_page(studio, draft, fields, number=number)

        def take(studio: Studio, form: Form) -> str:
            return take_column(studio, form, number=number)

        return await self._answer(request, "columns", show, take, path=f"columns/{number}", template="column")

    async def _answer(
        self,
        request: Request,
        step: str,
        show: Callable[[Studio, Draft, Fields], object],
        take: Callable[[Studio, Form], str] | None,
        *,
        path: str,
        template: str = "",
    ) -> Response:
        form = None if request.method == "GET" else await _form(request)
        if form is not None and take is None:
            raise HTTPException(405)
        language = request.query_params.get("lang")
        if form is None and language in LANGUAGES:
            await to_thread.run_sync(self._choose_language, language)
            return RedirectResponse(f"/{path}", status_code=303)
        return await to_thread.run_sync(self._answered, request, step, show, take, path, template or step, form)

    def _answered(
        self,
        request: Request,
        step: str,
        show: Callable[[Studio, Draft, Fields], object],
        take: Callable[[Studio, Form], str] | None,
        path: str,
        template: str,
        form: Form | None,
    ) -> Response:
        refused: NotStored | None = None
        if form is not None and take is not None:
            try:
                return RedirectResponse(take(self.studio, form), status_code=303)
            except NotStored as why:
                refused = why
            except IndexError:
                raise HTTPException(404) from None
            except Refusal as refusal:
                refused = NotStored("", f"{refusal.what} {refusal.remedy}".strip())
        try:
            draft = self.studio.folder.draft()
            plan_tables(self.studio.folder, draft)
            language = self._language(request, draft)
            texts = self._texts(language)
            typed = None if isinstance(refused, Outdated) else form
            fields = Fields(path, typed=typed, refused=refused, said=self.said[language])
            fields.add_problems(known_problems(self.studio, draft))
            page = show(self.studio, draft, fields)
        except IndexError:
            raise HTTPException(404) from None
        except Refusal as refusal:
            if path == "dataset":
                raise
            return self._fault(request, 409, f"{refusal.what} {refusal.remedy}".strip())
        whole = () if refused is None or refused.field else (self.said[language](refused.text),)
        general = fields.others + whole
        frame = Frame(step=step, language=language, languages=LANGUAGES, text=texts, problems=general)
        text = self._templates.get_template(f"{template}.html").render(
            frame=frame, text=texts[step], page=page, said=self.said[language], path=f"/{path}", steps=STEPS
        )
        return HTMLResponse(text, status_code=200 if refused is None else 422)

    async def progress(self, request: Request) -> Response:
        """Return how far the run is, for the page's own script."""
        state = await to_thread.run_sync(self._progress)
        del request
        return JSONResponse(state)

    def _progress(self) -> dict[str, Any]:
        current = self.studio.folder.draft().notes.get("run")
        run = self.studio.runs.state(current) if current else None
        return {} if run is None else {"running": run.running, "stage": run.stage, "ended": list(run.ended)}

    async def sheet(self, request: Request) -> Response:
        """Show the researchers' sheet of what was published."""
        draft = self.studio.folder.draft()
        fields = Fields("result", typed=None, refused=None, said=str)
        page = await to_thread.run_sync(result_page, self.studio, draft, fields)
        if not page.sheet:
            return self._fault(request, 404, self._texts(self._language(request, draft))["result"]["no_sheet"])
        return FileResponse(page.sheet, media_type="text/html")

    async def report(self, request: Request) -> Response:
        """Show the private report of what was published, where its look is recorded and it is written."""
        draft = self.studio.folder.draft()
        current = str(draft.notes.get("run", ""))
        if not current or not self.studio.runs.report(current).written:
            return self._fault(request, 404, self._texts(self._language(request, draft))["result"]["no_report"])
        return FileResponse(self.studio.runs.report_file(current), media_type="text/html")

    async def preview(self, request: Request) -> Response:
        """Show the whole preview on public records, once it is there."""
        draft = self.studio.folder.draft()
        found = await to_thread.run_sync(self.studio.previews.of, draft)
        if found is None or found.page is None:
            return self._fault(request, 404, self._texts(self._language(request, draft))["price"]["no_preview"])
        return FileResponse(found.page, media_type="text/html")

    async def files(self, request: Request) -> Response:
        """Give what whoever approves needs: the draft and its hierarchies; no record is among them."""
        del request
        return Response(await to_thread.run_sync(self._packed), media_type="application/zip", headers=PACKED)

    def _packed(self) -> bytes:
        packed, folder = io.BytesIO(), self.studio.folder
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
            for path in (folder.draft_path, *sorted((folder.folder / "hierarchies").glob("*.csv"))):
                if path.is_file():
                    file.write(path, path.relative_to(folder.folder))
        return packed.getvalue()

    async def fault(self, request: Request, error: Exception) -> Response:
        """Say why there is no page."""
        if isinstance(error, Refusal):
            return self._fault(request, 409, f"{error.message}")
        status = error.status_code if isinstance(error, HTTPException) else 500
        return self._fault(request, status, "")

    def _fault(self, request: Request, status: int, why: str) -> Response:
        text = self._texts(self._language(request))["frame"]
        page = self._templates.get_template("no_page.html").render(text=text, why=why or text["no_page"])
        return HTMLResponse(page, status_code=status)

    def _texts(self, language: str) -> Mapping[str, Any]:
        return self.texts[language]

    def _language(self, request: Request, draft: Draft | None = None) -> str:
        chosen = None if draft is None else draft.notes.get("language")
        wanted = [part.strip()[:2].lower() for part in request.headers.get("accept-language", "").split(",")]
        return next((one for one in (chosen, *wanted) if one in LANGUAGES), "en")

    def _choose_language(self, language: str) -> None:
        with self.studio.folder.changing() as draft:
            draft.notes["language"] = language


async def _form(request: Request) -> Form:
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413)
    try:
        pairs = parse_qsl(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        raise HTTPException(400) from None
    return dict(pairs)


def read_texts() -> dict[str, dict[str, Any]]:
    """Return the texts of each language: of each page, by their keys."""
    read = tomllib.loads((FOLDER / "texts.toml").read_text(encoding="utf-8"))
    return {
        language: {page: {key: by[language] for key, by in texts.items()} for page, texts in read.items()}
        for language in LANGUAGES
    }


class Said:
    """Says in one language what is told of a draft: the studio's own texts, and the command line's refusals.

    Sentences of a refusal that the file of refusals doesn't have stay as the command line says them.

    Args:
        told: the studio's own texts by their keys.
        sentences: of the command line, with blanks, each with its form in the language.
    """

    def __init__(self, told: Mapping[str, str], sentences: Mapping[str, str]) -> None:
        self._told = told
        # Those with most words first: a sentence that is all blanks but for a few words would take another's place.
        longest = sorted(sentences, key=lambda sentence: -len(BLANK.sub("", sentence)))
        self.sentences = tuple((pattern_of(sentence), sentences[sentence]) for sentence in longest)

    def __call__(self, text: str) -> str:
        """Return a text in the language."""
        if text in self._told or not self.sentences:
            return self._told.get(text, text)
        place = PLACE.match(text)
        said = [place[0].strip()] if place else []
        rest = text[place.end() :] if place else text
        while rest:
            known = ((pattern.match(rest), other) for pattern, other in self.sentences)
            found, other = next(((match, other) for match, other in known if match), (None, ""))
            if found is not None:
                said.append(other.format(**found.groupdict()))
                rest = rest[found.end() :].lstrip()
            else:
                sentence, stop, rest = rest.partition(". ")
                said.append(sentence + stop.strip())
        return " ".join(said)


def pattern_of(sentence: str) -> re.Pattern[str]:
    """Return what matches a sentence with something in each of its blanks."""
    parts = BLANK.split(sentence)  # texts and names of blanks by turns
    # A blank ends where its sentence does, so that none takes the next one's place.
    said = (rf"(?P<{part}>(?:(?!\.\s).)+?)" if number % 2 else re.escape(part) for number, part in enumerate(parts))
    return re.compile("".join(said) + r"(?=\s|$)")


def read_refusals() -> dict[str, dict[str, str]]:
    """Return the sentences of refusals of each language, by the command line's."""
    read = tomllib.loads((FOLDER / "refusals.toml").read_text(encoding="utf-8"))["said"]
    return {language: {one["en"]: one[language] for one in read if language != "en"} for language in LANGUAGES}


def studio_gate(folder: StudioFolder, state_paths: StatePaths, *, token: str) -> StudioGate:
    """Return the whole studio."""
    studio = Studio(
        folder=folder,
        state_paths=state_paths,
        runs=Runs(folder.folder, state_paths),
        previews=PublicPreviews(folder, state_paths),
    )
    made = StudioApplication(studio)
    application = Starlette(routes=made.routes(), exception_handlers={HTTPException: made.fault, Refusal: made.fault})
    made.gate = StudioGate(application, token=token)
    return made.gate


def serve_studio(
    folder: Path, state_paths: StatePaths, *, port: int, ready: Callable[[str, StudioFolder], None]
) -> None:
    """Serve until a signal ends it.

    Args:
        folder: the studio's.
        state_paths: where the ledger and the private store lie.
        port: 0 for any that is free.
        ready: takes the address with the one-time token, once it can be asked.

    Raises:
        InputRefused: the folder or the port can't be had.
    """
    held = StudioFolder(folder)
    held.draft()
    token = secrets.token_urlsafe(24)
    gate = studio_gate(held, state_paths, token=token)
    try:
        with listening(HOST, port) as listener:
            ready(f"{url_of(HOST, listener)}enter?{urlencode({'token': token})}", held)
            serve_on(
                listener,
                gate,
                lifespan="off",
                h11_max_incomplete_event_size=LONGEST_HEADERS,
                limit_concurrency=MOST_AT_ONCE,
            )
    except InputRefused as refusal:
        raise InputRefused(refusal.what, where=refusal.where, not_done="", remedy="Choose another --port.") from None
