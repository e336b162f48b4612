#!/usr/bin/env python3
"""Writes tests/data/grammar/tool_schemas.jsonl: parameter schemas of tools, with valid and invalid arguments.

    pip install jsonschema==4.23.0 rfc3339-validator==0.1.4; tools/tool_schemas/make_tool_schemas.py tests/data/grammar/tool_schemas.jsonl

Deterministic: the same file for the same versions of this program and of jsonschema, whose Draft 2020-12 validator says
which arguments are valid.  A line: {"schema": ..., "valid": [arguments...], "invalid": [arguments...]}.
Valid arguments list their properties in the order of the schema, as a model does that reads it.
"""
import copy
import json
import random
import sys

import jsonschema

NAMES = ("query path city days unit limit offset title body tags items owner email url start_date end_date amount currency "
         "language verbose mode filter sort_by order page user_id file line column count price quantity address street zip "
         "country phone priority status labels assignee due comment rating options config key value name kind").split()
WORDS = "alpha beta gamma delta red green blue small large draft open closed high low EUR USD café 北京 a b".split()
PATTERNS = [("^[A-Z]{3}$", ["EUR", "USD"], ["eur", "EURO", ""]),
            ("^[a-z][a-z0-9_]*$", ["a", "snake_case_1"], ["1a", "Ab", ""]),
            (r"^\d{4}-\d{2}$", ["2024-05"], ["2024-5", "24-05", "2024-05-01"]),
            ("^(low|medium|high)$", ["low", "high"], ["lower", "", "LOW"]),
            (r"^#[0-9a-fA-F]{6}$", ["#00ffAA"], ["00ffAA", "#00ffA"]),
            ("^/", ["/", "/a b/c"], ["a/", ""]),
            (r"^[^\s@]+@[^\s@]+$", ["a@b"], ["a b@c", "@"])]
FORMATS = [("date", ["2024-02-29", "1999-12-31"], ["2023-02-29", "2024-13-01", "x"]),
           ("date-time", ["2024-05-01T12:30:00Z", "2024-05-01T12:30:00.5+02:00"], ["2024-05-01", "2024-05-01 12:30:00"]),
           ("uuid", ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567"]),
           ("ipv4", ["127.0.0.1"], ["127.0.0.256", "1.2.3"]),
           ("email", ["joe.bloggs@example.com"], ["2962"])]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, choices):
        return self.random.choice(choices)

    def text(self):
        return " ".join(self.pick(WORDS) for _ in range(self.random.randint(1, 3)))

    def string(self):
        schema = {"type": "string"}
        kind = self.random.randint(0, 6)
        if kind == 1:
            low = self.random.randint(0, 3)
            schema["minLength"] = low
            schema["maxLength"] = low + self.random.randint(1, 12)
        elif kind == 2:
            schema["pattern"] = self.pick(PATTERNS)[0]
        elif kind == 3:
            schema["format"] = self.pick(FORMATS)[0]
        elif kind == 4:
            schema["enum"] = self.random.sample(WORDS, self.random.randint(2, 5))
        elif kind == 5:
            schema["maxLength"] = self.random.randint(1, 40)
        return schema

    def number(self):
        schema = {"type": self.pick(["integer", "integer", "number"])}
        kind = self.random.randint(0, 5)
        low = self.random.randint(-50, 50)
        high = low + self.random.randint(1, 200)
        if kind in (1, 2):
            schema["minimum"] = low
        if kind in (2, 3):
            schema["maximum"] = high
        if kind == 4:
            schema["exclusiveMinimum"] = low
            schema["exclusiveMaximum"] = high + (0.5 if schema["type"] == "number" else 0)
        if kind == 5 and schema["type"] == "integer":
            schema["multipleOf"] = self.pick([2, 5, 10, 7])
        return schema

    def schema(self, depth):
        kinds = ["string"] * 5 + ["number"] * 4 + ["boolean", "const", "any_of", "nullable"]
        if depth > 0:
            kinds += ["array"] * 3 + ["object"] * 3 + ["tuple", "map", "one_of", "all_of"]
        kind = self.pick(kinds)
        if kind == "string":
            made = self.string()
        elif kind == "number":
            made = self.number()
        elif kind == "boolean":
            made = {"type": "boolean"}
        elif kind == "const":
            made = {"const": self.pick([1, "fixed", True, None, 2.5, ["a", 1]])}
        elif kind == "any_of":
            made = {"anyOf": [self.string(), self.number()]}
        elif kind == "nullable":
            made = {"type": [self.pick(["string", "integer", "boolean"]), "null"]}
        elif kind == "array":
            made = {"type": "array", "items": self.schema(depth - 1)}
            if self.random.random() < 0.6:
                made["minItems"] = self.random.randint(0, 2)
            if self.random.random() < 0.6:
                made["maxItems"] = self.random.randint(2, 5)
        elif kind == "tuple":
            made = {"type": "array", "prefixItems": [self.schema(0) for _ in range(2)], "items": False, "minItems": 2}
        elif kind == "map":
            made = {"type": "object", "additionalProperties": self.schema(depth - 1)}
            if self.random.random() < 0.5:
                made["maxProperties"] = self.random.randint(1, 3)
        elif kind == "one_of":
            made = {"oneOf": [self.object(depth - 1, {"kind": {"const": name}}) for name in ("circle", "square")]}
        elif kind == "all_of":
            made = {"allOf": [{"type": "integer", "minimum": 0}, {"maximum": self.random.randint(5, 50)}]}
        else:
            made = self.object(depth - 1)
        if self.random.random() < 0.3:
            made["description"] = self.text()
        return made

    def object(self, depth, first=None):
        properties = dict(first or {})
        for name in self.random.sample(NAMES, self.random.randint(1, 5)):
            properties.setdefault(name, self.schema(depth))
        required = list(first or {}) + [name for name in properties if name not in (first or {}) and self.random.random() < 0.5]
        made = {"type": "object", "properties": properties, "additionalProperties": False}
        if required:
            made["required"] = required
        return made

    def value(self, schema):
        """A value that is probably valid."""
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.pick(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self.value(self.pick(schema[key]))
        if "allOf" in schema:
            merged = {}
            for part in schema["allOf"]:
                merged.update(part)
            return self.value(merged)
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = self.pick(kind)
        if kind == "string":
            for table, key in ((PATTERNS, "pattern"), (FORMATS, "format")):
                for name, good, _ in table:
                    if schema.get(key) == name:
                        return self.pick(good)
            text = self.text() + " xxxxxxxx"
            low, high = schema.get("minLength", 0), schema.get("maxLength", 60)
            return text[: self.random.randint(low, max(low, min(high, len(text))))]
        if kind in ("integer", "number"):
            low = schema.get("minimum", schema.get("exclusiveMinimum", -100))
            high = schema.get("maximum", schema.get("exclusiveMaximum", low + 300))
            low = min(low, high)
            if kind == "number" and self.random.random() < 0.5:
                return round(self.random.uniform(low, high), 2)
            step = schema.get("multipleOf", 1)
            return self.random.randint(int(low), int(high)) // step * step
        if kind == "boolean":
            return self.random.random() < 0.5
        if kind == "null":
            return None
        if kind == "array":
            if "prefixItems" in schema:
                return [self.value(item) for item in schema["prefixItems"]]
            count = self.random.randint(schema.get("minItems", 0), schema.get("maxItems", 3))
            return [self.value(schema["items"]) for _ in range(count)]
        if "properties" not in schema:
            count = min(schema.get("maxProperties", 2), self.random.randint(0, 3))
            return {name: self.value(schema["additionalProperties"]) for name in self.random.sample(NAMES, count)}
        return {name: self.value(sub) for name, sub in schema["properties"].items()
                if name in schema.get("required", ()) or self.random.random() < 0.6}

    def broken(self, value):
        """A value that is probably invalid: one place changed."""
        value = copy.deepcopy(value)
        places = []

        def visit(parent, key, item):
            if parent is not None:
                places.append((parent, key))
            if isinstance(item, dict):
                places.append((item, None))
                for name in item:
                    visit(item, name, item[name])
            elif isinstance(item, list):
                for index, member in enumerate(item):
                    visit(item, index, member)

        visit(None, None, value)
        parent, key = self.pick(places)
        if key is None:
            parent["unknown_" + self.pick(NAMES)] = 1
            return value
        action = self.random.randint(0, 4)
        if action == 0 and isinstance(parent, dict):
            del parent[key]
        elif action == 1:
            parent[key] = self.pick([None, True, "x" * 50, -1000, 1e9, 0.25, [], {}, "", "ab"])
        elif isinstance(parent[key], bool):
            parent[key] = "true"
        elif isinstance(parent[key], (int, float)):
            parent[key] = self.pick([parent[key] + 1000, parent[key] - 1000, parent[key] + 0.5, str(parent[key]), parent[key] + 1])
        elif isinstance(parent[key], str):
            bad = [b for table in (PATTERNS, FORMATS) for _, good, wrong in table if parent[key] in good for b in wrong]
            parent[key] = self.pick(bad or [parent[key] * 20 + "!", parent[key][:-1], parent[key] + "?", 5])
        elif isinstance(parent[key], list):
            parent[key] = self.pick([parent[key] * 8 + [1, 2, 3, 4, 5, 6], [object.__name__], {}, parent[key][:-1]])
        else:
            parent[key] = self.pick(["{}", []])
        return value


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for seed in range(360):
            maker = Maker(seed)
            schema = maker.object(3)
            validator = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)
            valid, invalid = [], []
            for _ in range(80):
                good = maker.value(schema)
                for value in (good, maker.broken(good)):
                    kind = valid if validator.is_valid(value) else invalid
                    if value not in kind and len(kind) < 3 and len(json.dumps(value)) < 400:
                        kind.append(value)
            line = json.dumps({"schema": schema, "valid": valid, "invalid": invalid}, ensure_ascii=False, separators=(",", ":"))
            out.write(line + "\n")


if __name__ == "__main__":
    main()
