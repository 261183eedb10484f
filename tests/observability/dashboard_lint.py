"""Rules for dashboards: those of the linter that Grafana publishes, and what provisioning and people need beyond it."""

import re

UNITS = {"none", "short", "s", "bytes", "Bps", "percentunit", "ops", "dateTimeFromNow", "watt", "celsius"}
WITH_UNITS = {"stat", "graph", "table", "timeseries", "gauge"}
DATA_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def lint(dashboard):
    """What is wrong, a line each."""
    problems = []
    for rule in (check_top_level, check_template_variables, check_panels, check_grid, check_targets, check_variables_are_used):
        problems += rule(dashboard)
    return problems


def check_top_level(dashboard):
    model = dashboard.model
    expected = {"id": None, "schemaVersion": 39, "editable": False, "graphTooltip": 1, "refresh": "30s", "timezone": "browser"}
    problems = [f"{key} is {model.get(key)!r}, not {value!r}" for key, value in expected.items() if model.get(key, "") != value]
    for key in ("uid", "title", "tags", "version", "time", "templating", "annotations", "panels", "links"):
        if key not in model:
            problems.append(f"there is no {key}")
    if len(model.get("uid") or "") not in range(1, 41):
        problems.append("the uid is empty, or longer than 40 characters")
    if "__inputs" in model or "DS_PROMETHEUS" in str(model):
        problems.append("it has inputs, which provisioning does not fill in")
    return problems


def check_template_variables(dashboard):
    by_name = {variable["name"]: variable for variable in dashboard.variables}
    problems = []
    source = by_name.get("datasource", {})
    if (source.get("type"), source.get("query"), source.get("label")) != ("datasource", "prometheus", "Data source"):
        problems.append("variable datasource is not a Prometheus data source with the label \"Data source\"")
    for name in ("job", "instance"):
        variable = by_name.get(name, {})
        if (variable.get("label"), variable.get("type"), variable.get("multi"), variable.get("allValue")) != (
                name.capitalize(), "query", True, ".+"):
            problems.append(f"variable {name} is not a query over all values with the label {name.capitalize()}")
    for variable in dashboard.variables:
        if variable["type"] != "query":
            continue
        if variable.get("datasource") != DATA_SOURCE:
            problems.append(f"variable {variable['name']} does not use the data source variable")
        if variable.get("refresh") != 2:
            problems.append(f"variable {variable['name']} is not read again when the time changes")
        if not re.fullmatch(r"label_values\(.+, \w+\)", variable["query"]["query"]):
            problems.append(f"variable {variable['name']} is not asked for by label_values(SELECTOR, LABEL)")
    return problems


def check_panels(dashboard):
    problems = []
    ids = [panel["id"] for panel in dashboard.panels]
    if len(set(ids)) != len(ids):
        problems.append("two panels have the same id")
    for panel in dashboard.panels:
        name = f"panel {panel['id']} ({panel.get('title')})"
        if not panel.get("title"):
            problems.append(f"{name} has no title")
        if panel["type"] == "row":
            continue
        if not panel.get("description"):
            problems.append(f"{name} has no description")
        if panel.get("datasource") != DATA_SOURCE:
            problems.append(f"{name} does not use the data source variable")
        if not panel.get("targets"):
            problems.append(f"{name} has no targets")
        unit = panel.get("fieldConfig", {}).get("defaults", {}).get("unit")
        if panel["type"] in WITH_UNITS and unit not in UNITS:
            problems.append(f"{name} has the unit {unit!r}")
    return problems


def check_grid(dashboard):
    problems = []
    taken = {}
    for panel in dashboard.model["panels"]:
        place = panel["gridPos"]
        if place["x"] < 0 or place["x"] + place["w"] > 24:
            problems.append(f"panel {panel['id']} is not within 24 columns")
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                other = taken.setdefault((x, y), panel["id"])
                if other != panel["id"]:
                    problems.append(f"panels {other} and {panel['id']} overlap")
                    return problems
    return problems


def check_targets(dashboard):
    problems = []
    for panel in dashboard.panels:
        for target in panel.get("targets", []):
            name = f"panel {panel['id']} ({panel['title']}), target {target['refId']}"
            if target.get("datasource") != DATA_SOURCE:
                problems.append(f"{name} does not use the data source variable")
            problems += [f"{name}: {problem}" for problem in check_expression(target["expr"])]
    return problems


def check_expression(expression):
    problems = []
    selectors = re.findall(r"\b((?:stagecoach_\w+|up))\b(\{[^}]*\})?", expression)
    if not selectors:
        problems.append("it reads no metric")
    for metric, labels in selectors:
        for label in ("job", "instance"):
            if f'{label}=~"${label}"' not in labels:
                problems.append(f"{metric} is not selected by {label}")
    for function, interval in re.findall(r"\b(rate|irate)\([^\[]*\[([^\]]+)\]", expression):
        if interval != "$__rate_interval":
            problems.append(f"{function} over {interval}, not over $__rate_interval")
    counters = len(re.findall(r"\bstagecoach_\w+_total\b", expression))
    aggregated = len(re.findall(r"\b(?:rate|irate|increase)\(stagecoach_\w+_total\b", expression))
    if counters != aggregated:
        problems.append("it reads a counter and not its rate or increase")
    return problems


def check_variables_are_used(dashboard):
    text = str(dashboard.model)
    return [f"variable {variable['name']} is not used" for variable in dashboard.variables
            if not re.search(r"\$\{?" + variable["name"] + r"\b", text)]
