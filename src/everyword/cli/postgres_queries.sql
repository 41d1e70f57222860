-- What commands ask of a database besides what the store asks, by name. `everyword.` stands for the schema. Everything
-- here reads.

-- name: overview
-- Every agent with its newest ended turn that counts, the open turn that runs or is next, and its last message.
select
  a.id, a.epoch, w.at,
  (select count(*) from everyword.turn t where t.agent = a.key),
  (select coalesce(m.draft, m.body) from everyword.message m where m.agent = a.key and m.node = a.leaf),
  l.turn, l.status, l.error, l.ended_at,
  o.turn, o.status, o.attempt, o.accepted_at, o.kind,
  e.at, greatest(a.head, e.seq)
from everyword.agent a
left join everyword.wake w on w.agent = a.key
left join lateral (
  select t.turn, t.status, t.error, t.ended_at from everyword.turn t
  where t.agent = a.key and t.kind in ('chat', 'continuation') and t.ended_at is not null
    and t.status <> 'skipped' and t.generation = a.generation
  order by t.turn desc limit 1
) as l on true
left join lateral (
  select t.turn, t.status, t.attempt, t.accepted_at, t.kind from everyword.turn t
  where t.agent = a.key and t.ended_at is null and t.kind in ('chat', 'continuation', 'calls')
  order by t.status = 'accepted', t.turn limit 1
) as o on true
left join lateral (
  select n.seq, n.at from everyword.event n where n.agent = a.key order by n.seq desc limit 1
) as e on true
where a.head > 0 or e.seq is not null
order by a.key;

-- name: head
select greatest(a.head, (select max(e.seq) from everyword.event e where e.agent = a.key)) from everyword.agent a
  where a.id = $1;

-- name: agent_record
-- What only the database itself knows of an agent: its epoch, its wake-up time, and how many states are gone.
select a.epoch, w.at, coalesce(p.states, 0) from everyword.agent a
  left join everyword.wake w on w.agent = a.key left join everyword.pruned_states p on p.agent = a.key where a.id = $1;

-- name: load_agent
-- The statements that load an agent are those of activate_1, without the taking.
select a.epoch, greatest(a.head, coalesce((select max(e.seq) from everyword.event e where e.agent = a.key), 0)) as head
  from everyword.agent a where a.id = $1;

-- name: load_turns
select t.turn, t.request, t.kind, t.generation, t.node, t.message_id, t.status, t.accepted, t.accepted_at, t.attempt,
  t.chunks, t.reason, t.error, t.detail, t.finish_reason, t.usage, t.ended_at, t.hook_due
  from everyword.turn t join everyword.agent a on a.key = t.agent
  where a.id = $1 and (t.ended_at is null or t.turn in (
    select r.turn from everyword.turn r where r.agent = a.key and r.ended_at is not null order by r.turn desc limit $2))
  order by t.turn;

-- name: load_events
select e.seq, e.at, e.kind, e.turn, e.more, e.body from everyword.event e join everyword.agent a on a.key = e.agent
  join everyword.turn t on t.agent = e.agent and t.turn = e.turn and t.ended_at is null
  where a.id = $1 and e.kind = any ($2) order by e.seq;

-- name: stored_counts
select a.id, (count(*) + sum(e.more))::bigint, max(e.seq) from everyword.event e
  left join everyword.agent a on a.key = e.agent group by e.agent, a.id;

-- name: prunable
-- What retention would take: chunks of turns that ended before $1, and states that were replaced before it.
select coalesce(sum(p.chunks), 0)::bigint, coalesce(sum(p.states), 0)::bigint, coalesce(sum(p.size), 0)::bigint from (
  select e.more + 1 as chunks, 0 as states, length(e.body) as size
    from everyword.event e join everyword.turn t on t.agent = e.agent and t.turn = e.turn
    where e.kind = 'chunk' and t.kind <> 'rsm' and t.ended_at < $1
  union all
  select 0, 1, length(e.body) from everyword.replaced_state s
    join everyword.event_0 e on e.agent = s.agent and e.seq = s.seq where s.at < $1
) as p;

-- name: size
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
  join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r';

-- name: strays
-- Rows of agents that are not there, by table.
select r.name, count(*) from (
  select 'turn' as name, agent from everyword.turn
  union all select 'message', agent from everyword.message
  union all select 'kept', agent from everyword.kept
  union all select 'wake', agent from everyword.wake
  union all select 'page', agent from everyword.page
) as r where not exists (select from everyword.agent a where a.key = r.agent) group by r.name order by r.name;

-- name: pages
-- The agent's own SQL database.
select p.body from everyword.page p join everyword.agent a on a.key = p.agent where a.id = $1 order by p.number;

-- name: nodes
-- The nodes that live, and how many agents with a log and how many open turns each of them owns.
select n.id, n.name, n.url, n.version, n.state, everyword.ms(n.since) as since,
  everyword.ms(n.until) - everyword.ms(clock_timestamp()) as remaining,
  (select count(*) from everyword.agent r join everyword.agent a on a.root = r.key where r.node = n.id
    and (a.head > 0 or exists (select from everyword.event e where e.agent = a.key))) as agents,
  (select count(*) from everyword.agent r join everyword.agent a on a.root = r.key
    join everyword.turn t on t.agent = a.key and t.ended_at is null where r.node = n.id) as open_turns
  from everyword.node n where n.state <> 'gone' order by n.id;
