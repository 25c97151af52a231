import os
from pathlib import Path

import pytest

from orienteer.models import bert_encoder


@pytest.mark.parametrize(
    ("flags", "asked"),
    [
        ("fpu avx2 avx512f avx512dq avx512cd avx512bw avx512vl", "AVX512"),
        ("fpu avx2 avx512f avx512cd avx512er avx512pf", None),  # lacks what CTranslate2's kernels need
        ("fpu avx2", None),
    ],
)
def test_wide_vectors_are_asked_for_where_the_processor_has_all_of_them(flags, asked, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("CT2_FORCE_CPU_ISA", raising=False)
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    bert_encoder._use_avx512(cpuinfo)
    assert os.environ.get("CT2_FORCE_CPU_ISA") == asked


def test_an_instruction_set_named_by_the_user_stays_and_a_machine_without_cpuinfo_is_no_error(monkeypatch) -> None:
    monkeypatch.setenv("CT2_FORCE_CPU_ISA", "GENERIC")
    bert_encoder._use_avx512()
    bert_encoder._use_avx512(Path("/nowhere/cpuinfo"))
    assert os.environ["CT2_FORCE_CPU_ISA"] == "GENERIC"
