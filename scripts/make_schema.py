"""Write docs/report.schema.json, the JSON schema of report.json, from the records in convert/records.py.

    python scripts/make_schema.py            # write it
    python scripts/make_schema.py --print    # only show it

Needs pydantic, which is one of the development tools; the package itself never does.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, JsonSchemaValue

from convert.records import SCHEMA_VERSION, Report

SCHEMA = Path(__file__).resolve().parent.parent / "docs" / "report.schema.json"


class _Strict(GenerateJsonSchema):
    """Describes what ``convert.serial`` writes: every field, nothing else, and words for what is no finite number."""

    def generate(self, schema: Any, mode: JsonSchemaMode = "serialization") -> JsonSchemaValue:
        """The whole schema, with its dialect and the one version that it is for."""
        made = super().generate(schema, mode)
        made["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
        return {"$schema": self.schema_dialect} | made | {"title": "report.json"}

    def float_schema(self, schema: Any) -> JsonSchemaValue:
        """A number, or the word for one that JSON cannot write."""
        return {"anyOf": [super().float_schema(schema), {"enum": ["NaN", "Infinity", "-Infinity"]}]}

    def field_is_required(self, field: Any, total: bool) -> bool:
        """Every field is written, whether it has a default or not."""
        del field, total
        return True

    def dataclass_schema(self, schema: Any) -> JsonSchemaValue:
        """A record; its docstring becomes the descriptions of it and of its fields."""
        made = super().dataclass_schema(schema)
        summary, fields = _documentation(schema["cls"])
        for name, text in fields.items():
            # Keywords beside a reference are allowed in this dialect.
            made["properties"][name]["description"] = text
        return made | {"additionalProperties": False, "description": summary}

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        """Defaults are of no use to a reader of what is always written."""
        return self.generate_inner(schema["schema"])

    def get_title_from_name(self, name: str) -> str:
        """No titles: they would only repeat the names."""
        return name

    def field_title_should_be_set(self, schema: Any) -> bool:
        """See above."""
        del schema
        return False


def _documentation(record: type) -> tuple[str, dict[str, str]]:
    """What a docstring in Google's style says of a class, and of those of its attributes that it describes."""
    summary, _, attributes = (inspect.getdoc(record) or "").replace("``", "").partition("Attributes:")
    known = [field.name for field in dataclasses.fields(record)]
    described: dict[str, str] = {}
    for match in re.finditer(r"^ {4}(\S[^:\n]*): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE):
        for pattern in match[1].split(", "):
            described |= {name: _one_line(match[2]) for name in known if fnmatchcase(name, pattern)}
    return _one_line(summary), described


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def render() -> str:
    """The text of the schema file."""
    made = TypeAdapter(Report).json_schema(schema_generator=_Strict, mode="serialization")
    return json.dumps(made, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.write(render())
    else:
        SCHEMA.write_text(render(), encoding="utf-8")
