#!/usr/bin/env python3
"""One JSON line for each SVG file: box, colours, ids and risky elements."""
import json
import re
import sys
import xml.etree.ElementTree as ET

RISKY = {"script", "foreignObject", "image"}
KEEP = {"none", "currentcolor", "inherit"}


def local(name):
    return name.rsplit("}", 1)[-1]


def box(root):
    if root.get("viewBox"):
        return " ".join(re.split(r"[\s,]+", root.get("viewBox").strip()))
    sizes = [re.fullmatch(r"([\d.]+)(px)?", root.get(k, "")) for k in ("width", "height")]
    return "0 0 " + " ".join(m.group(1) for m in sizes) if all(sizes) else None


def look(path):
    try:
        root = ET.parse(path).getroot()
    except ET.ParseError as error:
        return {"file": path, "error": str(error)}
    colours, ids, risky = set(), [], []
    for node in root.iter():
        if not isinstance(node.tag, str):
            continue
        if local(node.tag) in RISKY:
            risky.append(local(node.tag))
        for key, value in node.attrib.items():
            key = local(key)
            if key == "id":
                ids.append(value)
            elif key.lower().startswith("on"):
                risky.append(key)
            elif key in ("fill", "stroke"):
                colours.add(value.strip().lower())
            elif key == "style":
                colours.update(c.strip().lower() for c in re.findall(r"(?:fill|stroke)\s*:\s*([^;]+)", value))
    colours = sorted(c for c in colours if c not in KEEP and not c.startswith("url("))
    return {"file": path, "root": local(root.tag), "viewBox": box(root), "colours": colours,
            "ids": ids, "risky": risky}


for name in sys.argv[1:]:
    print(json.dumps(look(name)))
