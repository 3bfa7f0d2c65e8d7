#!/bin/sh
# Checks a release with openssl, jq and coreutils alone: no Python, nothing of crowdblend.
#
#   verify-release.sh FOLDER PUBLIC_KEY.pem
#
# Holds where it says so and leaves with 0: the publisher's key signed this certificate, the certificate is in its one
# form, and the folder has the files that it names, byte for byte, and nothing else. It doesn't compute the price again
# from the mechanism, nor look at the other fields: `crowdblend verify` does.
set -eu
[ $# -eq 2 ] || { echo "usage: verify-release.sh FOLDER PUBLIC_KEY.pem" >&2; exit 2; }
# Each path begins with / or ./, so that none is read as an option, or looked for in CDPATH.
case $1 in /*) folder=$1 ;; *) folder=./$1 ;; esac
case $2 in /*) key=$2 ;; *) key=./$2 ;; esac
certificate=$folder/certificate.json
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "does not hold: $1" >&2; exit 1; }

{ [ -f "$certificate" ] && [ ! -L "$certificate" ]; } || fail "no certificate"
# jq reads several documents one after the other, and leaves with the status of the last one.
jq -es 'length == 1' "$certificate" > "$work/said" || fail "the certificate is not one document"
number=$(jq -er '.format | capture("\\Acrowdblend-certificate/(?<n>[0-9]+)\\z").n' "$certificate") || fail "no certificate"
jq --indent 2 -S . "$certificate" | cmp -s - "$certificate" || fail "the certificate is not in its one form"

# What is signed: a line that says what it is, then the certificate without the signature's value, sorted, in ASCII.
{ printf 'crowdblend certificate %s\n' "$number"; jq -jcSa 'del(.signature.value)' "$certificate"; } > "$work/message"
openssl pkey -pubin -in "$key" -outform DER > "$work/der" || fail "this is no public key"
tail -c 32 "$work/der" > "$work/key"
jq -e --arg key "$(basenc --base16 -w 0 "$work/key" | tr A-F a-f)" --arg id "$(sha256sum < "$work/key" | cut -c 1-16)" \
    '.signature == {algorithm: "Ed25519", key_id: $id, public_key: $key, value: .signature.value}' "$certificate" \
    > "$work/said" || fail "this key did not sign this certificate"
# In these patterns `$` would also match before a line feed at the end, \z doesn't.
jq -er '.signature.value | select(test("\\A[0-9a-f]{128}\\z"))' "$certificate" | tr -d '\n' | tr a-f A-F |
    basenc --base16 -d > "$work/signature" || fail "there is no signature"
openssl pkeyutl -verify -pubin -inkey "$key" -rawin -in "$work/message" -sigfile "$work/signature" > "$work/said" 2>&1 ||
    fail "this key did not sign this certificate"

jq -e '.files | length > 0 and (keys | all(test("\\A([a-z]+/)?[A-Za-z0-9][A-Za-z0-9._-]*\\z"))) and
    all(test("\\A[0-9a-f]{64}\\z"))' "$certificate" > "$work/said" || fail "a file's name or digest"
# Plain files alone, each with its type: a link, a pipe or an empty folder is another line.
jq -r '"f \(.files | keys[])", "f certificate.json"' "$certificate" | LC_ALL=C sort > "$work/named"
find "$folder/" -mindepth 1 \( ! -type d -o -empty \) -printf '%y %P\n' > "$work/found" || fail "the folder can't be read"
LC_ALL=C sort "$work/found" | cmp -s - "$work/named" || fail "the folder has other files than the certificate names"
jq -r '.files | to_entries[] | "\(.value)  \(.key)"' "$certificate" > "$work/sums"
(cd "$folder" && sha256sum --check --strict --quiet "$work/sums") || fail "a file is not as it was published"
# What is printed is one line.
jq -er 'select(.release_id | test("\\A[A-Za-z0-9][A-Za-z0-9._:+@-]{0,127}\\z")) |
    select(.dataset | test("\\A[^\\p{C}\\p{Zl}\\p{Zp}]+\\z")) |
    select(.guarantee | [.epsilon, .delta] | all(test("\\A(0|[1-9][0-9]*)(\\.[0-9]*[1-9])?\\z"))) |
    "holds: release \(.release_id) of '"'\(.dataset)'"', with (ε, δ) = (\(.guarantee.epsilon), \(.guarantee.delta))"' \
    "$certificate" || fail "a name, an id or a price"
