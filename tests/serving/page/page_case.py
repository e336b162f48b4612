"""The base of the page's tests: one browser and one scripted server for all, a fresh tab for each."""

import atexit
import functools
import unittest

from browser import Browser, Page, chromium_path
from scripted_server import ScriptedServer


@functools.cache
def browser():
    started = Browser()
    atexit.register(started.close)
    return started


@functools.cache
def server():
    started = ScriptedServer()
    atexit.register(started.close)
    return started


@unittest.skipUnless(chromium_path(), "there is no Chromium")
class PageCase(unittest.TestCase):
    def setUp(self):
        self.server = server()
        self.server.reset()

    def open(self, path="", **options):
        page = Page(browser(), self.server.url + path, **options)
        self.addCleanup(page.close)
        self.addCleanup(lambda: self.assertEqual(page.problems(), []))
        return page

    def send(self, page, text):
        page.evaluate("document.getElementById('draft').focus()")
        page.type(text)
        page.press("Enter")

    def wait_answer(self, page, count=1):
        """Until so many answers are there and none is under way."""
        page.wait(f"document.querySelectorAll('.answer').length === {count}"
                  " && document.querySelector('#send').textContent === 'Send'")

    def ask(self, page, text, script):
        self.server.scripts.append(script)
        answers = page.count(".answer")
        self.send(page, text)
        self.wait_answer(page, answers + 1)
