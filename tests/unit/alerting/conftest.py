import pytest

from tests.unit.alerting.queued_mails import make_outbox


@pytest.fixture
def config(tmp_path):
    return make_outbox(tmp_path)
