-- All statements of the store, by name. `everyword.` stands for the schema.

-- name: append
select everyword.append_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: append_with_rows
select everyword.append_with_rows_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,
  $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31);

-- name: replace_rows
select everyword.replace_rows_3($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19);

-- name: key_of
select key from everyword.agent where id = $1;

-- name: activate
select * from everyword.activate_1($1, $2, $3, $4, $5, $6, $7);

-- name: activate_all
-- One transaction, so one flush. In the given order, which is the same on all nodes: two that take the same agents
-- never wait for each other in a circle.
select a.* from unnest($3::text[], $4::text[], $5::int[], $6::bool[])
    with ordinality as given (agent, root, recent, is_known, number),
  lateral everyword.activate_1($1, $2, given.agent, given.root, given.recent, $7, given.is_known) as a
  order by given.number;

-- name: release
select everyword.release_1($1, $2, $3, $4);

-- name: claim
select * from everyword.claim_1($1, $2, $3, $4);

-- name: wakes_of_unknown
-- What this node owns without knowing it: the answer to a claim was lost.
select a.id, w.at, r.key as root, r.term from everyword.agent r join everyword.agent a on a.root = r.key
  join everyword.wake w on w.agent = a.key where r.node = $1 and r.key <> all ($2) order by w.at;

-- name: destroy
select everyword.destroy_1($1, $2, $3, $4, $5);

-- name: read_events
-- A packed row has the events up to its seq: it may begin before the cursor.
select e.seq, e.at, e.kind, e.turn, e.more, e.body from everyword.event e join everyword.agent a on a.key = e.agent
  where a.id = $1 and e.seq > $2 order by e.seq limit $3;

-- name: read_turn
select e.seq, e.at, e.kind, e.turn, e.more, e.body from everyword.event e join everyword.agent a on a.key = e.agent
  where a.id = $1 and e.turn = $2 and e.kind = 'chunk' and e.seq >= coalesce(
    (select t.first_seq from everyword.turn t where t.agent = a.key and t.turn = $2), 0)
  order by e.seq;

-- name: conversation
select a.generation, a.leaf, a.last_turn, a.last_node, m.agent, m.node, m.parent, m.id, m.role, m.body, m.draft, m.at
  from everyword.agent a left join everyword.message m on m.agent = a.key where a.id = $1 order by m.node;

-- name: agent_row
select generation, leaf, last_turn, last_node from everyword.agent where id = $1;

-- name: kept
select k.agent, k.kind, k.key, k.body from everyword.kept k join everyword.agent a on a.key = k.agent
  where a.id = $1 order by k.kind, k.key;

-- name: has
select 1 from everyword.agent a
  where a.id = $1 and (a.head > 0 or exists (select from everyword.event e where e.agent = a.key));

-- name: agents
select a.id from everyword.agent a where starts_with(a.id, $1)
  and (a.head > 0 or exists (select from everyword.event e where e.agent = a.key)) order by a.key;

-- name: agents_named
select a.id from everyword.agent a where a.id > $2 and a.id >= $1 and starts_with(a.id, $1)
  and (a.head > 0 or exists (select from everyword.event e where e.agent = a.key)) order by a.id limit $3;

-- name: find_turn
select t.turn, t.request, t.kind, t.generation, t.node, t.message_id, t.status, t.accepted, t.accepted_at, t.attempt,
  t.chunks, t.reason, t.error, t.detail, t.finish_reason, t.usage, t.ended_at, t.hook_due
  from everyword.turn t join everyword.agent a on a.key = t.agent where a.id = $1 and t.request = $2;

-- name: newest_turns
select t.turn, t.request, t.kind, t.generation, t.node, t.message_id, t.status, t.accepted, t.accepted_at, t.attempt,
  t.chunks, t.reason, t.error, t.detail, t.finish_reason, t.usage, t.ended_at, t.hook_due
  from everyword.turn t join everyword.agent a on a.key = t.agent where a.id = $1 order by t.turn desc limit $2;

-- name: due
select a.id, w.at from everyword.wake w join everyword.agent a on a.key = w.agent
  join everyword.agent r on r.key = a.root
  where w.at <= $1 and (r.node is null or r.node = $3 or not everyword.is_live(r.node))
  order by w.at, w.agent limit $2;

-- name: next_claim
-- Every node asks this every second: with an end, so that agents that wait for tomorrow are not looked at.
select min(w.at) from everyword.wake w join everyword.agent a on a.key = w.agent join everyword.agent r on r.key = a.root
  where w.at > $1 and w.at <= $2 and (r.node is null or not everyword.is_live(r.node));

-- name: owner
select n.id, n.name, n.url, n.version, n.state, everyword.ms(n.since),
  everyword.ms(n.until) - everyword.ms(clock_timestamp())
  from everyword.agent a join everyword.node n on n.id = a.node where a.id = $1 and n.state <> 'gone';

-- name: register
select everyword.register_2($1, $2, $3, $4);

-- name: raise_oldest
select everyword.raise_oldest_1($1);

-- name: heartbeat
select * from everyword.heartbeat_1($1, $2);

-- name: declare_gone
select everyword.declare_gone_1($1);

-- name: end_writes
select pg_terminate_backend(backend) from everyword.fence where node = $1 and backend <> 0;

-- name: leave
select everyword.leave_1($1);

-- name: set_draining
update everyword.node set state = 'draining' where id = $1 and state = 'up';

-- name: take_fence
select everyword.take_fence_1($1, $2);

-- name: open_database
select everyword.open_database_1($1, $2, $3, $4, $5, $6, $7);

-- name: pages
select body from everyword.page where agent = $1 order by number;

-- name: put_pages
select everyword.put_pages_1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11);

-- name: has_pages
select 1 from everyword.page p join everyword.agent a on a.key = p.agent where a.id = $1 limit 1;

-- name: view_version
-- The row of the agent changes with every append that changes rows of it, `deletions` with every step of retention.
select a.key, a.xmin::text, s.deletions, (select max(e.seq) from everyword.event e where e.agent = a.key)
  from everyword.agent a cross join everyword.store s where a.id = $1;

-- name: days
select day from everyword.day;

-- name: make_day
select everyword.make_day_1($1);

-- name: drop_day
select everyword.drop_day_1($1, $2);

-- name: count_deletion
update everyword.store set deletions = deletions + 1;

-- name: lock_store
select 1 from everyword.store for update skip locked;

-- name: prune_states
select everyword.prune_states_1($1, $2);

-- name: prune_chunks
select everyword.prune_chunks_1($1, $2, $3);

-- name: is_more_to_prune
select exists (select from everyword.replaced_state where at < $1) or exists (
  select from everyword.turn t where t.part = any ($2) and t.ended_at < $1 and not t.is_pruned and t.kind <> 'rsm'
    and exists (select from everyword.event e where e.agent = t.agent and e.seq >= t.first_seq and e.part = t.part
      and e.turn = t.turn and e.kind = 'chunk'));

-- name: erase_streams
select everyword.erase_streams_1($1, $2, $3);

-- name: create_store
create table if not exists everyword.store (
  is_one bool primary key default true check (is_one), version int not null, oldest int not null, secret bytea
);

-- name: lock_schema
select pg_advisory_xact_lock($1);

-- name: has_schema
select exists (select from pg_namespace where nspname = $1);

-- name: has_table
select to_regclass($1) is not null;

-- name: store_version
select version, oldest from everyword.store;

-- name: set_store_version
insert into everyword.store (version, oldest) values ($1, $2)
  on conflict (is_one) do update set version = greatest(store.version, $1),
    oldest = greatest(store.oldest, $2);

-- name: read_secret
select secret from everyword.store;

-- name: make_secret
update everyword.store set secret = coalesce(secret, $1) returning secret;

-- name: set_epoch
update everyword.agent set epoch = $2 where key = $1;

-- name: note_replaced_states
insert into everyword.replaced_state (agent, seq, at)
  select s.agent, s.seq, s.replaced_at from (
    select e.agent, e.seq, lead(e.at) over (order by e.seq) as replaced_at
      from everyword.event_0 e where e.agent = $1 and e.kind = 'state.set'
  ) as s where s.replaced_at is not null
  on conflict do nothing;

-- name: set_pruned_states
insert into everyword.pruned_states (agent, states) values ($1, $2);

-- name: add_pages
insert into everyword.page (agent, number, body) select $1, * from unnest($2::int[], $3::bytea[]);

-- A conversation waits for a person while a call of its agent, or of an agent below it, waits for an approval.

-- name: conversations_by_owner
select c.id, c.body, exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting') as waits
  from everyword.conversation c
  where c.owner = $1 and c.archived = $2 and (c.updated, c.id) < ($3, $4)
    and ($5::text is null or (c.status = $5 and not exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting')))
    and ($6::text[] is null or c.kind = any ($6))
  order by c.updated desc, c.id desc limit $7;

-- name: conversations_by_status
select c.id, c.body, false as waits
  from everyword.conversation c
  where c.owner = $1 and c.archived = $2 and (c.updated, c.id) < ($3, $4) and c.status = $5 and c.status <> 'idle'
    and not exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting')
    and ($6::text[] is null or c.kind = any ($6))
  order by c.updated desc, c.id desc limit $7;

-- name: conversations_by_time
select c.id, c.body, exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting') as waits
  from everyword.conversation c
  where $1::text is null and c.archived = $2 and (c.updated, c.id) < ($3, $4)
    and ($5::text is null or (c.status = $5 and not exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting')))
    and ($6::text[] is null or c.kind = any ($6))
  order by c.updated desc, c.id desc limit $7;

-- name: conversations_waiting
select c.id, c.body, true as waits
  from everyword.conversation c
  where c.id in (select p.root from everyword.approval p where p.kind = 'waiting')
    and ($1::text is null or c.owner = $1) and c.archived = $2 and (c.updated, c.id) < ($3, $4)
    and $5::text is not null and ($6::text[] is null or c.kind = any ($6))
  order by c.updated desc, c.id desc limit $7;

-- name: find_conversation
select c.id, c.body, exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting') as waits
  from everyword.conversation c where c.id = $1;

-- name: texts
select t.node, tsvector_to_array(t.words) as words, t.body from everyword.message_text t join everyword.agent a on a.key = t.agent
  where a.id = $1 order by t.node;

-- name: count_texts
select (select count(*) from (
    select 1 from everyword.message_text t where t.words @@ w.term::tsquery limit $2) as found)
  from unnest($1::text[]) with ordinality as w (term, place) order by w.place;

-- name: search_rare
-- Begins with the texts that have the word $9. The others are looked for in their conversations.
select c.id, c.body, w.waits from everyword.conversation c
  cross join lateral (select exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting') as waits) as w
  where c.agent in (select t.agent from everyword.message_text t where t.words @@ $9::text::tsquery)
    and ($1::text is null or c.owner = $1) and c.archived = $2 and (c.updated, c.id) < ($3, $4)
    and ($5::text is null or case when w.waits then 'waiting' else c.status end = $5) and ($6::text[] is null or c.kind = any ($6))
    and not exists (select from unnest($8::text[]) as asked (term) where not exists (
      select from everyword.message_text t where t.agent = c.agent and t.words @@ asked.term::tsquery))
  order by c.updated desc, c.id desc limit $7;

-- name: search_all
-- All texts with one of the words are looked at.
select c.id, c.body, w.waits from everyword.conversation c
  cross join lateral (select exists (select 1 from everyword.approval p where p.root = c.id and p.kind = 'waiting') as waits) as w
  where c.agent in (
      select found.agent from unnest($8::text[]) as asked (term) cross join lateral (
        select distinct t.agent from everyword.message_text t where t.words @@ asked.term::tsquery
      ) as found group by found.agent having count(*) = cardinality($8::text[]))
    and ($1::text is null or c.owner = $1) and c.archived = $2 and (c.updated, c.id) < ($3, $4)
    and ($5::text is null or case when w.waits then 'waiting' else c.status end = $5) and ($6::text[] is null or c.kind = any ($6))
  order by c.updated desc, c.id desc limit $7;

-- name: ids_with_words
select a.id from everyword.agent a where a.id = any ($1::text[])
  and not exists (select from unnest($2::text[]) as asked (term) where not exists (
    select from everyword.message_text t where t.agent = a.key and t.words @@ asked.term::tsquery));

-- name: found_texts
-- Of each conversation the text that a search shows: a message with all words, with one of them, or the title.
select a.id, t.body from everyword.agent a cross join lateral (
    select t.body from everyword.message_text t
      where t.agent = a.key and t.words @@ array_to_string($2::text[], ' | ')::tsquery
      order by t.node > 0 desc, t.words @@ array_to_string($2::text[], ' & ')::tsquery desc, t.node limit 1
  ) as t where a.id = any ($1::text[]);

-- name: waiting_approvals
select p.id, p.key, p.body, c.body as above from everyword.approval p
  left join everyword.conversation c on c.id = p.root
  where p.kind = 'waiting' and (p.at, p.id, p.key) > ($1, $2, $3)
    and ($4::text is null or c.owner = $4) and ($5::text is null or p.root = $5)
  order by p.at, p.id, p.key limit $6;

-- name: settled_approvals
select p.id, p.key, p.body, c.body as above from everyword.approval p
  left join everyword.conversation c on c.id = p.root
  where p.kind = 'settled' and (p.at, p.id, p.key) < ($1, $2, $3)
    and ($4::text is null or c.owner = $4) and ($5::text is null or p.root = $5)
  order by p.at desc, p.id desc, p.key desc limit $6;

-- name: lists_changed
select * from everyword.lists_changed_1($1);

-- name: find_share
select a.id, k.body from everyword.kept k join everyword.agent a on a.key = k.agent
  where k.kind = 'share' and k.key = $1;

-- name: mentioning
select a.key, a.id, exists (select from everyword.event e
    where e.agent = a.key and e.kind <> 'chunk' and position($1::bytea in e.body) > 0) as is_found
  from everyword.agent a where a.key > $2 order by a.key limit $3;

-- name: rewrite
select everyword.rewrite_1($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: rows_of_chunks
select seq, part, more, body from everyword.event e where agent = $1 and kind = 'chunk'
  and exists (select from unnest($2::bigint[]) as changed (seq) where changed.seq between e.seq - e.more and e.seq);

-- name: rewrite_chunks
update everyword.event e set body = new.body from unnest($2::bigint[], $3::int[], $4::bytea[]) as new (seq, part, body)
  where e.agent = $1 and e.seq = new.seq and e.part = new.part and e.kind = 'chunk';

-- name: rename_destroyed
update everyword.agent a set id = $2 || '/' || a.key
  where (a.id = $1 or starts_with(a.id, $3)) and a.head = 0 and not exists (select from everyword.event e where e.agent = a.key);

-- name: mark_erased_change
update everyword.list_change set is_erased = true where id = $1;

-- name: erased_changes
-- Returns no row if there are none.
select (select count(*) from everyword.node where state <> 'gone') > 1 as is_read
  from everyword.list_change where is_erased or owner is not null limit 1;

-- name: forget_erased_changes
with erased as (delete from everyword.list_change where is_erased)
update everyword.list_change set owner = null where owner is not null and not is_erased;

-- name: put_erasure_notes
insert into everyword.erasure (id, key, body) select * from unnest($1::text[], $2::text[], $3::bytea[])
  on conflict (id, key) do update set body = excluded.body;

-- name: erasure_notes
select id, key, body from everyword.erasure order by id, key;
