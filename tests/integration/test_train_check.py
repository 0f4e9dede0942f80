"""What the real trainer makes of an export: its masks are the export's, and a loss falls on them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from facet_dagster.errors import ConfigError
from facet_dagster.settings import load_settings
from facet_dagster.setup.trainer import trainer_env, trainer_python
from facet_dagster.training import TrainCheck, check_export
from tests.fixtures.sft_export import row, write_export

pytestmark = [pytest.mark.trainer, pytest.mark.timeout(900)]
REPLY = '{"analysis": "é ☃", "plan": "p", "commands": [{"keystrokes": "ls\\n", "duration": 1.0}]}'
FAITHLESS = """{%- for message in messages %}
{%- if message.role == 'assistant' %}{{- '<|im_start|>assistant\n' }}{% generation %}{{- message.content | upper }}
{{- '<|im_end|>' }}{% endgeneration %}{{- '\n' }}
{%- else %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endif %}
{%- endfor %}"""


def rows() -> list[dict[str, Any]]:
    """The second has a turn that is not trained on; the third a reply that a template may not take apart."""
    talk = [("user", "Sort /app/in.csv.", False), ("assistant", REPLY, True), ("user", "$ ls\nin.csv\n", False)]
    return [
        row("a", [*talk, ("assistant", '{"task_complete": true}', True)]),
        row("b", [*talk[:1], ("assistant", "No object: a mistake", False), *talk[1:], ("assistant", "done", True)]),
        row("c", [*talk, ("assistant", "  Text before {} and after  \n", True), ("user", "Sure?", False)]),
    ]


def check(export: Path, **options: Any) -> TrainCheck:
    return check_export(export, load_settings().home, os.environ, **options)


@pytest.fixture(scope="module", autouse=True)
def _trainer() -> None:
    home = load_settings().home
    assert trainer_python(home), "There is no trainer: `python3 -m facet_dagster.setup --with trainer`"


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_export(tmp_path_factory.mktemp("sft") / "out", rows())


def test_masks_are_the_exports_and_the_loss_falls_on_them(export: Path) -> None:
    found = check(export, steps=8)
    assert (found.rows, found.truncated, found.dropped, found.problem_count) == (3, 0, 0, 0), found.problems
    assert found.spans == {"equal": 5, "trimmed": 1, "respaced": 0, "cut": 0}, (
        "Qwen's template trims the reply of the last row"
    )
    assert found.not_trained == 1
    assert 0.2 < found.trained_share < 0.9
    assert found.max_length == 32_768
    assert found.table9["effective_batch"] == 64
    assert (found.table9["learning_rate"], found.table9["num_train_epochs"]) == (1e-5, 3)
    assert found.steps
    assert found.steps["last_loss"] < 0.8 * found.steps["first_loss"]


def test_truncation_is_counted_and_what_is_left_is_still_the_exports(export: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    bare = Tokenizer(
        models.BPE(vocab={c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, merges=[])
    )
    bare.pre_tokenizer, bare.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    bare.save(str(tmp_path / "tokenizer.json"))
    found = check(export, tokenizer=tmp_path / "tokenizer.json", max_length=100)
    assert (found.truncated, found.dropped, found.problem_count) == (3, 0, 0), found.problems
    assert found.tokens["least"] > 100
    assert found.spans["cut"] >= 2
    assert "<|im_start|>" in found.tokenizer, "what the template needs and the tokenizer has not is added, and told"


def test_a_template_that_changes_what_was_written_is_found_out(export: Path, tmp_path: Path) -> None:
    (tmp_path / "faithless.jinja").write_text(FAITHLESS)
    found = check(export, template=str(tmp_path / "faithless.jinja"))
    assert found.problem_count >= 5
    assert "TASK_COMPLETE" in " ".join(found.problems)


def test_what_is_no_whole_export_is_refused(export: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no export"):
        check(tmp_path)
    torn = write_export(tmp_path / "torn", rows())
    data = torn / "data" / "train-00000-of-00001.parquet"
    data.write_bytes(data.read_bytes()[:-10])
    with pytest.raises(ConfigError, match="not what the manifest says"):
        check(torn)
    wrong = write_export(tmp_path / "wrong", [row("x", [("user", "Hi", True), ("assistant", "Ho", True)])])
    with pytest.raises(ConfigError, match="a message of user is marked to be trained on"):
        check(wrong)


def test_the_real_training_takes_the_export_under_table_9(export: Path, tmp_path: Path) -> None:
    """On a CPU a model is as small as its epochs are few; batch, rate and schedule are the paper's."""
    python, model = trainer_python(load_settings().home), tmp_path / "model"
    make = (
        "import sys; from pathlib import Path; from facet_trainer.export import read_export\n"
        "from facet_trainer.tokenize import open_tokenizer\n"
        "from transformers import Qwen2Config, Qwen2ForCausalLM\n"
        "rows, _ = read_export(Path(sys.argv[1]), Path(sys.argv[2]) / 'cache')\n"
        "t, _ = open_tokenizer(None, rows, ''); t.save_pretrained(sys.argv[2])\n"
        "Qwen2ForCausalLM(Qwen2Config(vocab_size=len(t), hidden_size=32, intermediate_size=64, num_hidden_layers=2,"
        " num_attention_heads=2, num_key_value_heads=2, bos_token_id=None)).save_pretrained(sys.argv[2])\n"
    )
    env = {**os.environ, **trainer_env(), "HF_HUB_OFFLINE": "1"}
    subprocess.run([str(python), "-c", make, str(export), str(model)], env=env, check=True, capture_output=True)
    argv = [str(python), "-m", "facet_trainer.sft", "--export", str(export), "--model", str(model)]
    argv += ["--output", str(tmp_path / "tuned"), "--set", "use_cpu=true", "--set", "bf16=false"]
    done = subprocess.run(argv, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "tuned" / "model.safetensors").is_file()
    done = subprocess.run([*argv, "--set", "per_device_train_batch_size=7"], env=env, capture_output=True, text=True)
    assert "64 trajectories a step cannot be dealt" in done.stderr
