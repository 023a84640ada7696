"""What the official openai client sees of a running server. Every check prints its name; the first that fails ends with 1.

Usage: openai_client.py BASE_URL KEY ADMIN_URL
"""

import json
import sys
import time
import urllib.request

import openai
from openai import OpenAI

base_url, key, admin_url = sys.argv[1:4]
client = OpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=120)
model = client.models.list().data[0].id
question = [{"role": "user", "content": "What is the capital of France?"}]


def raises(kind, status, code, param, **request):
    """The request fails with exactly this type, status, code and param."""
    body = {"model": model, "messages": question, "max_tokens": 4, **request}
    try:
        client.chat.completions.create(**body)
    except kind as error:
        assert type(error) is kind, type(error)
        seen = (error.status_code, error.code, error.param)
        assert seen == (status, code, param), f"{seen} instead of {(status, code, param)}: {error}"
        assert error.request_id, "no x-request-id"
        return error
    raise AssertionError(f"no {kind.__name__}")


def list_models():
    entry = client.models.list().data[0]
    assert entry.object == "model" and entry.owned_by, entry
    assert isinstance(entry.context_window, int) and entry.context_window > 0, entry
    assert client.models.retrieve(model).id == model


def answers():
    answer = client.chat.completions.create(model=model, messages=question, max_tokens=16, temperature=0)
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and answer.model == model and answer.id
    assert choice.message.role == "assistant" and choice.message.content, choice
    assert choice.finish_reason in ("stop", "length")
    usage = answer.usage
    assert usage.prompt_tokens > 0 and usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    return choice.message.content


def streams_the_same():
    whole = answers()
    parts, finish, usage, ids = [], None, None, set()
    with client.chat.completions.create(
        model=model, messages=question, max_tokens=16, temperature=0, stream=True,
        stream_options={"include_usage": True},
    ) as stream:
        for chunk in stream:
            ids.add(chunk.id)
            assert chunk.object == "chat.completion.chunk"
            if chunk.usage:
                usage = chunk.usage
                assert not chunk.choices
            for choice in chunk.choices:
                parts.append(choice.delta.content or "")
                finish = choice.finish_reason or finish
    assert "".join(parts) == whole, (parts, whole)
    assert len(parts) > 2, "it came in one piece"
    assert finish in ("stop", "length") and len(ids) == 1
    assert usage.completion_tokens > 0


def gives_logprobs():
    answer = client.chat.completions.create(
        model=model, messages=question, max_tokens=4, temperature=0, logprobs=True, top_logprobs=3)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for token in content:
        assert len(token.top_logprobs) == 3 and token.logprob <= 0
        assert token.top_logprobs[0].logprob == token.logprob, "greedy takes the likeliest"


def several_choices_and_seeds():
    request = dict(model=model, messages=question, max_tokens=12, temperature=1.0, seed=7, n=2)
    one, two = (client.chat.completions.create(**request) for _ in range(2))
    texts = [[choice.message.content for choice in answer.choices] for answer in (one, two)]
    assert texts[0] == texts[1], "the same seed gives the same answers"
    assert len(texts[0]) == 2 and [choice.index for choice in one.choices] == [0, 1]
    assert texts[0][0] != texts[0][1], "two choices are two draws"


def stops_at_a_stop():
    whole = answers()
    stop = whole[len(whole) // 2:][:4]
    answer = client.chat.completions.create(
        model=model, messages=question, max_tokens=16, temperature=0, stop=["never said", stop])
    assert answer.choices[0].message.content == whole[:whole.index(stop)], (answer, whole)
    assert answer.choices[0].finish_reason == "stop"


def completes_text():
    answer = client.completions.create(model=model, prompt="The capital of France is", max_tokens=8, temperature=0)
    assert answer.object == "text_completion" and answer.choices[0].text.startswith(" Paris"), answer
    streamed = client.completions.create(
        model=model, prompt="The capital of France is", max_tokens=8, temperature=0, stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed if chunk.choices) == answer.choices[0].text


def errors_by_type():
    raises(openai.NotFoundError, 404, "model_not_found", "model", model="no-such-model")
    error = raises(openai.BadRequestError, 400, "context_length_exceeded", "messages",
                   messages=[{"role": "user", "content": "many words " * 20_000}])
    window = client.models.list().data[0].context_window
    assert str(window) in error.message, error.message
    try:
        OpenAI(base_url=base_url, api_key="sk-wrong", max_retries=0).models.list()
    except openai.AuthenticationError as error:
        assert error.status_code == 401 and error.code == "invalid_api_key", error
        assert "sk-wrong" not in str(error)
    else:
        raise AssertionError("a wrong key is let in")


def cancels_mid_stream():
    def status():
        with urllib.request.urlopen(admin_url + "/status") as answer:
            return json.load(answer)

    before = status()
    stream = client.chat.completions.create(
        model=model, messages=question, max_tokens=1000, temperature=0, stream=True, logit_bias=no_end())
    for _ in zip(range(3), stream):
        pass
    stream.close()
    deadline = time.monotonic() + 10
    while True:
        after = status()
        if after["requests"]["cancelled"] == before["requests"]["cancelled"] + 1 and leased(after) == 0:
            return
        assert time.monotonic() < deadline, after
        time.sleep(0.01)


def leased(status):
    return status["engine"]["leased"]


def no_end():
    """A bias that keeps the model from ending by itself; 2 is its end of turn."""
    return {"2": -100}


for check in (list_models, answers, streams_the_same, gives_logprobs, several_choices_and_seeds, stops_at_a_stop,
              completes_text, errors_by_type, cancels_mid_stream):
    start = time.monotonic()
    check()
    print(f"{check.__name__}: {time.monotonic() - start:.2f} s", flush=True)
