"""A small W&B server on loopback: GraphQL answers for `wandb.Api` 0.31, and faults on demand."""

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread, Timer

SERVICE_SECONDS = 20
"""How long the service of the package may take to end. It repeats requests that fail, at times for minutes."""


def stop_service(seconds=SERVICE_SECONDS):
    """Wait until the package's service has written everything and exited; return whether it was killed."""
    import wandb
    from wandb.sdk import wandb_setup

    connection = wandb_setup._singleton and wandb_setup._singleton._connection
    service = connection and connection._proc and connection._proc._process
    timer = Timer(seconds, service.kill if service else print)
    timer.start()
    try:
        wandb.teardown()
    except SystemExit:  # the code of a service that was killed
        return True
    finally:
        timer.cancel()
    return False


def run_of(name, number, *, state="finished", rows=3, tags=("ppo",), config=None):
    """Return a run as the server describes it."""
    return {
        "id": f"internal-{number}",
        "name": f"id{number}",
        "displayName": name,
        "state": state,
        "config": json.dumps({key: {"value": value} for key, value in (config or {"seed": number}).items()}),
        "summaryMetrics": json.dumps({"train/loss": 0.5, "_step": rows - 1}),
        "systemMetrics": "{}",
        "historyLineCount": rows,
        "createdAt": "2026-01-01T00:00:00Z",
        "heartbeatAt": f"2026-01-01T01:00:{number:02d}Z",
        "tags": list(tags),
        "description": "",
        "notes": "",
        "historyKeys": {"lastStep": rows - 1, "keys": {}},
        "readOnly": False,
        "user": {"name": "u", "username": "ent"},
        "projectId": "7",
        "sweepName": None,
        "group": None,
        "jobType": None,
        "commit": "abc",
    }


def logged_row(step):
    """Return a history row as text."""
    row = {"_step": step, "_timestamp": 1e9 + step, "env_steps": step * 10 + 10, "train/loss": step / 8}
    return json.dumps(row | ({"info": "hello"} if step == 1 else {}))


class WandBServer(ThreadingHTTPServer):
    """Serve `runs`; `fault` is a status, "half" for truncated JSON, or None. `asked` counts requests by kind."""

    daemon_threads = True

    def __init__(self, runs, page=2):
        super().__init__(("127.0.0.1", 0), Handler)
        self.runs_, self.page, self.fault, self.asked = runs, page, None, []
        Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        """Print nothing: a killed service aborts its requests."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}"

    def answer(self, query, variables):
        run = next((one for one in self.runs_ if one["name"] == variables.get("name", variables.get("run"))), None)
        project = {"id": "p", "internalId": "7", "name": "proj", "readOnly": False}
        if "runs(" in query:
            start = int(variables.get("cursor") or 0)
            shown = self.runs_[start : start + self.page]
            info = {"endCursor": str(start + self.page), "hasNextPage": start + self.page < len(self.runs_)}
            edges = [{"node": one, "cursor": str(start + self.page)} for one in shown]
            project |= {"runCount": len(self.runs_), "runs": {"edges": edges, "pageInfo": info}}
        elif "parquetHistory" in query:
            project["run"] = {"parquetHistory": {"parquetUrls": [], "liveData": [{"_step": 0}]}}
        elif "history(" in query:
            steps = range(variables["minStep"], min(variables["maxStep"], run["historyLineCount"]))
            project["run"] = {"history": [logged_row(step) for step in steps]}
        elif "files(" in query:
            project["run"] = {
                "fileCount": 0,
                "files": {"edges": [], "pageInfo": {"hasNextPage": False, "endCursor": ""}},
            }
        elif "outputArtifacts" in query:
            page = {"endCursor": None, "hasNextPage": False, "__typename": "PageInfo"}
            project["run"] = {"artifacts": {"totalCount": 0, "pageInfo": page, "edges": []}}
        elif run is not None:
            project["run"] = run
        viewer = {"id": "v", "entity": "ent", "username": "ent", "email": "", "flags": "{}", "teams": {"edges": []}}
        return {"viewer": viewer, "project": project, "serverInfo": {"features": []}}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        query = body["query"]
        self.server.asked.append("history" if "history(" in query else "runs" if "runs(" in query else "other")
        fault = self.server.fault
        if isinstance(fault, int):
            return self._send(fault, b'{"errors": [{"message": "fault"}]}')
        text = json.dumps({"data": self.server.answer(query, body.get("variables") or {})}).encode()
        return self._send(200, text[: len(text) // 2] if fault == "half" else text)

    def _send(self, status, content):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        """Print nothing."""
