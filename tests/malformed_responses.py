"""Ambiguous or invalid HTTP responses: all of them must be refused.

One table for the reader that refuses them and for the engines, which must not mix up
the next response after that.
"""

from typing import Final

OK: Final = b"HTTP/1.1 200 OK\r\n"
CHUNKED: Final = OK + b"transfer-encoding: chunked\r\n\r\n"

MALFORMED: Final = {
    "length and chunks": OK
    + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "chunks and length": OK
    + b"transfer-encoding: chunked\r\ncontent-length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "two lengths": OK + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "a list of lengths": OK + b"content-length: 3, 4\r\n\r\nabcd",
    "a negative length": OK + b"content-length: -1\r\n\r\na",
    "a signed length": OK + b"content-length: +1\r\n\r\na",
    "a hexadecimal length": OK + b"content-length: 0x1\r\n\r\na",
    "a length of two words": OK + b"content-length: 1 1\r\n\r\na",
    "an empty length": OK + b"content-length:\r\n\r\na",
    "a length beyond 64 bit": OK + b"content-length: 1" + b"0" * 30 + b"\r\n\r\na",
    "gzip, chunked": OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": OK + b"transfer-encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "two transfer-encodings": OK
    + b"transfer-encoding: chunked\r\ntransfer-encoding: gzip\r\n\r\n0\r\n\r\n",
    "identity as transfer-encoding": OK + b"transfer-encoding: identity\r\n\r\nabc",
    "xchunked": OK + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks over HTTP/1.0": b"HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0",
    "gzip": OK + b"content-encoding: gzip\r\ncontent-length: 1\r\n\r\na",
    "folded field": OK + b"x: a\r\n b\r\ncontent-length: 1\r\n\r\na",
    "folded first field": OK + b" x: a\r\ncontent-length: 1\r\n\r\na",
    "bare LF": b"HTTP/1.1 200 OK\ncontent-length: 1\n\na",
    "bare LF after a field": OK + b"content-length: 1\n\r\na",
    "bare CR": b"HTTP/1.1 200 OK\r\rcontent-length: 1\r\r",
    "bare CR in a value": OK + b"x: a\rb\r\ncontent-length: 1\r\n\r\na",
    "NUL in a value": OK + b"x: a\0b\r\ncontent-length: 1\r\n\r\na",
    "control in a value": OK + b"x: a\x01b\r\ncontent-length: 1\r\n\r\na",
    "blank before the colon": OK + b"content-length : 1\r\n\r\na",
    "a field without colon": OK + b"abc\r\n\r\n",
    "a field without name": OK + b": abc\r\n\r\n",
    "a name beyond ASCII": OK + b"x\xe9: a\r\ncontent-length: 1\r\n\r\na",
    "LF after a chunk size": CHUNKED + b"3\nabc\r\n0\r\n\r\n",
    "LF after a chunk": CHUNKED + b"3\r\nabc\n0\r\n\r\n",
    "a chunk longer than told": CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
    "a chunk size beyond 64 bit": CHUNKED + b"f" * 20 + b"\r\nabc",
    "a negative chunk size": CHUNKED + b"-3\r\nabc",
    "0x in a chunk size": CHUNKED + b"0x3\r\nabc",
    "a length among the trailers": CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\ncontent-length: 1\r\n\r\na",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\ncontent-length: 1\r\n\r\na",
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\ncontent-length: 1\r\n\r\na",
    "http in small letters": b"http/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
    "ICY": b"ICY 200 OK\r\n\r\n",
    "RTSP": b"RTSP/1.0 200 OK\r\ncontent-length: 1\r\n\r\na",
    "an empty line first": b"\r\n" + OK + b"content-length: 1\r\n\r\na",
    "no HTTP": b"<html>",
    "101": b"HTTP/1.1 101 X\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "101 without upgrade": b"HTTP/1.1 101 X\r\n\r\n",
    "104 with a body": b"HTTP/1.1 104 X\r\ncontent-length: 3\r\n\r\nabc" + OK,
    "199 with a chunked body": b"HTTP/1.1 199 X\r\ntransfer-encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n0\r\n\r\n" + OK,
    "status 099": b"HTTP/1.1 099 X\r\ncontent-length: 0\r\n\r\n",
    "status 20": b"HTTP/1.1 20 X\r\ncontent-length: 0\r\n\r\n",
    "status 2000": b"HTTP/1.1 2000 X\r\ncontent-length: 0\r\n\r\n",
    "two blanks before the status": b"HTTP/1.1  200 OK\r\ncontent-length: 0\r\n\r\n",
    "close, then more": b"HTTP/1.1 100 X\r\nconnection: close\r\n\r\n" + OK,
}
