"""What is shipped for Prometheus, by Prometheus' own checks: the configuration, the alerts and their cases, and the syntax of every
expression of the dashboard."""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from dashboard import Dashboard, fill_in

ROOT = HERE.parent.parent
SKIPPED = 77


class RulesTest(unittest.TestCase):
    def promtool(self, *arguments):
        result = subprocess.run(["promtool", *map(str, arguments)], text=True, capture_output=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return result.stdout

    def test_the_configuration_and_the_alerts_are_valid(self):
        self.promtool("check", "config", ROOT / "deploy/prometheus/prometheus.yml")

    def test_alerts_fire_when_they_must_and_only_then(self):
        self.promtool("test", "rules", HERE / "alerts_test.yml")

    def test_each_alert_has_a_case_that_fires_and_one_that_does_not(self):
        alerts = [line.split()[-1] for line in (ROOT / "deploy/prometheus/alerts.yml").read_text().splitlines() if "alert:" in line]
        cases = (HERE / "alerts_test.yml").read_text()
        runbook = (ROOT / "docs/operations.md").read_text()
        self.assertEqual(len(alerts), 5)
        for alert in alerts:
            with self.subTest(alert):
                self.assertIn(f"alertname: {alert}\n", cases)
                self.assertIn(f"alertname: {alert}, exp_alerts: []", cases)
                self.assertIn(f"### {alert}\n", runbook)

    def test_the_command_of_the_documentation_gives_each_runbook_an_address(self):
        command = re.search(r"^    (sed .*) > alerts.yml$", (ROOT / "docs/operations.md").read_text(), re.MULTILINE).group(1)
        rules = subprocess.run(shlex.split(command), cwd=ROOT, text=True, capture_output=True, check=True).stdout
        alerts = re.findall(r"- alert: (\w+)\n", rules)
        runbooks = re.findall(r"runbook_url: (.*)\n", rules)
        self.assertEqual(runbooks, [f"https://git.example.org/stagecoach/blob/main/docs/operations.md#{alert.lower()}" for alert in alerts])
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write(rules)
            file.flush()
            self.promtool("check", "rules", file.name)

    def test_expressions_of_the_dashboard_are_valid(self):
        rules = ["groups:", "  - name: dashboard", "    rules:"]
        for index, (_, expression) in enumerate(Dashboard(ROOT / "deploy/grafana/stagecoach.json").expressions()):
            rules += [f"      - record: r{index}", f"        expr: '{fill_in(expression)}'"]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            file.write("\n".join(rules) + "\n")
            file.flush()
            self.assertIn(f"{index + 1} rules found", self.promtool("check", "rules", file.name))


if __name__ == "__main__":
    if shutil.which("promtool") is None:
        print("SKIPPED: prometheus is not installed (deploy/packages.txt, [test])")
        sys.exit(SKIPPED)
    unittest.main()
