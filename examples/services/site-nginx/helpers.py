ANSWERS = Path("/logs/artifacts/answers")
CSV = "from,code,to\n/old/start.html,301,/index.html\n/old/faq.html,302,/docs/guide.html\n/shop,308,https://shop.example/\n"


def answers():
    """Path -> (status, headers with lower-case names, body) of what the live server answered."""
    found = {}
    for file in sorted(ANSWERS.glob("*.txt")):
        asked, _, text = file.read_bytes().decode("utf-8", "replace").partition("\n")
        head, _, body = text.partition("\r\n\r\n")
        first, *lines = head.split("\r\n")
        words = first.split()
        status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        found[asked.removeprefix("GET ")] = (status, headers, body)
    assert found, "the server's answers are missing"
    return found


def answer(path):
    found = answers().get(path)
    assert found is not None and found[0], f"{path}: no answer"
    return found


def status_is(path, status):
    got = answer(path)[0]
    assert got == status, f"{path}: expected {status}, found {got}"


def moved_to(path, status, target):
    status_is(path, status)
    got = answer(path)[1].get("location")
    assert got == target, f"{path}: expected Location {target}, found {got}"


def page_is(path, name):
    want, got = (E0 / "site" / name).read_text(), answer(path)[2]
    assert got == want, f"{path}: expected the content of {name}, found {got[:200]!r}"
