"""One case of the official OpenAI client behind `brownout proxy`: openai_client.py CASE PROXY_URL SERVER_URL

Ends with 0 when the client saw what the case says, with a traceback when not. `tests/real/openai.rs` starts the proxy with the
fault of the same name and calls this."""

import contextlib
import json
import statistics
import sys
import threading
import time

import openai

CASE, PROXY, SERVER = sys.argv[1:]


def client(url=PROXY, **options):
    return openai.OpenAI(**{"base_url": url + "/v1", "api_key": "none", "max_retries": 0, "timeout": 20.0} | options)


MODEL = client(SERVER).models.list().data[0].id
ASK = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Say something about the weather in the mountains, please."}],
    "max_tokens": 12,
    "temperature": 0,
    "seed": 1,
}


def whole(c=None, **options):
    return (c or client()).chat.completions.create(**ASK | options)


class Streamed:
    """A stream read to its end: texts with their times, finish reason, usage."""

    def __init__(self, c=None, **options):
        self.texts, self.times, self.finish, self.usage, self.models = [], [], None, None, set()
        begin = time.monotonic()
        stream = (c or client()).chat.completions.create(
            **ASK | {"stream": True, "stream_options": {"include_usage": True}} | options
        )
        self.headers_after = time.monotonic() - begin
        self.headers = stream.response.headers
        for chunk in stream:
            self.models.add(chunk.model)
            self.usage = chunk.usage or self.usage
            for choice in chunk.choices:
                self.finish = choice.finish_reason or self.finish
                if choice.delta.content:
                    self.texts.append(choice.delta.content)
                    self.times.append(time.monotonic() - begin)

    @property
    def text(self):
        return "".join(self.texts)

    @property
    def gaps(self):
        return [b - a for a, b in zip(self.times, self.times[1:])]


@contextlib.contextmanager
def raises(*kinds, says=None):
    """The block must raise exactly one of `kinds`: a subclass is another kind."""
    caught = {}
    try:
        yield caught
    except Exception as error:  # noqa: BLE001  any other kind is what the case is about
        assert type(error) in kinds, f"{type(error).__mro__} instead of {kinds}: {error}"
        assert says is None or says in str(error), f"{says!r} is not in {str(error)!r}"
        caught["error"] = error
    else:
        raise AssertionError(f"none of {kinds} was raised")


def took(call):
    begin = time.monotonic()
    result = call()
    return time.monotonic() - begin, result


# --- nothing armed ---------------------------------------------------------------------------------------------------


def unchanged():
    direct, proxied = whole(client(SERVER)), whole()
    assert proxied.choices[0].message.content == direct.choices[0].message.content
    assert proxied.choices[0].finish_reason == direct.choices[0].finish_reason
    assert proxied.usage.completion_tokens == direct.usage.completion_tokens == 12
    raw = client().chat.completions.with_raw_response.create(**ASK)
    assert "x-brownout-fault" not in raw.headers
    assert [m.id for m in client().models.list().data] == [m.id for m in client(SERVER).models.list().data]
    embed = {"model": MODEL, "input": "mountains"}
    assert client().embeddings.create(**embed).data[0].embedding == client(SERVER).embeddings.create(**embed).data[0].embedding


def unchanged_stream():
    direct, proxied = Streamed(client(SERVER)), Streamed()
    assert proxied.texts == direct.texts and len(proxied.texts) == 12
    assert proxied.finish == direct.finish == "length"
    assert proxied.usage.completion_tokens == direct.usage.completion_tokens == 12
    assert "x-brownout-fault" not in proxied.headers


# --- time ------------------------------------------------------------------------------------------------------------


def latency():
    seconds, answer = took(whole)
    assert seconds >= 1.0 and answer.choices[0].message.content
    assert Streamed().headers_after >= 1.0
    with raises(openai.APITimeoutError):
        whole(client(timeout=0.5))


def first_token_delay():
    seen = Streamed()
    assert seen.headers_after < 0.9, "headers come in time"
    assert seen.times[0] >= 1.0 and seen.text == Streamed(client(SERVER)).text


def slow_tokens():
    seen = Streamed()
    assert statistics.median(seen.gaps) >= 0.1, seen.gaps
    assert seen.text == Streamed(client(SERVER)).text


def stall():
    seen = Streamed()
    assert [i for i, gap in enumerate(seen.gaps) if gap >= 0.95] == [2], seen.gaps
    assert len(seen.texts) == 12
    # The client's own read timeout fires in the middle of the stream.
    with raises(openai.APITimeoutError, openai.httpx.ReadTimeout if hasattr(openai, "httpx") else openai.APITimeoutError) as caught:
        Streamed(client(timeout=0.4))
    assert caught["error"]


def bandwidth():
    # 12 events of more than 150 bytes each at 1,000 bytes a second.
    seconds, seen = took(Streamed)
    assert seconds >= 1.5 and len(seen.texts) == 12, seconds


def blackhole():
    with raises(openai.APITimeoutError):
        whole(client(timeout=1.0))


# --- cut answers -----------------------------------------------------------------------------------------------------


def truncate():
    seen = Streamed()
    # No exception: the client takes the answer for whole. Only the missing finish reason tells.
    assert len(seen.texts) == 4 and seen.finish is None and seen.usage is None


def truncate_length():
    seen = Streamed()
    assert len(seen.texts) == 4 and seen.finish == "length"


def disconnect():
    for call in (whole, Streamed):
        with raises(openai.APIConnectionError):
            call()


def disconnect_midstream():
    texts = []
    try:
        for chunk in client().chat.completions.create(**ASK | {"stream": True}):
            texts += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    except Exception as error:  # noqa: BLE001  the client lets its transport's own kinds through here
        names = {kind.__name__ for kind in type(error).__mro__}
        assert names & {"APIConnectionError", "ReadError", "RemoteProtocolError"}, names
    else:
        raise AssertionError("a cut connection went unnoticed")
    assert len(texts) == 3, texts


# --- errors ----------------------------------------------------------------------------------------------------------


def http_error():
    for call in (whole, Streamed):
        with raises(openai.InternalServerError) as caught:
            call()
        error = caught["error"]
        assert error.status_code == 503 and error.response.headers["x-brownout-fault"] == "http-error"
        assert isinstance(error.body, dict) and error.body["message"], error.body


def http_error_401():
    with raises(openai.AuthenticationError):
        whole()


def http_error_404():
    with raises(openai.NotFoundError):
        whole()


def http_error_429():
    with raises(openai.RateLimitError) as caught:
        whole()
    assert caught["error"].response.headers["retry-after"] == "1"
    # The client's own retry honours Retry-After, and the second request is let through (maxHits: 2).
    seconds, answer = took(lambda: whole(client(max_retries=1)))
    assert 0.9 <= seconds < 5 and answer.choices[0].message.content, seconds


def rate_limit():
    whole(), whole()
    with raises(openai.RateLimitError) as caught:
        whole()
    headers = caught["error"].response.headers
    assert 0 < float(headers["retry-after"]) <= 31, headers
    assert headers["x-ratelimit-limit-requests"] == "2" and headers["x-ratelimit-remaining-requests"] == "0", headers


def inband_error():
    texts = []
    with raises(openai.APIError, says="overloaded by test"):
        for chunk in client().chat.completions.create(**ASK | {"stream": True}):
            texts += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    assert len(texts) == 3, texts


def context_overflow():
    with raises(openai.BadRequestError) as caught:
        whole()
    assert caught["error"].code == "context_length_exceeded", caught["error"].body


def wrong_model_not_found():
    with raises(openai.NotFoundError) as caught:
        whole()
    assert caught["error"].code == "model_not_found", caught["error"].body


def queue():
    # Three at once, one place, nobody may wait.
    outcomes, lock = [], threading.Lock()

    def one():
        try:
            outcome = len(whole(max_tokens=60).choices)
        except openai.InternalServerError as error:
            outcome = error.status_code
        with lock:
            outcomes.append(outcome)

    threads = [threading.Thread(target=one) for _ in range(3)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert 1 in outcomes and 503 in outcomes, outcomes


# --- wrong content ---------------------------------------------------------------------------------------------------


def wrong_model():
    assert whole().model == "other-model"
    assert Streamed().models == {"other-model"}


def corrupt_tokens():
    direct, seen = Streamed(client(SERVER)), Streamed()
    assert len(seen.texts) == len(direct.texts) and seen.text != direct.text
    assert seen.finish == direct.finish


def empty_response():
    assert not whole().choices[0].message.content
    seen = Streamed()
    assert seen.text == "" and seen.finish == "stop"


def empty_response_body():
    with raises(json.JSONDecodeError, openai.APIResponseValidationError):
        whole()
    assert Streamed().texts == []


def malformed_json():
    with raises(json.JSONDecodeError):
        Streamed()


def malformed_utf8():
    with raises(UnicodeDecodeError):
        Streamed()


def usage_lie():
    # The server counts 12.
    assert whole().usage.completion_tokens == 36 and Streamed().usage.completion_tokens == 36


def cache_bust():
    def cached(url):
        words = " ".join(f"word{i}" for i in range(400))
        ask = {"messages": [{"role": "user", "content": words}], "max_tokens": 2}
        [whole(client(url), **ask) for _ in range(2)]
        details = whole(client(url), **ask).usage.prompt_tokens_details
        return details.cached_tokens if details else 0

    direct, busted = cached(SERVER), cached(PROXY)
    assert direct >= 64 and busted < direct / 4, (direct, busted)


globals()[CASE]()
