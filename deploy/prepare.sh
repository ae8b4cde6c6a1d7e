#!/bin/sh
# Makes the secrets of compose.yaml in deploy/secrets: passwords, the workbench's token, and a certificate authority with the database's
# certificate. What exists stays. The key of the model server is LLM_AUTH_TOKEN, if that is set.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
cd secrets

for name in database_admin database_owner database_worker database_control web_token; do
  [ -s "$name" ] || openssl rand -hex 24 >"$name"
done
[ -s model_key ] || printf '%s\n' "${LLM_AUTH_TOKEN:-none}" >model_key

if [ ! -s database.crt ]; then
  openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj "/CN=Newel's fleet" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -keyout ca.key -out ca.crt 2>/dev/null
  openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=database -keyout database.key -out database.csr 2>/dev/null
  printf '%s\n' subjectAltName=DNS:database basicConstraints=CA:FALSE keyUsage=digitalSignature extendedKeyUsage=serverAuth \
    subjectKeyIdentifier=hash authorityKeyIdentifier=keyid >database.ext
  openssl x509 -req -in database.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 825 -extfile database.ext -out database.crt 2>/dev/null
  rm database.csr database.ext
fi

# Containers read the files as another user. On this machine, the folder keeps others out.
chmod 644 ./*
chmod 600 ca.key database.key
echo "The secrets are in $PWD. The workbench: http://newel.localhost:8101/#token=$(cat web_token)"
