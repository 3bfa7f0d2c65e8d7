#!/bin/sh
# Checks a release with openssl, jq and coreutils alone: no Python, nothing of crowdblend.
#
#   verify-release.sh FOLDER PUBLIC_KEY.pem
#
# Holds where it says so and leaves with 0: the publisher's key signed this certificate, the certificate is in its one
# form, and the folder has the files that it names, byte for byte, and no other. It doesn't compute the price again from
# the mechanism: `crowdblend verify` does.
set -eu
[ $# -eq 2 ] || { echo "usage: verify-release.sh FOLDER PUBLIC_KEY.pem" >&2; exit 2; }
folder=$1 key=$2 certificate=$1/certificate.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "does not hold: $1" >&2; exit 1; }

number=$(jq -er '.format | capture("^crowdblend-certificate/(?<n>[0-9]+)$").n' "$certificate") || fail "no certificate"
jq --indent 2 -S . "$certificate" | cmp -s - "$certificate" || fail "the certificate is not in its one form"

# What is signed: a line that says what it is, then the certificate without the signature's value, sorted, in ASCII.
{ printf 'crowdblend certificate %s\n' "$number"; jq -jcSa 'del(.signature.value)' "$certificate"; } > "$work/message"
jq -er '.signature.value | select(test("^[0-9a-f]{128}$"))' "$certificate" | tr -d '\n' | tr a-f A-F |
    basenc --base16 -d > "$work/signature" || fail "there is no signature"
openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/message" -sigfile "$work/signature" > "$work/said" 2>&1 ||
    fail "this key did not sign this certificate"

jq -er '.files | keys | all(test("^([a-z]+/)?[A-Za-z0-9][A-Za-z0-9._-]*$"))' "$certificate" > "$work/said" || fail "a file's name"
jq -r '.files | keys[], "certificate.json"' "$certificate" | LC_ALL=C sort > "$work/named"
find "$folder" -mindepth 1 \( ! -type d -o -empty \) -printf '%P\n' | LC_ALL=C sort | cmp -s - "$work/named" ||
    fail "the folder has other files than the certificate names"
jq -r '.files | to_entries[] | "\(.value)  \(.key)"' "$certificate" > "$work/sums"
(cd "$folder" && sha256sum --check --strict --quiet "$work/sums") || fail "a file is not as it was published"
echo "holds: release $(jq -r .release_id "$certificate") of '$(jq -r .dataset "$certificate")', with" \
    "(ε, δ) = ($(jq -r .guarantee.epsilon "$certificate"), $(jq -r .guarantee.delta "$certificate"))"
