#!/usr/bin/env bash
# Makes docker/secrets: a random value in a file for each secret of compose.yaml; what is there stays.
# The folder is for its owner only; the files in it are readable, because containers read them under other users' ids.
set -euo pipefail

folder="$(dirname "$0")/secrets"
mkdir -p "$folder"
chmod 700 "$folder"
# Hexadecimal becomes part of a database address; Airflow's Fernet key is 32 bytes in the URL's Base64.
for name in postgres_password airflow_jwt_secret airflow_api_secret_key; do
    test -s "$folder/$name" || openssl rand -hex 32 | tr -d '\n' > "$folder/$name"
done
test -s "$folder/airflow_fernet_key" || openssl rand -base64 32 | tr '+/' '-_' | tr -d '\n' > "$folder/airflow_fernet_key"
chmod 644 "$folder"/*
