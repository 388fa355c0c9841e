"""A table of a game with its pages, without and with a browser; not a test."""

import asyncio
import json
import threading
from contextlib import contextmanager

import uvicorn

from sparring.envs.imported.browser.table import HostedTable
from sparring.eval.browser.server import Gate, answer, listen, make_app


def talk(table, *wanted):
    """Return a page's answers to these messages; each may be a function of the last game received."""
    told = []

    async def main():
        async def send(message):
            told.append(message)

        session = HostedTable(table).connect(send)
        loop = asyncio.create_task(session.run())
        for message in (*wanted, None):
            await asyncio.sleep(0.01)
            while table.thinking:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            if message is not None:
                message = message(last_game(told)) if callable(message) else message
                await answer(session, message if isinstance(message, str) else json.dumps(message), send)
        loop.cancel()
        session.close()

    asyncio.run(main())
    return told


def last_game(told):
    return next(one for one in reversed(told) if one["kind"] == "game")


def act(name):
    """Take the action with that name."""
    return lambda game: {
        "kind": "act",
        "action": next(a for a, n in game["legal"] if n == name),
        "count": game["count"],
    }


@contextmanager
def hosted(table):
    """Serve a table from a thread, and yield the address."""
    with listen(0) as listening:
        gate = Gate(listening.getsockname()[1])
        config = uvicorn.Config(make_app(HostedTable(table), gate), log_level="warning", ws="websockets-sansio")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield gate.address
        finally:
            server.should_exit = True
            thread.join()
