"""What the paper prints, for the sections to put beside the user's figures. ``published`` has Tables 7 and 10."""

from __future__ import annotations

from typing import NamedTuple

from facet_dagster.domain.seed import TaskFamily

# Table 5, by the names of our funnel's rows.
FUNNEL = {
    "skills": 71_341,
    "seeds": 7_852,
    "first_builds": 7_841,
    "first_build_ok": 6_630,
    "environment_repaired": 874,
    "environments": 7_504,
    "entering_validation": 7_446,
    "first_pass_valid": 2_856,
    "task_repaired": 3_222,
    "validated": 6_078,
}
# The same, as shares of the row that it is compared with, in percent.
FUNNEL_SHARES = {
    "first_builds": 99.86,
    "first_build_ok": 84.56,
    "environments": 95.70,
    "entering_validation": 99.23,
    "first_pass_valid": 38.35,
    "validated": 81.63,
}
# Figure 3b, percent of tasks.
TASK_FAMILIES = dict(zip(TaskFamily, (10.69, 11.19, 11.98, 11.12, 9.59, 11.99, 11.96, 11.02, 10.45), strict=True))
# Section 4: rollouts of DeepSeek-V4-Pro with Terminus-2 on 6,078 tasks.
ROLLOUTS = {"tasks": 6_078, "completed": 6_066, "solved": 1_270, "checks": 89.40, "near": 54.0}
SUCCESSES_USED = 1_200  # of 1,270: by which rule is not stated


class PrintedSet(NamedTuple):
    """A row of Table 1. ``pass_1`` and ``pass_3`` in percent."""

    name: str
    trajectories: str
    turns: float
    tasks: str
    tests: float
    pass_1: float
    pass_3: float


DATASETS = (
    PrintedSet("Nemotron-Terminal", "5K", 6.12, "15K", 6.18, 40.67, 48.00),
    PrintedSet("Endless-Terminals", "200", 4.53, "2,492", 5.51, 83.0, 87.0),
    PrintedSet("Terminal-Lego", "32K", 5.77, "15K", 16.60, 47.0, 49.0),
    PrintedSet("TerminalWorld", "200", 11.94, "1,530", 3.98, 57.0, 82.0),
    PrintedSet("Tmax", "500", 11.14, "15K", 3.29, 80.0, 86.0),
    PrintedSet("FACET", "1.2K", 11.86, "6K", 22.77, 27.0, 35.0),
)
# Table 6 and Figure 5, over 1,270 successful trajectories.
COMMANDS = {"commands": 39_136, "cat": 18_168, "top_3": 27_207, "top_10": 34_598, "observation": 33_140}
FIRST_TURNS = (1_214, 95.6)
MOVES = {"observation": (4_324, 55.6), "back": (1_399, 53.1), "action": (758, 28.7)}
# Table 2: Terminal-Bench 2.1, mean of three attempts, percent; without and with training on 1.2K trajectories.
TRAINED = (("Qwen3.5-4B", 17.60, 24.72), ("Qwen3.5-9B", 27.34, 35.58), ("Qwen3.5-27B", 40.82, 47.57))
OTHERS = (
    ("Qwen3.5-397B-A17B", 49.06, "measured"),
    ("Qwen3.6-27B", 53.93, "measured"),
    ("Kimi-K2.6", 59.93, "measured"),
    ("DeepSeek-V4-Pro-Preview (high)", 73.03, "measured"),
    ("GLM-5.1", 58.70, "reported"),
    ("Gemini 3 Pro", 65.80, "reported"),
    ("MiniMax M3", 66.00, "reported"),
    ("Claude Opus 4.7", 66.10, "reported"),
    ("Intern-S2", 67.42, "reported"),
    ("GPT-5.5", 78.00, "reported"),
)
# Table 9, the training.
TRAINING = (
    ("models", "Qwen3.5-4B, 9B, 27B, all parameters"),
    ("precision, sharding", "BF16, ZeRO-3"),
    ("trajectories", "1.2K complete successful ones"),
    ("epochs", "3"),
    ("batch", "64"),
    ("learning rate", "1e-5, cosine, warm-up 0.1"),
    ("longest sequence", "32,768 tokens"),
)
RELEASED = (6_078, 6_020)  # validated, and published
