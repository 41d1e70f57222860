"""What customers may ask about their data: a copy of all of it, and its deletion. Staff sees that it was deleted."""

from __future__ import annotations

import asyncio
import json
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import asdict
from typing import IO, Any, Final

from fastapi import APIRouter, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from everyword import ErasureReport, Everyword

from .mail import OUTBOX, forget
from .people import Person, end_sessions, person_of, sign_out

__all__ = ["DELETING", "accounts"]

PIECE: Final = 64 * 1024

DELETING: Final[set[str]] = set()
"""People whose data is being deleted. They cannot sign in: what they wrote meanwhile would stay."""


class Confirmation(BaseModel):
    """What a person types to delete its data."""

    name: str


def accounts(agents: Everyword) -> APIRouter:
    """Return the routes. They only ever use the id of the person that is signed in."""
    router = APIRouter()

    @router.get("/account/data")
    async def download(request: Request) -> StreamingResponse:
        """Give customers all that is stored about them, as a zip file."""
        person = _signed_in(request, "customer")
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed when it is sent
        try:
            await agents.principals.export(person.id, file)
            await asyncio.to_thread(_add_mails, file, person)
        except BaseException:
            file.close()
            raise
        headers = {"content-disposition": f'attachment; filename="{person.id}.zip"', "cache-control": "no-store"}
        return StreamingResponse(_pieces(file), media_type="application/zip", headers=headers)

    @router.post("/account/delete")
    async def delete(given: Confirmation, request: Request, response: Response) -> dict[str, Any]:
        """Delete the data of a customer and sign it out everywhere. Orders stay: a shop has to keep them."""
        person = _signed_in(request, "customer")
        if given.name.strip() != person.name:
            raise HTTPException(400, f"Type {person.name} to delete your data.")
        DELETING.add(person.id)
        try:
            end_sessions(person)  # first: an open page must not store anything again
            report = await agents.principals.erase(person.id)
            mails = forget(person.id)
        finally:
            DELETING.discard(person.id)
        sign_out(response)
        return {**_report_json(report), "mails": mails}

    @router.get("/erasures")
    async def erasures(request: Request) -> dict[str, Any]:
        """Show to staff that data was deleted, newest first. Nothing in it says whose it was."""
        _signed_in(request, "staff")
        found = sorted(await agents.principals.erasures(), key=lambda each: each.started_at, reverse=True)
        return {"erasures": [_report_json(each) for each in found]}

    return router


def _signed_in(request: Request, role: str) -> Person:
    person = person_of(request)
    if person is None:
        raise HTTPException(401, "Sign in first.")
    if person.role != role:
        raise HTTPException(403, f"Only for {'customers' if role == 'customer' else 'staff'}.")
    return person


def _report_json(report: ErasureReport) -> dict[str, Any]:
    return {
        "id": report.id,
        "at": report.started_at.timestamp(),
        "isComplete": report.is_complete,
        "conversations": sum(each.is_deleted for each in report.agents),
    }


def _add_mails(file: IO[bytes], person: Person) -> None:
    """Add what the desk itself knows about a person: the account, and the mails."""
    mails = [asdict(mail) for mail in OUTBOX.values() if mail.to == person.id]
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("account.json", json.dumps(asdict(person)))
        archive.writestr("mails.jsonl", "".join(f"{json.dumps(mail)}\n" for mail in mails))
    file.seek(0)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(PIECE):
            yield piece
