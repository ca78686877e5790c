"""A port before a broker's that passes requests on and answers some of them with lies."""

import random
import socket
import struct
import threading
import time
from contextlib import contextmanager, suppress

from kafka.protocol.metadata import MetadataResponse

LIAR = 1  # its broker id
FIRST_FLEXIBLE = 9  # version of Metadata whose header has tags
ANSWERED = {
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    18: "ApiVersions",
    32: "DescribeConfigs",
    35: "DescribeLogDirs",
}
"""Requests that are answered with lies, by API key."""
_LENGTH = struct.Struct(">i")


def flip(rng, body, *_):
    """Some bytes are others."""
    changed = bytearray(body)
    for _ in range(rng.choice((1, 3, 20))):
        changed[rng.randrange(4, len(changed))] = rng.randrange(256)
    return _frame(bytes(changed))


def inflate(rng, body, *_):
    """A number is as large as can be."""
    at = rng.randrange(4, max(5, len(body) - 4))
    return _frame(body[:at] + rng.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0")) + body[at + 4 :])


def cut(rng, body, *_):
    """The end is missing."""
    return _frame(body[: rng.randrange(4, len(body))])


def lengthen(rng, body, *_):
    """There is more than there should be."""
    return _frame(body + rng.randbytes(rng.choice((1, 100, 1 << 20))))


def answer_another(rng, body, *_):
    """The correlation id is another's."""
    return _frame(_LENGTH.pack(rng.randrange(-(1 << 31), 1 << 31)) + body[4:])


def repeat(rng, body, earlier, _):
    """The answer to an earlier request of the same kind."""
    return _frame(body[:4] + rng.choice(earlier)[4:])


def promise_much(rng, body, *_):
    """A frame of two gigabytes, or of less than nothing, that never comes."""
    return _LENGTH.pack(rng.choice((2**31 - 1, -1, 0, 3))) + body[:100]


def drip(_, body, *__):
    """A byte a second."""
    return [bytes([byte]) for byte in _frame(body)]


def hang(_, body, *__):
    """Half of it, and then nothing."""
    return _frame(body)[: 4 + len(body) // 2]


def be_everybody(_, body, __, version):
    """An answer about metadata: this broker has the address of each, and leads all partitions for longest."""
    header = body[: 5 if version >= FIRST_FLEXIBLE else 4]
    reply = MetadataResponse.decode(body[len(header) :], version=version)
    own = next(broker for broker in reply.brokers if broker.node_id == LIAR)
    for broker in reply.brokers:
        broker.port = own.port
    for topic in reply.topics:
        for partition in topic.partitions:
            partition.leader_id, partition.leader_epoch = LIAR, 1_000
    return _frame(header + bytes(reply.encode()))


LIES = (flip, inflate, cut, lengthen, answer_another, repeat, promise_much, drip, hang)


def _frame(body):
    return _LENGTH.pack(len(body)) + body


@contextmanager
def lying_broker(port, behind, seed, *, lies=LIES, answered=tuple(ANSWERED), truth=0.5):
    """Leads a loopback port to the one behind it.

    `lies`: those that are drawn from. `answered`: API keys of the requests that get them.
    `truth`: part of their answers that stay as they are.

    Yields the list of lies told: name and request.
    """
    rng, told, ends = random.Random(seed), [], []

    def serve():
        with suppress(OSError):  # the listener was shut
            while True:
                here, _ = listener.accept()
                there = socket.create_connection(("127.0.0.1", behind))
                ends.extend((here, there))
                asked = {}
                threading.Thread(target=_pass_on, args=(here, there, asked), daemon=True).start()
                threading.Thread(target=answer, args=(there, here, asked), daemon=True).start()

    def answer(there, here, asked):
        earlier = {}
        with suppress(OSError):  # the client has had enough
            for body in _read_frames(there, here):
                api_key, version = asked.pop(_LENGTH.unpack_from(body)[0], (None, None))
                earlier.setdefault(api_key, []).append(body)
                if api_key not in answered or rng.random() < truth:
                    here.sendall(_frame(body))
                    continue
                lie = rng.choice(lies)
                told.append((lie.__name__, ANSWERED[api_key]))
                sent = lie(rng, body, earlier[api_key], version)
                for piece in [sent] if isinstance(sent, bytes) else sent:
                    here.sendall(piece)
                    if isinstance(sent, list):
                        time.sleep(1)

    with socket.create_server(("127.0.0.1", port)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield told
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)
    for end in ends:
        end.close()


def _pass_on(here, there, asked):
    for request in _read_frames(here, there):
        api_key, version, correlation_id = struct.unpack_from(">hhi", request)
        asked[correlation_id] = api_key, version
        there.sendall(_frame(request))


def _read_frames(source, other):
    """Whole frames of a connection until it ends; then the other one ends, too."""
    with suppress(OSError), source.makefile("rb") as stream:
        while len(header := stream.read(4)) == 4:
            (length,) = _LENGTH.unpack(header)
            if len(frame := stream.read(length)) < length:  # it ended amid one
                break
            yield frame
    for end in (source, other):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
