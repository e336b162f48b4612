"""Phone, themes, contrast and names of controls."""

import json
import threading
import unittest

from page_case import PageCase
from scripted_server import answer, delta, tool_call

LONG = "W" * 300
RICH = (f"# Heading\n\nText with `{LONG}` and https://example.org/{LONG} and **bold**.\n\n```\n{LONG}\n```\n\n"
        f"- item\n- {LONG}\n\n> quote\n\n| a | b |\n|---|---|\n| {LONG} | {LONG} |\n")

# Ratios of WCAG 2 of every visible text to the ground behind it; [ratio, text] of those below 4.5.
CONTRAST = """(() => {
  const parse = (color) => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (e) => {
    for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] === 255) return c; }
    return [255, 255, 255];
  };
  const bad = []; let seen = 0;
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim() !== '');
    const field = ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName);
    if (!(own || field) || !e.checkVisibility() || e.closest('.hidden-text, .skip')) continue;
    const colors = [getComputedStyle(e).color];
    if (field) colors.push(getComputedStyle(e, '::placeholder').color);
    for (const color of colors) {
      const [a, b] = [light(parse(color)), light(ground(e))].sort((x, y) => y - x);
      const ratio = (a + 0.05) / (b + 0.05);
      seen += 1;
      if (ratio < 4.5) bad.push([ratio, e.className, e.textContent.slice(0, 40)]);
    }
  }
  return { bad, seen };
})()"""


class AppearanceTest(PageCase):
    def fill(self, page):
        page.set("#setting-tools", "")
        self.ask(page, f"Hello {LONG}", answer(RICH, "Thinking about it."))
        page.evaluate("document.querySelector('.reasoning').open = true")
        self.ask(page, "Tool", tool_call("weather", json.dumps({"city": LONG})))
        page.evaluate("document.querySelector('.tool-call textarea').focus()")
        page.type(LONG)
        self.server.scripts.append((400, "Something is wrong with " + LONG))
        page.click("button", "Send result")
        self.wait_answer(page, 3)

    def assert_fits(self, page, width):
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
        wide = page.evaluate(
            f"[...document.querySelectorAll('body *')].filter(e => e.checkVisibility() && !e.closest('.code pre, .table, .hidden-text, .skip')"
            f" && (e.getBoundingClientRect().right > {width} + 0.5)).map(e => e.outerHTML.slice(0, 80))")
        self.assertEqual(wide, [])
        self.assertLessEqual(page.evaluate("document.getElementById('messages').scrollWidth"), width)

    def test_a_phone_shows_all_without_scrolling_sideways(self):
        page = self.open(width=360, height=640)
        self.assert_fits(page, 360)
        self.fill(page)
        self.assert_fits(page, 360)
        page.click("#settings-button")
        page.wait("!document.getElementById('settings').hidden")
        self.assert_fits(page, 360)
        page.click(".settings-head button", "Close")
        page.wait("document.getElementById('settings').hidden")
        page.click("#view-engine")
        page.wait("document.querySelector('.lane').checkVisibility()")
        self.assert_fits(page, 360)

    def test_text_stands_out_in_both_themes(self):
        for dark in (False, True):
            with self.subTest(dark=dark):
                page = self.open(dark=dark)
                self.fill(page)
                page.set("#setting-temperature", "9")
                page.click("#settings-button")
                result = page.evaluate(CONTRAST)
                self.assertEqual(result["bad"], [])
                self.assertGreater(result["seen"], 60)
                page.press("Escape")
                page.press("/", control=True)
                self.assertEqual(page.evaluate(CONTRAST)["bad"], [])
                page.press("Escape")
                page.click("#view-engine")
                page.wait("document.querySelector('.lane').checkVisibility()")
                self.assertEqual(page.evaluate(CONTRAST)["bad"], [])

    def test_the_theme_follows_the_system_or_the_switch(self):
        page = self.open()
        ground = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(ground)
        page.set_dark(True)
        dark = page.evaluate(ground)
        self.assertNotEqual(light, dark)
        page.set_dark(False)
        self.assertEqual(page.evaluate(ground), light)
        page.click("#theme-button")
        self.assertEqual(page.evaluate(ground), dark)
        page.open(self.server.url)
        self.assertEqual(page.evaluate(ground), dark)
        page.click("#theme-button")
        page.set_dark(True)
        self.assertEqual(page.evaluate(ground), light)
        page.click("#theme-button")
        self.assertEqual(page.evaluate(ground), dark)
        self.assertEqual(page.evaluate("localStorage.length"), 0)

    def test_every_field_and_button_has_a_name(self):
        page = self.open()
        self.fill(page)
        page.click("#settings-button")
        page.click(".user button", "Edit")
        nameless = page.evaluate(
            "[...document.querySelectorAll('button, input, select, textarea, a')].filter(e => !(e.getAttribute('aria-label')"
            " || e.textContent.trim() && !['SELECT', 'TEXTAREA'].includes(e.tagName) || e.labels?.[0]?.textContent.trim())).map(e => e.outerHTML)")
        self.assertEqual(nameless, [])
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        self.assertEqual(len(ids), len(set(ids)))

    def test_a_reader_who_has_scrolled_up_stays_there(self):
        page = self.open(height=400)
        self.ask(page, "Long", answer("\n\n".join("line" for _ in range(100))))
        end = "Math.abs(document.getElementById('messages').scrollHeight - innerHeight - document.getElementById('messages').scrollTop)"
        self.assertLess(page.evaluate(end), 400)
        more, done = threading.Event(), threading.Event()
        text = [delta(content="line\n\n") for _ in range(50)]
        self.server.scripts.append([delta(content="begin\n\n" * 30), more, *text, done, *answer()])
        self.send(page, "Again")
        page.wait("document.querySelectorAll('.answer')[1]?.innerText.includes('begin')")
        page.evaluate("document.getElementById('messages').scrollTop = 100")
        more.set()
        page.wait("document.querySelectorAll('.answer')[1].innerText.includes('line')")
        self.assertEqual(page.evaluate("document.getElementById('messages').scrollTop"), 100)
        done.set()
        self.wait_answer(page, 2)
        self.assertEqual(page.evaluate("document.getElementById('messages').scrollTop"), 100)


if __name__ == "__main__":
    unittest.main()
