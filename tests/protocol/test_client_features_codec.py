"""What decoding, encoding and naming values share between the features."""

import pytest

from mcpwire.errors import InvalidMessage, InvalidParams, LocalProtocolError
from mcpwire.protocol.client_features import decode_params, encode_answer
from mcpwire.types import ListRootsRequestParams, ListRootsResult, Root
from mcpwire.versions import LATEST


def test_a_refused_question_names_path_and_cause():
    with pytest.raises(InvalidParams) as caught:
        decode_params(ListRootsRequestParams, {"_meta": []}, "roots/list")
    assert caught.value.message == (
        "ListRootsRequestParams._meta: expected object, got array"
    )
    assert caught.value.method == "roots/list"
    assert isinstance(caught.value.__cause__, InvalidMessage)


@pytest.mark.parametrize("roots", [None, [3], [Root(3)], [Root("a", meta="x")]])
def test_an_answer_is_read_as_the_server_will(roots):
    with pytest.raises(LocalProtocolError):
        encode_answer(ListRootsResult(roots), LATEST, "roots")
