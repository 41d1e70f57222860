# The worker of this folder on workerd alone: no proxy in front, its storage on disk. BENCH_* are filled in.
using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "disk", disk = (path = "BENCH_FOLDER", writable = true)),
  ],
  sockets = [(name = "http", address = "127.0.0.1:BENCH_PORT", http = (), service = "main")],
);

const worker :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "worker.js")],
  compatibilityDate = "2026-10-01",
  bindings = [(name = "Chat", durableObjectNamespace = "Chat")],
  durableObjectNamespaces = [(className = "Chat", uniqueKey = "bench-chat", enableSql = true)],
  durableObjectStorage = (localDisk = "disk"),
);
