"""Model output is text: nothing in it becomes an element that the page did not mean, or code."""

import json
import unittest

from page_case import PageCase
from scripted_server import answer, delta, tool_call

HOSTILE = [
    "<script>window.hit = 1</script>", "<img src=x onerror='window.hit = 1'>", "<svg onload='window.hit = 1'>",
    "<iframe srcdoc='<script>parent.hit = 1</script>'></iframe>", "</div></article><style>body{display:none}</style>",
    "<a href='javascript:window.hit=1'>x</a>", "&lt;script&gt;", "<!-- --><base href='//elsewhere'>", "]]><x:y/>",
]


class SafetyTest(PageCase):
    def test_html_stays_text_wherever_it_stands(self):
        page = self.open()
        forms = ["{}", "# {}", "- {}", "> {}", "`{}`", "```html\n{}\n```", "```{}\nx\n```", "**{}**", "| a | b |\n|---|---|\n| {} | x |",
                 "[{}](https://example.org/)", "1. {}"]
        text = "\n\n".join(form.format(bad) for bad in HOSTILE for form in forms)
        self.ask(page, HOSTILE[0], answer(text, HOSTILE[1]))
        self.assertEqual(page.count(".messages :is(script, img, svg, iframe, style, base, object, embed, form)"), 0)
        page.evaluate("document.querySelector('.reasoning').open = true")
        self.assertEqual(page.text(".reasoning .markdown"), HOSTILE[1])
        self.assertEqual(page.text(".bubble"), HOSTILE[0])
        shown = page.evaluate("document.querySelector('.answer > .markdown').textContent")
        for bad in HOSTILE:
            self.assertGreaterEqual(shown.count(bad), len(forms) - 1, bad)
        allowed = {"P", "H1", "UL", "OL", "LI", "BLOCKQUOTE", "CODE", "PRE", "FIGURE", "FIGCAPTION", "SPAN", "BUTTON", "STRONG",
                   "EM", "DIV", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD", "A", "DEL"}
        tags = page.evaluate("[...new Set([...document.querySelectorAll('.answer > .markdown *')].map(e => e.tagName))]")
        self.assertLessEqual(set(tags), allowed)
        self.assertIsNone(page.evaluate("window.hit ?? null"))

    def test_html_in_calls_and_errors_stays_text(self):
        page = self.open()
        bad = HOSTILE[1]
        self.ask(page, "x", tool_call(bad, json.dumps({bad: bad})))
        self.assertIn(bad, page.text(".tool-name"))
        self.assertIn(bad, page.text(".tool-call pre"))
        page.evaluate("document.querySelector('.tool-call textarea').focus()")
        page.type(bad)
        self.server.scripts.append((400, bad))
        page.click("button", "Send result")
        self.wait_answer(page, 2)
        self.assertIn(bad, page.text(".failure"))
        self.assertIn(bad, page.text(".tool"))
        self.assertEqual(page.count(".messages img"), 0)
        self.assertIsNone(page.evaluate("window.hit ?? null"))

    def test_only_web_links_are_links_and_show_their_target(self):
        page = self.open()
        bad = ["javascript:alert(1)", "JaVaScRiPt:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//host/x",
               "/v1/models", "java\tscript:alert(1)", " javascript:alert(1)", "blob:x", "ftp://host/"]
        good = "[bank](https://example.org/a?b=c) https://example.com/x. (http://example.net/y)"
        self.ask(page, "Links", answer("\n\n".join(f"[text]({url})" for url in bad) + "\n\n" + good))
        links = page.evaluate("[...document.querySelectorAll('.answer > .markdown a')].map(a => [a.href, a.rel, a.target])")
        self.assertEqual(links, [[url, "noopener noreferrer", "_blank"] for url in
                                 ("https://example.org/a?b=c", "https://example.com/x", "http://example.net/y")])
        self.assertIn("bank (https://example.org/a?b=c)", page.text(".answer > .markdown"))

    def test_markdown_is_shown_as_such(self):
        page = self.open()
        text = ("# Title\n\nA **bold** and *slanted* `co<de`, 2 * 3 * 4, snake_case_name, \\*plain\\*.\n\n- one\n  - inner\n- two\n\n3. three\n"
                "4. four\n\n> said\n\n```py\nif a < b:\n\n    pass\n```\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n\n---\nend")
        for pieces in (text, "|".join(text)):  # whole, and letter by letter
            with self.subTest(pieces=len(pieces)):
                page.click("#new-button")
                script = ([delta(content=letter) for letter in text] + answer()[-1:]) if pieces != text else (
                    [delta(content=text)] + answer()[-1:])
                self.ask(page, "Show", script)
                shape = page.evaluate("""(() => { const walk = (e) => e.nodeType === 3 ? e.data : `<${e.localName}${
                    e.start > 1 ? e.start : ''}>${[...e.childNodes].map(walk).join('')}</>`;
                    return [...document.querySelector('.answer > .markdown').children].map(walk).join('\\n'); })()""")
                self.assertEqual(shape.split("\n", 7)[:4], [
                    "<h1>Title</>",
                    "<p>A <strong>bold</> and <em>slanted</> <code>co<de</>, 2 * 3 * 4, snake_case_name, *plain*.</>",
                    "<ul><li>one<ul><li>inner</></></><li>two</></>", "<ol3><li>three</><li>four</></>"])
                self.assertIn("<blockquote><p>said</></>", shape)
                self.assertIn("<pre><code>if a < b:\n\n    pass</></>", shape)
                self.assertIn("<tr><td>1</><td>2</></>", shape)
                self.assertIn("<hr></>\n<p>end</>", shape)

    def test_hostile_markdown_costs_little(self):
        page = self.open()
        for name, text in {"brackets": "[" * 50000, "stars": "**a" * 20000, "ticks": "`" + "`` " * 20000, "quotes": ">" * 50000,
                           "lists": "\n".join(" " * (i % 40) + "- x" for i in range(5000)), "pipes": "|" * 30000,
                           "fences": "```\n" * 10001, "spaces": "# " + " " * 30000 + "#", "links": "[a](" * 20000,
                           "dashes": "- " * 20000}.items():
            with self.subTest(name):
                seconds = page.evaluate(
                    "import('./page/markdown.js').then(({renderMarkdown}) => { const start = performance.now();"
                    f" renderMarkdown(document.createElement('div'), {json.dumps(text)}); return (performance.now() - start) / 1000; }})")
                self.assertLess(seconds, 10)  # what grows with the square takes minutes

    def test_events_are_read_however_they_are_cut(self):
        page = self.open()
        stream = ': note\r\n\r\ndata: {"a":"é😀"}\n\nevent: x\ndata:one\ndata: two\n\nid: 3\n\ndata\n\ndata: \n\nretry: 5\ndata: last\r\r'
        cut = page.evaluate(
            "import('./page/sse.js').then(({EventParser}) => { const bytes = new TextEncoder().encode(" + json.dumps(stream) + ");"
            " return [1, 2, 3, 7, 1000].map((size) => { const parser = new EventParser(); const events = [];"
            " for (let i = 0; i < bytes.length; i += size) events.push(...parser.push(bytes.slice(i, i + size)));"
            " return events.concat(parser.push(new TextEncoder().encode('\\n'))); }); })")
        for events in cut:
            self.assertEqual(events, ['{"a":"é😀"}', "one\ntwo", "", "last"])


if __name__ == "__main__":
    unittest.main()
