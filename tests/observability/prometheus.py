"""Prometheus itself, as a child process that scrapes every second, and what a test asks of it."""

import json
import os
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request


def scrape(target):
    with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as answer:
        return answer.read().decode()


def listening_port(pid):
    """The one TCP port that the process listens at; None: it does not yet."""
    try:
        inodes = {os.readlink(path) for path in pathlib.Path(f"/proc/{pid}/fd").iterdir()}
    except OSError:
        return None
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in inodes:
                return int(fields[1].rsplit(":", 1)[1], 16)
    return None


class Prometheus:
    """Below `directory`, with the scrape jobs of the configuration that is shipped, pointed at `targets` (job -> addresses), and
    its alerts."""

    def __init__(self, directory, shipped, targets):
        configuration = directory / "prometheus.yml"
        configuration.write_text(point_at(shipped, targets))
        self.log = directory / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={configuration}", f"--storage.tsdb.path={directory}/prometheus",
                 "--web.listen-address=127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.port = None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self.process.kill()
        self.process.wait()

    def wait_until_it_serves(self, timeout=30):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline and self.process.poll() is None:
            self.port = self.port or listening_port(self.process.pid)
            try:
                if self.port and self.get("/-/ready") is not None:
                    return
            except (urllib.error.URLError, ConnectionError):
                pass
            time.sleep(0.05)
        raise AssertionError(f"Prometheus does not serve:\n{self.log.read_text()[-2000:]}")

    def get(self, path, **parameters):
        query = "?" + urllib.parse.urlencode(parameters) if parameters else ""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}{query}", timeout=10) as answer:
            return answer.read().decode()

    def query(self, expression):
        """The result vector. An expression that is not valid raises."""
        return self.result_of("/api/v1/query", query=expression)

    def query_range(self, expression, start, end, step):
        """The result matrix from `start` to `end` (seconds since the epoch), a value each `step` seconds."""
        return self.result_of("/api/v1/query_range", query=expression, start=start, end=end, step=step)

    def result_of(self, path, **parameters):
        try:
            return json.loads(self.get(path, **parameters))["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters['query']}\n{error.read().decode()}") from None

    def series(self, selector):
        return json.loads(self.get("/api/v1/series", **{"match[]": selector}))["data"]

    def rules(self):
        groups = json.loads(self.get("/api/v1/rules"))["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]


def point_at(shipped, targets):
    """The shipped configuration with other targets and a short interval: all else is what is tested."""
    text = shipped.read_text()
    text = re.sub(r"(scrape|evaluation)_interval: \w+", r"\1_interval: 1s", text)
    text = text.replace("- alerts.yml", f"- {shipped.parent}/alerts.yml")
    for job, addresses in targets.items():
        text, count = re.subn(rf"(job_name: {job}\n.*\n.*targets: )\[.*\]", rf"\g<1>{json.dumps(addresses)}", text)
        assert count == 1, f"{shipped} has no job {job}"
    return text
