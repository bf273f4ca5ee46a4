"""Schemas of the custom resources of custom_resources.yml, and their definitions for a cluster without an operator."""

from pathlib import Path

import yaml

RESOURCES = yaml.safe_load(Path(__file__).with_suffix(".yml").read_text(encoding="utf-8"))
_UNITS = "".join(f"(([0-9]+){unit})?" for unit in ("y", "w", "d", "h", "m", "s", "ms"))
_TYPES = {
    "text": {"type": "string", "minLength": 1},
    "count": {"type": "integer", "minimum": 0},
    "positive": {"type": "integer", "minimum": 1},
    "duration": {"type": "string", "minLength": 1, "pattern": f"^(0|{_UNITS})$"},
}


def schema(fields, *, closed):
    """Return the JSON schema of fields; ``closed`` refuses what is not named, as an API server's strict check does."""
    match fields:
        case str() if "|" in fields:
            return {"type": "string", "enum": fields.split("|")}
        case str():
            return _TYPES.get(fields, {"type": fields})
        case [item]:
            # Prometheus merges groups of rules, and what else has a name of its own, by that name.
            merged = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
            by_name = merged if isinstance(item, dict) and "name!" in item else {}
            return {"type": "array", "items": schema(item, closed=closed), **by_name}
        case {"*": value}:
            return {"type": "object", "additionalProperties": schema(value, closed=closed)}
    there = {name: each for name, each in fields.items() if each is not None}
    required = [name[:-1] for name in there if name.endswith("!")]
    return {
        "type": "object",
        "properties": {name.rstrip("!"): schema(each, closed=closed) for name, each in there.items()},
        **({"required": required} if required else {}),
        **({"additionalProperties": False} if closed else {}),
    }


def schema_of(kind, *, closed=True):
    """Return the schema of a whole object."""
    fields = {
        "apiVersion": "string",
        "kind": "string",
        "metadata": "object",
        "spec!": RESOURCES[kind]["spec"],
    }
    return schema(fields, closed=closed)


def definition(kind):
    """Return the CustomResourceDefinition of a kind."""
    group, version = RESOURCES[kind]["group"], RESOURCES[kind]["version"]
    names = {"kind": kind, "listKind": f"{kind}List", "plural": f"{kind.lower()}s", "singular": kind.lower()}
    served = {"name": version, "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**served, "schema": {"openAPIV3Schema": schema_of(kind, closed=False)}}],
        },
    }
