"""A conversation in the page: streaming, stop, edit, regenerate, tools, formats, keys, errors."""

import json
import threading
import unittest

from page_case import PageCase
from scripted_server import CUT, answer, delta, tool_call


class ChatTest(PageCase):
    def test_an_answer_is_shown_while_it_streams(self):
        page = self.open()
        page.wait("document.getElementById('model').textContent === 'Scripted'")
        rest, thought = threading.Event(), threading.Event()
        self.server.scripts.append([
            delta(role="assistant", content=None, reasoning_content=""), delta(reasoning_content="Let me see."), thought,
            *answer("One ¦two"), ])
        self.server.scripts[0].insert(-2, rest)
        self.send(page, "Count")
        page.wait("document.querySelector('.reasoning summary')?.innerText.startsWith('Reasoning ')")
        self.assertFalse(page.evaluate("document.querySelector('.reasoning').open"))
        self.assertEqual(page.text("#send"), "Stop")
        thought.set()
        page.wait("document.querySelector('.answer .markdown:not(.reasoning *)').innerText === 'One'")
        self.assertTrue(page.text(".reasoning summary").startswith("Reasoned "))
        self.assertEqual(page.evaluate("document.querySelector('.answer').getAttribute('aria-busy')"), "true")
        rest.set()
        self.wait_answer(page)
        self.assertEqual(page.text(".answer > .markdown"), "One two")
        figures = page.text(".figures")
        for part in ("3 tokens", "tokens/s", "first token after", "prompt 12 (4 from the cache)"):
            self.assertIn(part, figures)
        self.assertNotIn("draft", figures)  # the server tells nothing of drafts
        self.assertEqual(page.text("#status"), "The answer is complete.")
        page.click(".reasoning summary")
        page.wait("document.querySelector('.reasoning .markdown').innerText === 'Let me see.'")
        request = self.server.requests[0]
        self.assertEqual(request["messages"], [{"role": "user", "content": "Count"}])
        self.assertEqual(set(request), {"model", "messages", "stream", "stream_options"})
        self.ask(page, "Go on", answer("Three"))
        self.assertEqual(self.server.requests[1]["messages"][1],
                         {"role": "assistant", "content": "One two", "reasoning_content": "Let me see."})

    def test_accepted_drafts_are_shown_where_the_server_counts_them(self):
        page = self.open()
        script = answer("Yes", tokens=12)
        script[-1]["usage"]["completion_tokens_details"] = {"accepted_prediction_tokens": 8, "rejected_prediction_tokens": 2}
        self.ask(page, "Quick", script)
        self.assertIn("8 of 10 draft tokens accepted", page.text(".figures"))
        self.assertIn("3.00 tokens a round", page.text(".figures"))

    def test_stop_ends_the_request_and_keeps_what_came(self):
        for stop in (lambda page: page.click("#send", "Stop"), lambda page: page.press("Escape")):
            with self.subTest(stop=stop):
                self.server.reset()
                page = self.open()
                self.server.scripts.append([delta(content="Half of"), threading.Event()])
                self.send(page, "Tell")
                page.wait("document.querySelector('.answer')?.innerText.includes('Half of')")
                stop(page)
                self.wait_answer(page)
                self.assertTrue(self.server.left.wait(10))
                self.assertIn("Half of", page.text(".answer"))
                self.assertIn("stopped", page.text(".figures"))
                self.assertEqual(page.count(".answer .failure"), 0)
                self.ask(page, "And now", answer("More"))
                self.assertEqual([m["content"] for m in self.server.requests[1]["messages"]], ["Tell", "Half of", "And now"])

    def test_editing_a_message_drops_what_followed(self):
        page = self.open()
        self.ask(page, "First", answer("A"))
        self.ask(page, "Second", answer("B"))
        page.evaluate("document.querySelector('.user button').click()")
        self.assertEqual(page.evaluate("document.activeElement.value"), "First")
        page.type(" of all")
        self.server.scripts.append(answer("C"))
        page.press("Enter")
        self.wait_answer(page, 1)
        self.assertEqual(self.server.requests[2]["messages"], [{"role": "user", "content": "First of all"}])
        self.assertEqual(page.text(".bubble"), "First of all")
        self.assertEqual(page.text(".answer > .markdown"), "C")

    def test_an_edit_can_be_given_up(self):
        page = self.open()
        self.ask(page, "First", answer("A"))
        page.click(".user button", "Edit")
        page.type("nonsense")
        page.press("Escape")
        self.assertEqual(page.text(".bubble"), "First")
        self.assertEqual(len(self.server.requests), 1)

    def test_editing_while_an_answer_comes_stops_it(self):
        page = self.open()
        self.server.scripts += [[delta(content="Old"), threading.Event()], answer("New")]
        self.send(page, "Tell")
        page.wait("document.querySelector('.answer')?.innerText.includes('Old')")
        page.click(".user button", "Edit")
        page.press("Enter")
        self.wait_answer(page)
        page.wait("document.querySelector('.answer > .markdown:not([hidden])').innerText === 'New'")
        self.assertTrue(self.server.left.wait(10))

    def test_regenerating_asks_again_without_the_answer(self):
        page = self.open()
        self.ask(page, "Joke", answer("Bad"))
        self.server.scripts.append(answer("Better"))
        page.click("button", "Regenerate")
        page.wait("document.querySelector('.answer > .markdown').innerText === 'Better'")
        self.assertEqual(self.server.requests[1], self.server.requests[0])

    def test_a_tool_is_called_and_its_result_goes_back(self):
        page = self.open()
        tool = {"name": "weather", "description": "Of a city", "parameters": {"type": "object"}}
        page.set("#setting-tools", json.dumps([tool]))
        self.ask(page, "Weather in Oslo?", tool_call("weather", '{"city":"Oslo"}'))
        self.assertEqual(self.server.requests[0]["tools"], [{"type": "function", "function": tool}])
        self.assertIn("Calls weather", page.text(".tool-name"))
        self.assertEqual(page.text(".tool-call pre"), '{\n  "city": "Oslo"\n}')
        self.send(page, "Hello?")  # not before the result
        self.assertEqual(len(self.server.requests), 1)
        self.assertEqual(page.evaluate("document.activeElement.closest('.tool-call') !== null"), True)
        page.type('{"degrees": -4}')
        self.server.scripts.append(answer("Cold."))
        page.click("button", "Send result")
        self.wait_answer(page, 2)
        self.assertEqual(self.server.requests[1]["messages"][1:], [
            {"role": "assistant", "content": "", "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}]},
            {"role": "tool", "tool_call_id": "call_1", "content": '{"degrees": -4}'}])
        self.assertIn("Result of weather", page.text(".tool"))
        self.assertEqual(page.count(".tool-call textarea"), 0)

    def test_settings_reach_the_request(self):
        page = self.open()
        page.click("#settings-button")
        values = {"system": "Be brief.", "thinking": "enabled", "effort": "max", "temperature": "0.5", "top_p": "0.9",
                  "top_k": "40", "min_p": "0.05", "seed": "7", "max_tokens": "100", "format": "json_object"}
        for name, value in values.items():
            page.set(f"#setting-{name}", value)
        self.ask(page, "List", answer("{}"))
        request = self.server.requests[0]
        for name, value in {"temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7, "max_tokens": 100,
                            "reasoning_effort": "max", "thinking": {"type": "enabled"},
                            "response_format": {"type": "json_object"}}.items():
            self.assertEqual(request[name], value)
        self.assertEqual(request["messages"][0], {"role": "system", "content": "Be brief."})
        page.set("#setting-format", "json_schema")
        page.set("#setting-schema", '{"type": "object"}')
        self.ask(page, "List", answer("{}"))
        self.assertEqual(self.server.requests[1]["response_format"],
                         {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}})

    def test_a_bad_setting_is_named_and_nothing_is_sent(self):
        page = self.open()
        cases = [("temperature", "3", "0 to 2"), ("top_p", "0", "above 0"), ("top_k", "1.5", "0 (off) or more"), ("seed", "-1", "a whole number"),
                 ("tools", "[{]", "no JSON yet"), ("tools", '[{"name": "a b"}]', "letters, digits"),
                 ("tools", '[{"name": "a"}, {"name": "a"}]', "another tool"),
                 ("tools", '{"name": "a", "parameters": []}', '"type": "object"')]
        for name, value, expected in cases:
            with self.subTest(name=name, value=value):
                page.set(f"#setting-{name}", value)
                self.send(page, "x")
                self.assertIn(expected, page.text(f"#setting-{name}-error"))
                self.assertEqual(page.evaluate("document.activeElement.id"), f"setting-{name}")
                page.set(f"#setting-{name}", "")
                self.assertEqual(page.text(f"#setting-{name}-error"), "")
        page.set("#setting-format", "json_schema")
        self.send(page, "x")
        self.assertIn("enter the JSON Schema", page.text("#setting-schema-error"))
        self.assertEqual(self.server.requests, [])

    def test_the_key_is_asked_for_and_kept_in_memory_only(self):
        self.server.key = "sesame"
        page = self.open()
        page.wait("document.activeElement.id === 'api-key'")
        page.type("wrong")
        page.press("Enter")
        page.wait("document.querySelector('#api-key-note')?.innerText.includes('did not accept')")
        page.wait("document.activeElement.id === 'api-key'")
        page.type("sesame")
        page.press("Enter")
        page.wait("document.getElementById('model').textContent === 'Scripted'")
        self.ask(page, "Hello", answer("Hi"))
        self.assertEqual(self.server.keys, ["Bearer sesame"])
        self.assertNotIn("sesame", page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])"))

    def test_without_a_key_the_error_says_what_to_do(self):
        self.server.key = "sesame"
        page = self.open()
        page.click("dialog button", "Cancel")
        page.wait("!document.querySelector('dialog')")
        self.send(page, "Hello")
        page.click("dialog button", "Cancel")
        self.wait_answer(page)
        self.assertIn("A valid API key is needed.", page.text(".failure"))
        self.assertIn("Enter a valid API key", page.text(".failure"))

    def test_errors_are_shown_with_what_to_do(self):
        overloaded = {"error": {"message": "The server is shutting down.", "type": "overloaded_error"}}
        cases = [((400, "Invalid temperature value"), "Invalid temperature value", "settings"),
                 ((429, "Too many requests"), "Too many requests", "Wait a moment"),
                 ((500, "The server failed to answer."), "failed to answer", "log of the server"),
                 ([delta(content="Begun"), overloaded], "shutting down", "Wait a moment"),
                 ([delta(content="Begun"), CUT], "ended before it was whole", "Try again"),
                 ([delta(content="Begun")], "ended before it was whole", "Try again")]
        for script, message, advice in cases:
            with self.subTest(script=script):
                page = self.open()
                self.ask(page, "Hello", script)
                self.assertIn(message, page.text(".failure"))
                self.assertIn(advice, page.text(".failure"))
                if isinstance(script, list):
                    self.assertIn("Begun", page.text(".answer"))
                self.server.scripts.append(answer("Well now"))
                page.click("button", "Try again")
                page.wait("document.querySelector('.answer > .markdown').innerText === 'Well now'")
                self.assertEqual(page.count(".answer .failure"), 0)

    def test_nothing_is_kept_unless_a_person_says_so(self):
        page = self.open()
        self.ask(page, "Secret", answer("Kept"))
        self.assertEqual(page.evaluate("localStorage.length"), 0)
        page.click("#settings-button")
        page.click("#keep")
        page.wait("localStorage.length === 3")
        page.open(self.server.url)
        self.assertEqual(page.text(".bubble"), "Secret")
        self.assertEqual(page.text(".answer > .markdown"), "Kept")
        self.ask(page, "More", answer("Yes"))
        self.assertEqual(len(self.server.requests[1]["messages"]), 3)
        page.click("#settings-button")
        page.click("#keep")
        self.assertEqual(page.evaluate("localStorage.length"), 0)
        page.open(self.server.url)
        self.assertEqual(page.count(".turn"), 0)

    def test_the_conversation_is_exported_as_json(self):
        page = self.open()
        page.evaluate("(() => { const make = URL.createObjectURL; URL.createObjectURL = (blob) => {"
                      " window.saved = blob.text(); return make(blob); }; })()")
        self.ask(page, "Hello", answer("Hi"))
        page.click("#export-button")
        saved = json.loads(page.evaluate("saved"))
        self.assertEqual(saved["messages"], [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}])
        self.assertEqual(saved["turns"][1]["usage"]["completion_tokens"], 3)
        page.click("#new-button")
        self.assertEqual(page.count(".turn"), 0)

    def test_everything_works_from_the_keyboard(self):
        page = self.open()
        page.type("One")
        page.press("Enter", shift=True)
        page.type("two")
        self.server.scripts.append(answer("Yes"))
        page.press("Enter")
        self.wait_answer(page)
        self.assertEqual(self.server.requests[0]["messages"][0]["content"], "One\ntwo")
        page.press("/", control=True)
        page.wait("document.querySelector('dialog')?.innerText.includes('Shift + Enter')")
        page.press("Escape")
        page.wait("!document.querySelector('dialog')")
        page.press(",", control=True)
        page.wait("document.activeElement.id === 'setting-system'")
        page.press("Escape")
        page.wait("document.getElementById('settings').hidden && document.activeElement.id === 'settings-button'")
        # Every control is reached, says its name and shows that it has the focus.
        page.evaluate("document.activeElement.blur()")
        names = []
        for _ in range(40):
            page.press("Tab")
            name, ring = page.evaluate(
                "(() => { const e = document.activeElement; const s = getComputedStyle(e); return ["
                "e.getAttribute('aria-label') ?? e.labels?.[0]?.textContent ?? e.textContent,"
                "s.outlineStyle !== 'none' || e.parentElement.matches('.composer-box:focus-within')]; })()")
            if page.evaluate("document.activeElement === document.body"):
                continue  # the browser's own controls, between the last and the first
            if name in names:
                break
            self.assertTrue(name and ring, name)
            names.append(name)
        for expected in ("Settings", "Conversation", "Edit", "Copy message", "Copy answer", "Regenerate", "Message", "Send",
                         "Keys", "Export", "New conversation", "Engine"):
            self.assertIn(expected, names)


if __name__ == "__main__":
    unittest.main()
