"""Compares requests and answers of `once serve` with its own OpenAPI document.

Answers are compared more strictly than the document asks: a field that the document does not name is a
mistake here, while a client must accept new fields.
"""

import http.client
import json
import re
import urllib.parse

TYPES = {"string": str, "boolean": bool, "null": type(None), "object": dict, "array": list}
TIME = re.compile(r"\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
KNOWN = {"type", "format", "enum", "const", "anyOf", "items", "properties", "required", "additionalProperties", "$ref"}


def has_type(value, name):
    if name in ("integer", "number"):
        return isinstance(value, int if name == "integer" else (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


class Document:
    def __init__(self, json):
        self.json = json
        self.routes = []
        for pattern, methods in json["paths"].items():
            path, _, act = pattern.rpartition(":") if ":" in pattern.split("/")[-1] else (pattern, "", "")
            regex = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(path)) + (f":{act}" if act else "")
            for method, operation in methods.items():
                self.routes.append((method.upper(), re.compile(regex + r"\Z"), pattern, operation))
        # A path with an act or without a parameter is meant before one with a parameter.
        self.routes.sort(key=lambda route: (":" not in route[2], route[2].count("{")))

    def operation(self, method, target):
        path = target.partition("?")[0]
        for known, regex, _, operation in self.routes:
            if known == method and regex.match(path):
                return operation
        return None

    def mistakes(self, value, schema, at="$"):
        """What in the value does not fit the schema, one text per mistake."""
        unknown = set(schema) - KNOWN
        if unknown:
            return [f"{at}: this checker does not know {unknown}"]
        if "$ref" in schema:
            return self.mistakes(value, self.referred(schema["$ref"]), at)
        if "anyOf" in schema:
            tried = [self.mistakes(value, each, at) for each in schema["anyOf"]]
            return [] if [] in tried else [f"{at}: {json.dumps(value)[:200]} fits none: {tried}"]
        types = schema.get("type", [])
        types = types if isinstance(types, list) else [types]
        if types and not any(has_type(value, name) for name in types):
            return [f"{at}: {json.dumps(value)[:200]} is no {' or '.join(types)}"]
        found = []
        if "enum" in schema and value not in schema["enum"]:
            found.append(f"{at}: {value!r} is none of {schema['enum']}")
        if "const" in schema and value != schema["const"]:
            found.append(f"{at}: {value!r} is not {schema['const']!r}")
        if schema.get("format") == "date-time" and value is not None and not TIME.fullmatch(value):
            found.append(f"{at}: {value!r} is no time")
        if isinstance(value, list) and "items" in schema:
            for n, item in enumerate(value):
                found += self.mistakes(item, schema["items"], f"{at}[{n}]")
        if isinstance(value, dict):
            found += self.mistakes_of_fields(value, schema, at)
        return found

    def mistakes_of_fields(self, value, schema, at):
        found = [f"{at}: the field {name} is missing" for name in schema.get("required", []) if name not in value]
        others = schema.get("additionalProperties")
        for name, item in value.items():
            if name in schema.get("properties", {}):
                found += self.mistakes(item, schema["properties"][name], f"{at}.{name}")
            elif isinstance(others, dict):
                found += self.mistakes(item, others, f"{at}.{name}")
            elif "properties" in schema:
                found.append(f"{at}: the field {name} is not described")
        return found

    def referred(self, reference):
        found = self.json
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        return found

    def mistakes_of_reply(self, method, target, request, status, type, text):
        """`request` is the body that was sent, or None. `type` is the media type of the answer."""
        operation = self.operation("GET" if method == "HEAD" else method, target)
        if operation is None:
            return [] if status in (404, 405) else [f"{method} {target} is not described and answered {status}"]
        described = operation["responses"].get(str(status))
        if described is None:
            if status < 400:
                return [f"{method} {target}: the status {status} is not described"]
            described = self.referred(operation["responses"]["default"]["$ref"])
        found = []
        if method != "HEAD":
            found += self.mistakes_of_text(text, type, described["content"], f"answer {status} to {method} {target}")
        if status < 400:
            names = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
            sent = {name for name, _ in urllib.parse.parse_qsl(target.partition("?")[2], keep_blank_values=True)}
            found += [f"{method} {target}: the parameter {name} is not described" for name in sent - names]
            body = operation.get("requestBody", {}).get("content", {})
            if request and "application/json" in body:
                found += self.mistakes_of_text(request, "application/json", body, f"request {method} {target}")
        return found

    def mistakes_of_text(self, text, type, content, what):
        type = type.partition(";")[0]
        if type not in content:
            return [f"{what}: the type {type} is not described"]
        schema = content[type]["schema"]
        if type == "text/plain":
            return []
        values = text.splitlines() if type.endswith("ndjson") else [text]
        return [f"{what}: {each}" for value in values for each in self.mistakes(json.loads(value), schema)]


_documents = []  # the document of the executable, after the first request


def check_reply(test, method, target, request, status, type, text):
    """Fails the test if the answer is not as the server's own document says."""
    if not _documents:
        connection = http.client.HTTPConnection("127.0.0.1", test.port, timeout=60)
        try:
            connection.request("GET", "/openapi.json")
            _documents.append(Document(json.loads(connection.getresponse().read())))
        finally:
            connection.close()
    test.assertEqual([], _documents[0].mistakes_of_reply(method, target, request, status, type, text))
