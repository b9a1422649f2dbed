"""The reference page of pipelines is what their declarations say."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pipeline_docs


def test_the_reference_page_is_current() -> None:
    assert pipeline_docs.PAGE.read_text() == pipeline_docs.page(), "run tools/pipeline_docs.py"


def test_every_option_of_every_job_is_documented() -> None:
    for name in pipeline_docs.BUILT_IN:
        job = pipeline_docs.find_job(name)
        assert job.summary, name
        assert all(option.doc.strip().endswith(".") for option in job.options), name
