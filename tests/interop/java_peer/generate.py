"""Writes `answers.json` anew: random questions with what Iceberg's Java classes answer.

ICECORE_ICEBERG_JAR=<iceberg-spark-runtime jar> PYTHONPATH=src:tests:tests/interop python -m java_peer.generate
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from java_peer.peer import java_peer
from java_peer.questions import for_java, questions

ANSWERS = Path(__file__).with_name("answers.json")


def main() -> None:
    jar = Path(os.environ["ICECORE_ICEBERG_JAR"])
    version = re.search(r"-(\d+\.\d+\.\d+)\.jar$", jar.name)
    lines = []
    with java_peer(jar) as peer:
        for question in questions(seed=11):
            answer = peer.ask(for_java(question))
            if "error" in answer:
                raise SystemExit(f"Java refuses {question}: {answer['error']}")
            lines.append(json.dumps([question, answer["ok"]], separators=(",", ":")))
    head = json.dumps(version[1] if version else jar.name)
    ANSWERS.write_text(f'{{"iceberg": {head}, "answers": [\n' + ",\n".join(lines) + "\n]}\n")


if __name__ == "__main__":
    main()
