SEEN = Path("/logs/artifacts")
STOCK = {"BOLT-8": 120, "NUT-8": 120, "WASHER-6": 9, "GASKET-2": 8, "HINGE-1": 5, "LATCH-4": 30}


def text_of(path):
    assert path.is_file(), f"{path} is missing"
    return path.read_text(encoding="utf-8")


def pairs(name):
    return dict(line.split("\t", 1) for line in text_of(SEEN / name).splitlines() if "\t" in line)


def seen(name):
    return json.loads(text_of(SEEN / name))


def item(code):
    found = pairs("items.tsv").get(f"item:{code}")
    assert found is not None, f"item:{code} is not in the database"
    return json.loads(found)


def quantity_is(code):
    got = item(code).get("quantity")
    assert str(got) == str(STOCK[code]), f"{code}: expected {STOCK[code]}, found {got}"


def low():
    """Members and scores, whether they come as pairs or as one flat list."""
    flat = []
    for entry in seen("low.json"):
        flat += entry if isinstance(entry, list) else [entry]
    return {flat[n]: float(flat[n + 1]) for n in range(0, len(flat), 2)}


def report():
    data = json.loads(text_of(APP / "out/report.json"))
    assert isinstance(data, dict), "report.json is no object"
    return data
