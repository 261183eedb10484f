"""A Grafana dashboard as data: its panels, targets and variables, and its expressions with the variables filled in."""

import json
import re


class Dashboard:
    def __init__(self, path):
        self.model = json.loads(path.read_text())
        self.variables = self.model["templating"]["list"]
        self.panels = []
        for panel in self.model["panels"]:
            self.panels += [panel, *panel.get("panels", [])]

    def expressions(self):
        """(panel's title, expression) of every target."""
        return [(panel["title"], target["expr"]) for panel in self.panels for target in panel.get("targets", [])]

    def queries(self):
        """(variable's name, the metric selector that it asks for the values of a label)."""
        found = []
        for variable in self.variables:
            if variable["type"] == "query":
                found.append((variable["name"], re.fullmatch(r"label_values\((.*), \w+\)", variable["query"]["query"]).group(1)))
        return found


def fill_in(expression, **values):
    """With the values that are given; every other variable means all, and an interval is five minutes."""
    values = {"__rate_interval": "5m"} | values
    return re.sub(r"\$(\w+)", lambda match: values.get(match.group(1), ".+"), expression)


def metrics_of(expression):
    """Names of metrics that an expression reads; those of a histogram's series are the histogram's."""
    names = set(re.findall(r"\b(?:stagecoach_\w+|up)\b", re.sub(r'"[^"]*"', "", expression)))
    return {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
