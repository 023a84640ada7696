"""Verifies an audit log with nothing of ours: pymerkle's tree, OpenSSL's Ed25519, and the forms that C2SP publishes.

    audit_log.py FOLDER PUBLIC_KEY      prints "SIZE ROOT_IN_HEX", or fails
"""

import base64
import hashlib
import pathlib
import subprocess
import sys
import tempfile

from pymerkle import InmemoryTree

TILE = 256


def number_path(number):
    parts = [f"{number % 1000:03}"]
    while number := number // 1000:
        parts.insert(0, f"x{number % 1000:03}")
    return "/".join(parts)


def read(folder, kind, number, width):
    name = folder / "tile" / kind / number_path(number)
    partial = name.parent / f"{name.name}.p" / str(width)
    return partial.read_bytes() if width < TILE and partial.exists() else name.read_bytes()


def entries(bundle):
    while bundle:
        length = int.from_bytes(bundle[:2], "big")
        assert len(bundle) >= 2 + length, "a bundle is cut"
        yield bundle[2 : 2 + length]
        bundle = bundle[2 + length :]


def is_signed(text, signature, key):
    """Ed25519 by OpenSSL: it wants the key in its DER form and the rest in files."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        der = bytes.fromhex("302a300506032b6570032100") + key
        for name, content in [("key", der), ("text", text), ("signature", signature)]:
            (folder / name).write_bytes(content)
        command = ["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-rawin"]
        files = ["-inkey", "key", "-in", "text", "-sigfile", "signature"]
        return subprocess.run(command + files, cwd=folder, capture_output=True).returncode == 0


def main(folder, public_key):
    folder = pathlib.Path(folder)
    name, identity, key = public_key.split("+", 2)
    key = base64.b64decode(key, validate=True)
    assert key[0] == 1 and len(key) == 33, "not an Ed25519 key"
    assert hashlib.sha256(name.encode() + b"\n" + key).digest()[:4].hex() == identity, "not the key's hash"

    text, signatures = (folder / "checkpoint").read_bytes().rsplit(b"\n\n", 1)
    text += b"\n"
    origin, size, root = text.decode().splitlines()
    assert origin == name, "another log's checkpoint"
    ours = [line.split(" ")[2] for line in signatures.decode().splitlines() if line.split(" ")[1] == name]
    (signature,) = [base64.b64decode(line) for line in ours]
    assert signature[:4].hex() == identity and is_signed(text, signature[4:], key[1:]), "not signed"

    size, root = int(size), base64.b64decode(root)
    tree, hashes = InmemoryTree(algorithm="sha256"), []
    for number in range((size + TILE - 1) // TILE):
        width = min(TILE, size - number * TILE)
        bundle = list(entries(read(folder, "entries", number, width)))[:width]
        tile = read(folder, "0", number, width)[: width * 32]
        assert len(bundle) == width, "entries are missing"
        for entry in bundle:
            tree.append_entry(entry)
        hashes = [hashlib.sha256(b"\0" + entry).digest() for entry in bundle]
        assert b"".join(hashes) == tile, f"tile {number} is not of its entries"
    assert tree.get_size() == size and tree.get_root() == root, "not the tree that was signed"
    print(size, root.hex())


main(*sys.argv[1:])
