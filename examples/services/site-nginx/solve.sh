#!/bin/bash
set -euo pipefail
cd /app
mkdir -p out
python3 - <<'PY'
import csv
from pathlib import Path

rows = list(csv.DictReader(open("data/moved.csv", newline="")))
moved = "".join(
    f'        location = {row["from"]} {{ return {row["code"]} {row["to"]}; }}\n' for row in rows
)
conf = Path("nginx/nginx.conf").read_text()
head, _, _ = conf.partition("    server {")
head = head.replace("nosniff;", "nosniff always;")
server = f"""    server_tokens off;
    absolute_redirect off;
    server {{
        listen 127.0.0.1:8080;
        root /app/site;
        error_page 404 /404.html;
        location ^~ /private/ {{ return 403; }}
        location = /health {{ default_type text/plain; return 200 "ok\\n"; }}
{moved}        location / {{ try_files $uri $uri/index.html =404; }}
    }}
}}
"""
Path("nginx/nginx.conf").write_text(head + server)
with open("out/routes.csv", "w", newline="") as out:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["from", "code", "to"])
    writer.writerows([row["from"], row["code"], row["to"]] for row in rows)
PY
nginx -t -q -c /app/nginx/nginx.conf -e /dev/stderr
nginx -c /app/nginx/nginx.conf -e /dev/stderr -s reload
for _ in $(seq 50); do
    if [ "$(curl --silent http://127.0.0.1:8080/health)" = ok ]; then
        exit 0
    fi
    sleep 0.1
done
echo "the server does not answer with the new configuration" >&2
exit 1
