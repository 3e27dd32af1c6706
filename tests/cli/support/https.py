"""Certificates that a test makes by openssl, and clients that trust them."""

import ssl
import subprocess


def openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


def make_certificate(folder, name="server", days=1, key_options=("-nodes",)):
    """A certificate for 127.0.0.1 and localhost that signs itself. Returns its file and its key's."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", *key_options,
            "-keyout", key, "-out", certificate, "-days", days, "-subj", "/CN=once.test",
            "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost")  # fmt: skip
    return certificate, key


def make_expired_certificate(folder):
    """One that ended years ago. Only `openssl ca` takes dates."""
    certificate, key = folder / "expired.pem", folder / "expired.key"
    request, index = folder / "expired.csr", folder / "index.txt"
    (folder / "ca.cnf").write_text(
        f"[ca]\ndefault_ca = c\n[c]\ndatabase = {index}\nnew_certs_dir = {folder}\nrand_serial = yes\n"
        "policy = p\ndefault_md = sha256\n[p]\ncommonName = supplied\n")
    index.write_text("")
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
            "-keyout", key, "-out", request, "-subj", "/CN=once.test")  # fmt: skip
    openssl("ca", "-batch", "-selfsign", "-config", folder / "ca.cnf", "-in", request, "-keyfile", key,
            "-out", certificate, "-startdate", "20200101000000Z", "-enddate", "20200201000000Z")  # fmt: skip
    return certificate, key


def trusting(certificate):
    return ssl.create_default_context(cafile=str(certificate))
