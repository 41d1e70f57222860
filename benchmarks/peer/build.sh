#!/bin/sh
# Bundle the worker for workerd; the mail module is the only one that workerd alone does not have.
cd "$(dirname "$0")"
exec node_modules/.bin/esbuild worker.js --bundle --minify --format=esm --target=es2022 --platform=neutral \
  --main-fields=module,main --conditions=workerd,worker,browser '--external:cloudflare:*' '--external:node:*' \
  --alias:path=node:path --alias:cloudflare:email=./email.js --log-level=error --outfile=node_modules/.bench/worker.js
