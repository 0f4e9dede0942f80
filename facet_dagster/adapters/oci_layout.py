"""An OCI image layout in a folder, filled from archives of `docker save` (image-spec 1.0).

Blobs are named by their content, and index.json is written after them: a copy that broke off names no image it lacks.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import IO, Any

from facet_dagster.errors import ConfigError, SandboxError

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_NAME = "org.opencontainers.image.ref.name"
_GZIP = b"\x1f\x8b"
_CHUNK = 1024 * 1024
# What of a configuration only says on which machine the image was made.
_FOREIGN = ("container", "container_config", "docker_version", "parent", "id")
OURS = "facet."  # labels


class OciLayout:
    """The images of one folder. Raises ConfigError for a folder that holds something else."""

    def __init__(self, folder: Path) -> None:
        if folder.exists() and any(folder.iterdir()) and not (folder / "oci-layout").is_file():
            raise ConfigError(f"{folder} is there and is no OCI layout: name another folder")
        self._folder, self._blobs = folder, folder / "blobs" / "sha256"
        self._blobs.mkdir(parents=True, exist_ok=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}', encoding="utf-8")
        self._layers: dict[str, dict[str, Any]] = {}

    def add(self, saved: IO[bytes], name: str) -> str:
        """Take in the one image of an archive under ``name``; gives its manifest's digest. Raises SandboxError."""
        try:
            with tarfile.open(fileobj=saved, mode="r:") as tar:
                told = json.load(_member(tar, "manifest.json"))[0]
                config = json.load(_member(tar, told["Config"]))
                diffs = config["rootfs"]["diff_ids"]
                layers = [self._layer(tar, *one) for one in zip(told["Layers"], diffs, strict=True)]
        except (tarfile.TarError, KeyError, ValueError, EOFError) as error:
            raise SandboxError(f"The engine's archive of {name} cannot be read: {error}") from error
        described = self._put(_json(_portable(config)), _CONFIG)
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": described, "layers": layers}
        entry = self._put(_json(manifest), _MANIFEST)
        self._name(entry, name)
        return str(entry["digest"])

    def _layer(self, tar: tarfile.TarFile, path: str, diff: str) -> dict[str, Any]:
        if diff not in self._layers:
            with tempfile.TemporaryFile(dir=self._folder) as packed:
                found = _packed(_member(tar, path), packed)
                if found != diff:
                    raise ValueError(f"layer {path} is {found} and not {diff}")
                packed.seek(0)
                self._layers[diff] = self._put_file(packed, _LAYER)
        return self._layers[diff]

    def _put_file(self, content: IO[bytes], media: str) -> dict[str, Any]:
        sum_, size = hashlib.sha256(), 0
        while chunk := content.read(_CHUNK):
            sum_.update(chunk)
            size += len(chunk)
        sha = sum_.hexdigest()
        if not (self._blobs / sha).is_file():
            content.seek(0)
            part = self._blobs / f".{sha}.{os.getpid()}"
            with part.open("wb") as target:
                shutil.copyfileobj(content, target, _CHUNK)
            part.rename(self._blobs / sha)
        return {"mediaType": media, "digest": f"sha256:{sha}", "size": size}

    def _put(self, data: bytes, media: str) -> dict[str, Any]:
        with tempfile.TemporaryFile(dir=self._folder) as content:
            content.write(data)
            content.seek(0)
            return self._put_file(content, media)

    def _name(self, entry: dict[str, Any], name: str) -> None:
        path = self._folder / "index.json"
        known = json.loads(path.read_text(encoding="utf-8"))["manifests"] if path.is_file() else []
        others = [one for one in known if one.get("annotations", {}).get(_NAME) != name]
        manifests = [*others, {**entry, "annotations": {_NAME: name}}]
        part = path.with_suffix(f".{os.getpid()}")
        part.write_bytes(_json({"schemaVersion": 2, "manifests": manifests}))
        part.replace(path)


def _member(tar: tarfile.TarFile, path: str) -> IO[bytes]:
    found = tar.extractfile(path)
    if found is None:
        raise ValueError(f"{path} is no file")
    return found


def _packed(layer: IO[bytes], target: IO[bytes]) -> str:
    """Write ``layer`` compressed, the same bytes for the same content; gives the digest of what it unpacks to."""
    sha, start = hashlib.sha256(), layer.read(2)
    layer.seek(0)
    content = gzip.GzipFile(fileobj=layer) if start == _GZIP else layer
    with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0, compresslevel=6) as packed:
        while chunk := content.read(_CHUNK):
            sha.update(chunk)
            packed.write(chunk)
    return f"sha256:{sha.hexdigest()}"


def _portable(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration without what says who made the image, and where."""
    kept = {name: value for name, value in config.items() if name not in _FOREIGN}
    runs = dict(kept.get("config") or {})
    labels = {name: text for name, text in (runs.pop("Labels", None) or {}).items() if not name.startswith(OURS)}
    runs.pop("Hostname", None)
    runs.pop("Image", None)
    return {**kept, "config": {**runs, **({"Labels": labels} if labels else {})}}


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
