"""The view of the engine, drawn from scripted metrics with the names of src/engine/metrics/prometheus_text.cpp."""

import pathlib
import re
import unittest

from page_case import PageCase
from scripted_server import FILES

SOURCE = pathlib.Path(__file__).parents[3] / "src" / "engine" / "metrics" / "prometheus_text.cpp"


def metrics(step, groups=()):
    """After so many seconds: each of 20 steps of 25 ms with 4 rounds of 3 tokens, one of 4 drafts of 4 refused."""
    rounds = 80 * step
    model = 'model_name="Tiny \\"one\\" {x}"'
    lines = ["# HELP vllm:num_requests_waiting Requests in the queue.", "# TYPE vllm:num_requests_waiting gauge"]

    def sample(name, value, labels=""):
        lines.append(f"{name}{{{model}{labels}}} {value}")

    for name, value in {"vllm:num_requests_waiting": 5, "vllm:num_requests_running": 4, "deepinfer_requests_prefilling": 1, "deepinfer_steps_total": 20 * step,
                        "deepinfer_prefill_rows_total": 1000 * step, "vllm:generation_tokens_total": 3 * rounds, "vllm:spec_decode_num_draft_tokens_total": 4 * rounds,
                        "vllm:spec_decode_num_accepted_tokens_total": 3 * rounds, "vllm:prompt_tokens_total": 4000, "deepinfer_step_seconds_sum": 0.5 * step,
                        "deepinfer_step_seconds_count": 20 * step, "deepinfer_round_tokens_sum": 3 * rounds, "deepinfer_round_tokens_count": rounds}.items():
        sample(name, value)
    if groups:
        for group, tier, held, total in groups:
            sample("deepinfer_cache_blocks_held", held, f',group="{group}",tier="{tier}"')
            sample("deepinfer_cache_blocks_capacity", total, f',group="{group}",tier="{tier}"')
    else:
        sample("deepinfer_cache_blocks_held", 250)
        sample("deepinfer_cache_blocks_capacity", 1000)
    sample("deepinfer_prompt_tokens_cached_total", 1000, ',tier="device"')
    sample("deepinfer_prompt_tokens_cached_total", 200, ',tier="below"')
    sample("deepinfer_step_time_seconds_total", 0.02 * step, ',part="plan"')
    sample("deepinfer_step_time_seconds_total", 0.5 * step, ',part="run"')
    for bound, share in (("2", 0.25), ("4", 1), ("+Inf", 1)):
        sample("deepinfer_round_tokens_bucket", int(rounds * share), f',le="{bound}"')
    return "\n".join(lines) + "\n"


class EngineTest(PageCase):
    def card(self, page, title):
        return page.evaluate(f"[...document.querySelectorAll('.card')].find(c => c.querySelector('h2').innerText === '{title}').innerText")

    def test_the_engine_is_drawn_from_its_metrics(self):
        self.server.metrics = metrics(10)
        page = self.open("#engine")
        page.wait("document.querySelectorAll('.lane-waiting .dot').length === 5")
        self.assertEqual(page.count(".lane-prefill .dot"), 1)
        self.assertEqual(page.count(".lane-decode .dot"), 3)
        self.assertIn("250 of 1,000 (25 %)", self.card(page, "Cache blocks held"))
        reuse = self.card(page, "Prompt tokens from the cache")
        self.assertIn("1,000 (25 %)", reuse)
        self.assertIn("tier below\n200 (5 %)", reuse)
        lengths = self.card(page, "Rounds by tokens delivered")
        self.assertIn("2\n25 %", lengths)
        self.assertIn("4\n75 %", lengths)
        widths = page.evaluate("[...document.querySelectorAll('.bar-fill')].map(e => e.style.width)")
        self.assertEqual(widths, ["25%", "25%", "75%", "25%", "5%"])

    def test_counters_become_rates(self):
        page = self.open()
        points = page.evaluate(f"""import('./page/engine_history.js').then(({{EngineHistory}}) => {{
            const history = new EngineHistory();
            [{metrics(10)!r}, {metrics(11)!r}, {metrics(13)!r}, {metrics(13)!r}, {metrics(1)!r}]
              .forEach((text, i) => history.add(text, [1000, 2000, 4000, 5000, 6000][i]));
            return history.points.map((point) => Object.fromEntries(Object.entries(point).map(([key, value]) => [key, String(value)])));
        }})""")
        for point in points[:2]:
            self.assertEqual(point["answered"], "240")
            self.assertEqual(point["prefilled"], "1000")
            self.assertEqual(point["tokensARound"], "3")
            self.assertEqual(point["accepted"], "0.75")
            self.assertAlmostEqual(float(point["stepTime"]), 0.025)
            self.assertAlmostEqual(float(point["planTime"]), 0.001)
        self.assertEqual((points[2]["answered"], points[2]["stepTime"]), ("0", "null"))  # nothing was done
        self.assertEqual((points[3]["answered"], points[3]["stepTime"]), ("NaN", "null"))  # the server began anew

    def test_lines_grow_once_a_second(self):
        self.server.metrics = metrics(10)
        page = self.open("#engine")
        page.wait("document.querySelectorAll('.lane-waiting .dot').length === 5")
        self.server.metrics = metrics(11)
        page.wait("document.querySelector('.chart svg').getAttribute('aria-label').match(/answers [1-9]/)")
        self.assertIn("delivered 3.00", page.evaluate("document.querySelectorAll('.chart svg')[3].getAttribute('aria-label')"))
        page.wait("document.querySelector('.line-1').getAttribute('d').includes('L')")
        page.click("#view-chat")
        page.wait("document.getElementById('engine-view').hidden && !document.getElementById('chat-view').hidden")

    def test_groups_and_tiers_have_a_bar_each(self):
        self.server.metrics = metrics(10, [("window", "device", 10, 40), ("compressed", "device", 30, 40), ("compressed", "host", 8, 80)])
        page = self.open("#engine")
        page.wait("document.querySelectorAll('.lane-waiting .dot').length === 5")
        cache = self.card(page, "Cache blocks held")
        for line in ("window, device\n10 of 40 (25 %)", "compressed, device\n30 of 40 (75 %)", "compressed, host\n8 of 80 (10 %)"):
            self.assertIn(line, cache)

    def test_without_metrics_the_view_says_so_and_goes_on(self):
        self.server.key = "sesame"
        page = self.open("#engine")
        page.click("dialog button", "Cancel")  # the list of models was refused as well
        page.wait("!document.querySelector('dialog')")
        page.wait("document.querySelector('.engine .failure').innerText.includes('A valid API key is needed.')")
        page.wait("performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith('/metrics')).length > 2")
        self.assertEqual(page.count("dialog"), 0)  # polling asks nobody
        page.click(".engine .failure button", "Enter the key")
        page.wait("document.activeElement.id === 'api-key'")
        self.server.metrics = metrics(10)
        page.type("sesame")
        page.press("Enter")
        page.wait("document.querySelector('.engine .failure').hidden && document.querySelectorAll('.dot').length === 9")

    def test_the_names_are_the_engines(self):
        source = SOURCE.read_text()
        told = set(re.findall(r'(?:gauge|counter|histogram)\(\s*"([\w:]+)"', source))
        told |= {f"{name}_{part}" for name in re.findall(r'histogram\("([\w:]+)"', source) for part in ("bucket", "sum", "count")}
        script = (FILES / "engine_history.js").read_text() + (FILES / "engine_view.js").read_text()
        used = set(re.findall(r"'((?:vllm:|deepinfer_)\w+)'", script))
        used |= {f"{name}_bucket" for name in re.findall(r"buckets\('([\w:]+)'", script)}
        used -= set(re.findall(r"buckets\('([\w:]+)'", script))
        self.assertGreater(len(used), 12)
        self.assertLessEqual(used, told)


if __name__ == "__main__":
    unittest.main()
