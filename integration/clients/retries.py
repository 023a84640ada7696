"""When the official openai client tries again, and when not. Every check prints its name; the first that fails ends with 1.

Usage: retries.py BASE_URL KEY_WITHOUT_BUDGET KEY_WITH_A_LIMIT
"""

import sys

import openai
from openai import OpenAI

base_url, poor_key, limited_key = sys.argv[1:4]
TRIES_MAX = 500
attempts = 0


def count(_):
    global attempts
    attempts += 1


def client(key, max_retries):
    http_client = openai.DefaultHttpxClient(event_hooks={"request": [count]})
    return OpenAI(base_url=base_url, api_key=key, max_retries=max_retries, timeout=120, http_client=http_client)


def ask(of):
    model = "smollm2-135m-instruct"
    return of.chat.completions.create(model=model, messages=[{"role": "user", "content": "Hi."}], max_tokens=1)


def attempts_of(work):
    global attempts
    attempts = 0
    work()
    return attempts


def does_not_try_a_spent_budget_again():
    def work():
        try:
            ask(client(poor_key, 2))
        except openai.RateLimitError as error:
            assert (error.status_code, error.code, error.type) == (429, "insufficient_quota", "insufficient_quota"), error
            assert "begins anew" in error.message, error.message
        else:
            raise AssertionError("there is no budget, and it was answered")

    assert attempts_of(work) == 1, attempts


def does_not_try_a_wrong_key_again():
    def work():
        try:
            ask(client("bh_live_wrong", 2))
        except openai.AuthenticationError as error:
            assert error.code == "invalid_api_key", error
        else:
            raise AssertionError("a wrong key is let in")

    assert attempts_of(work) == 1, attempts


def waits_for_a_limit_and_is_answered():
    once = client(limited_key, 0)
    for _ in range(TRIES_MAX):
        try:
            ask(once)
        except openai.RateLimitError as error:
            assert error.code == "rate_limit_exceeded" and int(error.response.headers["retry-after-ms"]) > 0, error
            break
    else:
        raise AssertionError("the limit is never reached")
    assert attempts_of(lambda: ask(client(limited_key, 3))) > 1, "it was not told to wait"


for check in (does_not_try_a_spent_budget_again, does_not_try_a_wrong_key_again, waits_for_a_limit_and_is_answered):
    check()
    print(check.__name__, flush=True)
