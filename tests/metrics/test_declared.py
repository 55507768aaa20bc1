"""Every metric is declared once, used, documented; what is shown and watched exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys

import pytest
from metrics_kit import ROOT, promtool
from prometheus_client import Counter, Histogram
from ruamel.yaml import YAML

from hermes_pgmemory import metrics
from hermes_pgmemory.metrics import OnLook

SOURCE = ROOT / "src" / "hermes_pgmemory"
DEPLOY = ROOT / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
DECLARED = {one.name: one for one in metrics.declared()}
CONSTANTS = [
    name
    for name, value in vars(metrics).items()
    if isinstance(value, Counter | Histogram | OnLook)
]
PROMETHEUS_ONLY = {"up", "job", "instance"}


def series() -> dict[str, set[str]]:
    """Return every series' name that a query may use, with its labels."""
    names: dict[str, set[str]] = {}
    for one in DECLARED.values():
        labels = {one.label} if one.label else set()
        if one.kind == "histogram":
            names |= {f"{one.name}_{end}": labels for end in ("count", "sum")}
            names[f"{one.name}_bucket"] = labels | {"le"}
        else:
            names[one.name] = labels
    return names


def queries() -> list[str]:
    """Return every query of the alerts and of the dashboard."""
    groups = YAML(typ="safe").load(ALERTS.read_text())["groups"]
    alerts = [rule["expr"] for group in groups for rule in group["rules"]]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for p in panels for target in p.get("targets", ())]
    return alerts + shown


class TestDeclared:
    def test_every_metric_has_a_constant_of_its_own(self):
        assert len(CONSTANTS) == len(DECLARED) == len(metrics.declared())

    @pytest.mark.parametrize("constant", CONSTANTS)
    def test_every_metric_is_used(self, constant):
        others = (p for p in SOURCE.rglob("*.py") if p.name != "metrics.py")
        assert any(re.search(rf"\b{constant}\b", p.read_text()) for p in others)

    @pytest.mark.parametrize("name", DECLARED)
    def test_its_name_tells_its_kind_and_unit(self, name):
        assert re.fullmatch(r"pgmemory_[a-z_]+", name)
        kind = DECLARED[name].kind
        assert name.endswith("_total") is (kind == "counter")
        assert name.endswith("_seconds") or kind != "histogram"

    @pytest.mark.parametrize("name", DECLARED)
    def test_its_label_is_drawn_from_a_closed_set(self, name):
        one = DECLARED[name]
        assert bool(one.label) is bool(one.values)
        assert one.label not in {"theme", "session", "session_id", "identity", "user"}

    def test_the_hooks_are_those_that_pass_the_boundary(self):
        text = "".join(
            (SOURCE / name).read_text() for name in ("provider.py", "notices.py")
        )
        hooks = re.findall(r"@fail_soft\([^)]*\)\n\s*def (\w+)", text)
        assert set(hooks) == set(DECLARED["pgmemory_hook_failures_total"].values)

    @pytest.mark.parametrize(
        ("constant", "values"),
        [
            (constant, re.findall(rf'{constant}\.labels\(\w+="(\w+)"\)', text))
            for constant in CONSTANTS
            for text in ["".join(p.read_text() for p in SOURCE.rglob("*.py"))]
        ],
    )
    def test_every_value_that_is_counted_is_declared(self, constant, values):
        metric = vars(metrics)[constant]
        if values:
            told = next(d for d in DECLARED.values() if d.name.startswith(metric._name))
            assert set(values) <= set(told.values)


class TestShown:
    @pytest.mark.parametrize("query", queries())
    def test_every_metric_that_is_watched_exists_with_its_labels(self, query):
        known = series()
        used = re.findall(r"\b(pgmemory_\w+)(?:\{([^}]*)\})?", query)
        assert used or "up{" in query
        for name, selector in used:
            assert name in known
            labels = set(re.findall(r"(\w+)\s*=", selector))
            assert labels <= known[name] | PROMETHEUS_ONLY
            for label, value in re.findall(r'(\w+)!?="(\w+)"', selector):
                one = next((d for d in DECLARED.values() if d.label == label), None)
                assert one is None or value in {
                    v for d in DECLARED.values() if d.label == label for v in d.values
                }

    def test_every_metric_is_on_the_dashboard(self):
        shown = " ".join(queries())
        assert [name for name in DECLARED if name not in shown] == []

    def test_panels_have_ids_of_their_own_and_do_not_overlap(self):
        panels = json.loads(DASHBOARD.read_text())["panels"]
        assert len({one["id"] for one in panels}) == len(panels)
        taken: set[tuple[int, int]] = set()
        for one in panels:
            at = one["gridPos"]
            cells = {
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            }
            assert not cells & taken
            assert max(x for x, _ in cells) < 24
            taken |= cells
        rows = [one["title"] for one in panels if one["type"] == "row"]
        wanted = {"Writes", "Recall latency", "Journal", "Embedder", "Database"}
        assert wanted <= set(rows)

    def test_every_alert_says_what_to_do(self):
        [group] = YAML(typ="safe").load(ALERTS.read_text())["groups"]
        for rule in group["rules"]:
            assert set(rule["annotations"]) == {"summary", "description"}
            assert rule["labels"]["severity"] in {"critical", "warning"}

    def test_the_reference_is_the_generated_one(self):
        page = (ROOT / "docs" / "reference" / "metrics.md").read_text()
        begin, end = "metrics --reference) -->\n", "<!-- metrics: end"
        command = [sys.executable, "-m", "hermes_pgmemory", "metrics", "--reference"]
        made = subprocess.run(command, check=True, capture_output=True, text=True)
        table = page.partition(begin)[2].partition(end)[0]
        assert table.strip() == made.stdout.strip()
        assert all(f"| `{name}` |" in table for name in DECLARED)


class TestPromtool:
    def test_the_alerts_are_valid(self):
        ran = promtool("check", "rules", str(ALERTS))
        assert ran.returncode == 0, ran.stdout + ran.stderr
        assert "SUCCESS" in ran.stdout

    def test_the_queries_of_the_dashboard_are_valid(self, tmp_path):
        rules = [
            {"record": f"q:{number}", "expr": re.sub(r"\$__\w+", "5m", query)}
            for number, query in enumerate(queries())
        ]
        path = tmp_path / "rules.yml"
        path.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
        ran = promtool("check", "rules", str(path))
        assert ran.returncode == 0, ran.stdout + ran.stderr

    def test_each_alert_fires_when_it_should_and_only_then(self, tmp_path):
        test = ROOT / "tests" / "metrics" / "alerts_test.yml"
        for path in (ALERTS, test):
            shutil.copy(path, tmp_path)
        ran = promtool("test", "rules", str(tmp_path / test.name))
        assert ran.returncode == 0, ran.stdout + ran.stderr
        [group] = YAML(typ="safe").load(ALERTS.read_text())["groups"]
        text = test.read_text()
        for rule in group["rules"]:
            told = re.search(rf"alertname: {rule['alert']}\n\s+exp_alerts", text)
            assert told, f"no case in which {rule['alert']} fires"

    def test_the_job_is_valid(self, tmp_path):
        shutil.copy(ALERTS, tmp_path)
        job = shutil.copy(DEPLOY / "prometheus" / "scrape.yml", tmp_path)
        ran = promtool("check", "config", str(job))
        assert ran.returncode == 0, ran.stdout + ran.stderr


def test_the_service_starts_a_command_that_exists():
    unit = (DEPLOY / "systemd" / "hermes-pgvector-metrics.service").read_text()
    [words] = re.findall(r"^ExecStart=\S+/hermes-pgvector (.+)$", unit, re.MULTILINE)
    [target] = re.findall(
        r'targets: \["([^"]+)"\]', (DEPLOY / "prometheus" / "scrape.yml").read_text()
    )
    verb, option, port = words.split()
    assert (verb, option, target) == ("metrics", "--port", f"127.0.0.1:{port}")
