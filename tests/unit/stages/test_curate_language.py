"""The language of prose is told by script and commonest words; code and links do not count."""

from __future__ import annotations

import pytest

from facet_dagster.stages.curate.language import judge, language
from facet_dagster.stages.curate.parse import parse

TEXTS = {
    "en": "Read the gauge file and take the highest level of each day, then write one line for each harbour.",
    "de": "Lies die Datei und nimm den höchsten Stand, der für den Tag eingetragen ist; er wird geschrieben.",
    "fr": "Lis le fichier des marées et écris une ligne pour chaque port, dans la langue que vous utilisez.",
    "es": "Lee el archivo de las mareas y escribe una línea para cada puerto, como se dice en los datos.",
    "pt": "Leia o arquivo das marés e escreva uma linha para cada porto, como em seu manual; não use os antigos.",
    "zh": "读取潮汐文件，找出每天的最高水位，为每个港口写一行。",
    "ja": "潮汐ファイルを読み、毎日の最高水位を港ごとに一行ずつ書きます。",
    "ko": "조수 파일을 읽고 매일 가장 높은 수위를 찾아 쓴다.",
    "ru": "Прочитай файл приливов и запиши строку для каждого порта.",
}
CODE = "\n```sh\n" + "for the file in with of and to\n" * 30 + "```\nhttps://example.com/the/and/of\n"


@pytest.mark.parametrize("wanted", list(TEXTS))
def test_a_text_is_in_its_language_whatever_its_code_says(wanted: str) -> None:
    assert language(TEXTS[wanted] + CODE) == wanted


@pytest.mark.parametrize("text", ["", "Tide.", "tide gauge harbour level water mark moon sun wave shore sand"])
def test_too_little_and_unknown_is_no_language(text: str) -> None:
    assert language(text) == ""


def test_only_what_is_surely_in_another_language_is_dropped() -> None:
    chinese, unknown = parse(f"# T\n\n{TEXTS['zh']}"), parse("# T\n\ntide gauge")
    rejection = judge(chinese, frozenset({"en", "de"}))
    assert rejection is not None
    assert rejection.reason == "skill.language"
    assert rejection.message == "The text is in zh; wanted are de, en (FACET_LANGUAGES)."
    assert judge(chinese, frozenset({"zh"})) is None
    assert judge(chinese, frozenset()) is None
    assert judge(unknown, frozenset({"en"})) is None
