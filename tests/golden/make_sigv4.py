#!/usr/bin/env python3
# Makes tests/golden/sigv4.txt: requests and their signatures by botocore, which signs for the AWS tools. A row has
# method, host, path, query, SHA-256 of the body, region, service, time, access key, secret key, session token,
# further headers (name=value, separated by ;) and the signature, separated by tabs; "-" stands for nothing.
# The first four are the examples of Amazon S3's documentation of signatures in the Authorization header, with the
# signatures printed there: the script fails if botocore disagrees.
# usage: python3 tests/golden/make_sigv4.py    (needs botocore)
import calendar, hashlib, os, random, time, urllib.parse
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

EMPTY = hashlib.sha256(b"").hexdigest()
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
HOST = "examplebucket.s3.amazonaws.com"
WELCOME = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()
published = [
    ("GET", "/test.txt", "", EMPTY, {"range": "bytes=0-9"},
     "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
    ("PUT", "/test%24file.text", "", WELCOME,
     {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"},
     "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"),
    ("GET", "/", "lifecycle=", EMPTY, {}, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
    ("GET", "/", "max-keys=2&prefix=J", EMPTY, {}, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
]


def sign(row):
    method, host, path, query, body, region, service, when, key, secret, token, headers = row
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(when))
    auth = (S3SigV4Auth if service == "s3" else SigV4Auth)(Credentials(key, secret, token or None), service, region)
    request = AWSRequest(method=method, url=f"https://{host}{path}" + (f"?{query}" if query else ""))
    request.context["timestamp"] = stamp
    request.headers["X-Amz-Date"] = stamp
    request.headers["X-Amz-Content-SHA256"] = body
    if token:
        request.headers["X-Amz-Security-Token"] = token
    for name, value in headers.items():
        request.headers[name] = value
    canonical = auth.canonical_request(request)
    return auth.signature(auth.string_to_sign(request, canonical), request)


def print_row(out, row, signature):
    *fields, headers = row
    fields.append(";".join(f"{name}={value}" for name, value in headers.items()))
    out.write("\t".join(str(field) if field != "" else "-" for field in fields + [signature]) + "\n")


random.seed(18)
with open(os.path.join(os.path.dirname(__file__), "sigv4.txt"), "w") as out:
    when = calendar.timegm((2013, 5, 24, 0, 0, 0))
    for method, path, query, body, headers, signature in published:
        row = (method, HOST, path, query, body, "us-east-1", "s3", when, KEY, SECRET, "", headers)
        got = sign(row)
        assert got == signature, (method, path, got, signature)
        print_row(out, row, got)
    for i in range(40):
        service = "sts" if i % 8 == 7 else "s3"
        letters = "abcXYZ019-_.~ /+=&%äß漢*'()"
        key = "".join(random.choice(letters) for _ in range(random.randint(0, 40)))
        path = "/" if service == "sts" else "/" + urllib.parse.quote(key, safe="/-_.~")
        names = sorted({"".join(random.choice("abcdef-") for _ in range(4)) for _ in range(random.randint(0, 3))})
        query = "&".join(f"{n}={urllib.parse.quote(random.choice(letters) * 2, safe='-_.~')}" for n in names)
        row = (random.choice(["GET", "PUT", "POST", "DELETE"]),
               random.choice(["b.s3.eu-west-1.amazonaws.com", "127.0.0.1:9000", "s3.us-gov-west-1.amazonaws.com"]), path,
               query, hashlib.sha256(os.urandom(0) + str(i).encode()).hexdigest(),
               random.choice(["eu-west-1", "us-east-2", "cn-north-1"]), service, random.randint(10**9, 2 * 10**9),
               "AKID" + str(i), "secret/" + "x" * random.choice([3, 33, 80]), random.choice(["", "token/+=" * 5]),
               {"range": f"bytes={i}-{i * 7}"} if i % 3 == 0 else {})
        print_row(out, row, sign(row))
