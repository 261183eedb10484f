"""The dashboard keeps the rules of dashboard_lint.py, and each of those finds what it is for. Needs Python alone."""

import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from dashboard import Dashboard, fill_in, metrics_of
from dashboard_lint import check_expression, lint

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATH = ROOT / "deploy/grafana/stagecoach.json"
BOTH = 'job=~"$job", instance=~"$instance"'


class DashboardTest(unittest.TestCase):
    def setUp(self):
        self.dashboard = Dashboard(PATH)
        self.dashboard.model = copy.deepcopy(self.dashboard.model)

    def panel(self, title):
        return next(panel for panel in self.dashboard.panels if panel["title"] == title)

    def assert_found(self, part):
        problems = lint(self.dashboard)
        self.assertTrue(any(part in problem for problem in problems), f"{part!r} is not in {problems}")

    def test_keeps_the_rules(self):
        self.assertEqual(lint(self.dashboard), [])

    def test_fits_into_a_config_map(self):
        self.assertLess(PATH.stat().st_size, 1 << 20)

    def test_finds_an_editable_dashboard(self):
        self.dashboard.model["editable"] = True
        self.assert_found("editable")

    def test_finds_inputs(self):
        self.dashboard.model["__inputs"] = []
        self.assert_found("inputs")

    def test_finds_a_fixed_data_source(self):
        self.panel("Loss")["targets"][0]["datasource"] = {"type": "prometheus", "uid": "P1809F7CD0C75ACF3"}
        self.assert_found("does not use the data source variable")

    def test_finds_a_panel_without_description(self):
        self.panel("Loss")["description"] = ""
        self.assert_found("has no description")

    def test_finds_a_unit_that_grafana_does_not_know(self):
        self.panel("Loss")["fieldConfig"]["defaults"]["unit"] = "tokens"
        self.assert_found("has the unit 'tokens'")

    def test_finds_a_panel_without_targets(self):
        self.panel("Loss")["targets"] = []
        self.assert_found("has no targets")

    def test_finds_two_panels_of_one_id(self):
        self.panel("Loss")["id"] = self.panel("Bubble")["id"]
        self.assert_found("the same id")

    def test_finds_an_overlap(self):
        self.dashboard.model["panels"][2]["gridPos"] = self.dashboard.model["panels"][1]["gridPos"]
        self.assert_found("overlap")

    def test_finds_a_variable_that_is_not_refreshed(self):
        self.dashboard.variables[1]["refresh"] = 1
        self.assert_found("not read again")

    def test_finds_an_unused_variable(self):
        self.dashboard.model["templating"]["list"].append(dict(self.dashboard.variables[0], name="nobody"))
        self.dashboard.variables = self.dashboard.model["templating"]["list"]
        self.assert_found("variable nobody is not used")

    def test_expressions(self):
        good = f"sum(rate(stagecoach_steps_total{{{BOTH}}}[$__rate_interval]))"
        self.assertEqual(check_expression(good), [])
        self.assertTrue(check_expression(good.replace('job=~"$job", ', "")))
        self.assertTrue(check_expression(good.replace('instance=~"$instance"', "")))
        self.assertTrue(check_expression(good.replace("$__rate_interval", "5m")))
        self.assertTrue(check_expression(f"sum(stagecoach_steps_total{{{BOTH}}})"))
        self.assertTrue(check_expression("vector(1)"))

    def test_fills_in_variables(self):
        self.assertEqual(fill_in('a{run=~"$run", job=~"$job"}[$__rate_interval]', run="tiny"), 'a{run=~"tiny", job=~".+"}[5m]')

    def test_finds_the_metrics_of_an_expression(self):
        expression = 'stagecoach_a_total{x="stagecoach_b"} / stagecoach_c_seconds_bucket + up'
        self.assertEqual(metrics_of(expression), {"stagecoach_a_total", "stagecoach_c_seconds", "up"})


if __name__ == "__main__":
    unittest.main()
