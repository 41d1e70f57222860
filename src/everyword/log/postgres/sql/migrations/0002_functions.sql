-- Every write is one call, so it ends without its caller: a node that is paused holds no transaction open.

-- Lock the node's fence for the rest of the transaction, or refuse.
create function everyword.check_fence_1(p_node bigint, p_generation int) returns void language plpgsql as $$
begin
  perform 1 from everyword.fence
    where node = p_node and lane = 0 and generation = p_generation and not is_gone for share;
  if not found then
    raise exception 'node % was declared gone, or has a newer connection', p_node using errcode = 'EW002';
  end if;
end $$;

-- The same for a connection that writes databases of agents.
create function everyword.check_lane_1(p_node bigint, p_lane int, p_generation int) returns void language plpgsql as $$
begin
  perform 1 from everyword.fence
    where node = p_node and lane = p_lane and generation = p_generation and not is_gone for share;
  if not found then
    raise exception 'node % was declared gone, or has a newer connection', p_node using errcode = 'EW002';
  end if;
end $$;

-- Return the keys of the agents that have another owner or another epoch. If there are any, nothing was written.
create function everyword.append_1(
  p_node bigint, p_generation int, p_keys bigint[], p_epochs bigint[], p_roots bigint[], p_terms bigint[],
  e_agent bigint[], e_seq bigint[], e_part int[], e_epoch int[], e_at bigint[], e_kind text[], e_turn bigint[],
  e_more int[], e_body bytea[]
) returns bigint[] language plpgsql as $$
declare lost bigint[];
begin
  perform everyword.check_fence_1(p_node, p_generation);
  select array_agg(k.key) into lost from unnest(p_keys, p_epochs, p_roots, p_terms) as k (key, epoch, root, term)
    left join everyword.agent a on a.key = k.key and a.epoch = k.epoch
    left join everyword.agent r on r.key = k.root and r.node = p_node and r.term = k.term
    where a.key is null or r.key is null;
  if lost is null then
    insert into everyword.event (agent, seq, part, epoch, at, kind, turn, more, body)
      select * from unnest(e_agent, e_seq, e_part, e_epoch, e_at, e_kind, e_turn, e_more, e_body);
  end if;
  return lost;
end $$;

-- Note which states the states at these places have replaced.
create function everyword.replace_states_1(s_agent bigint[], s_seq bigint[], s_at bigint[]) returns void language sql as $$
  insert into everyword.replaced_state (agent, seq, at)
    select s.agent, old.seq, s.at from unnest(s_agent, s_seq, s_at) as s (agent, seq, at)
    cross join lateral (
      select e.seq from everyword.event_0 e where e.agent = s.agent and e.seq < s.seq and e.kind = 'state.set'
      order by e.seq desc limit 1
    ) as old
    on conflict do nothing;
$$;

create function everyword.put_rows_1(
  h_agent bigint[], h_seq bigint[], r_agent bigint[], r_node bigint[], cleared bigint[],
  turns everyword.turn_row_1[], messages everyword.message_row_1[], keeps everyword.kept_row_1[],
  drops everyword.kept_row_1[], agents everyword.agent_row_1[], w_agent bigint[], w_at bigint[], unwoken bigint[]
) returns void language plpgsql as $$
begin
  if cleared <> '{}' then delete from everyword.message where agent = any (cleared); end if;
  if r_agent <> '{}' then
    delete from everyword.message m using unnest(r_agent, r_node) as r (agent, node)
      where m.agent = r.agent and m.node = r.node;
  end if;
  if turns <> '{}' then
    insert into everyword.turn (agent, turn, request, kind, generation, node, message_id, status, accepted, accepted_at,
        attempt, chunks, reason, error, detail, finish_reason, usage, ended_at, hook_due, part, first_seq)
      select * from unnest(turns)
      on conflict (agent, turn) do update set (request, kind, generation, node, message_id, status, accepted,
        accepted_at, attempt, chunks, reason, error, detail, finish_reason, usage, ended_at, hook_due) = row (
        excluded.request, excluded.kind, excluded.generation, excluded.node, excluded.message_id, excluded.status,
        excluded.accepted, excluded.accepted_at, excluded.attempt, excluded.chunks, excluded.reason, excluded.error,
        excluded.detail, excluded.finish_reason, excluded.usage, excluded.ended_at, excluded.hook_due);
  end if;
  if messages <> '{}' then
    insert into everyword.message (agent, node, parent, id, role, body, draft, at) select * from unnest(messages)
      on conflict (agent, node) do update set (parent, id, role, body, draft, at) = row (
        excluded.parent, excluded.id, excluded.role, excluded.body, excluded.draft, excluded.at);
  end if;
  if drops <> '{}' then
    delete from everyword.kept k using unnest(drops) as d where k.agent = d.agent and k.kind = d.kind and k.key = d.key;
  end if;
  if keeps <> '{}' then
    insert into everyword.kept (agent, kind, key, body) select * from unnest(keeps)
      on conflict (agent, kind, key) do update set body = excluded.body;
  end if;
  if agents <> '{}' then
    update everyword.agent a set (generation, leaf, last_turn, last_node) = row (
      n.generation, n.leaf, n.last_turn, n.last_node) from unnest(agents) as n where a.key = n.agent;
  end if;
  update everyword.agent a set head = h.seq from unnest(h_agent, h_seq) as h (agent, seq)
    where a.key = h.agent and a.head < h.seq;
  if unwoken <> '{}' then delete from everyword.wake where agent = any (unwoken); end if;
  if w_agent <> '{}' then
    insert into everyword.wake (agent, at) select * from unnest(w_agent, w_at)
      on conflict (agent) do update set at = excluded.at where wake.at <> excluded.at;
  end if;
end $$;

-- Volatile, so that it sees nodes that came after its statement began: an agent may have been taken by one meanwhile.
create function everyword.is_live(p_node bigint) returns bool language sql volatile as $$
  select exists (select from everyword.node where id = p_node and state <> 'gone');
$$;

-- Take an agent and load it. The statements after the taking have a snapshot of their own: they see everything that
-- the owner before has written.
-- `p_is_known`: the node knows already that it owns the root. Otherwise it also gets the wake times of the whole family.
create function everyword.activate_1(
  p_node bigint, p_generation int, p_agent text, p_root text, p_recent int, p_replayed text[], p_is_known bool,
  out owner bigint, out key bigint, out root bigint, out term bigint, out epoch bigint, out head bigint,
  out last_at bigint,
  out generation bigint, out leaf bigint, out last_turn bigint, out last_node bigint,
  out turns everyword.turn_row_1[], out messages everyword.message_row_1[], out kept everyword.kept_row_1[],
  out events everyword.event_row_1[], out wakes everyword.wake_row_1[]
) language plpgsql as $$
#variable_conflict use_column
declare r record; a record; last record; first bigint;
begin
  perform everyword.check_fence_1(p_node, p_generation);
  select t.key, t.node, t.term into r from everyword.agent t where t.id = p_root;
  if r.key is null or r.node is distinct from p_node then
    insert into everyword.agent as t (key, id, root, epoch, node, term)
      select k, p_root, k, 0, p_node, 1 from nextval(pg_get_serial_sequence('everyword.agent', 'key')) as k
      on conflict (id) do update set node = p_node, term = t.term + 1
        where t.node is null or t.node = p_node or not everyword.is_live(t.node)
      returning t.key, t.node, t.term into r;
    if r.key is null then
      select t.node into activate_1.owner from everyword.agent t where t.id = p_root;
      return;
    end if;
    p_is_known := false;
  end if;
  if not p_is_known then
    activate_1.wakes := array(select row(f.id, w.at)::everyword.wake_row_1 from everyword.wake w
      join everyword.agent f on f.key = w.agent where f.root = r.key);
  end if;
  insert into everyword.agent as t (id, root, epoch) values (p_agent, r.key, 1)
    on conflict (id) do update set epoch = t.epoch + 1
    returning t.key, t.epoch, t.head, t.generation, t.leaf, t.last_turn, t.last_node into a;
  activate_1.key := a.key; activate_1.root := r.key; activate_1.term := r.term; activate_1.epoch := a.epoch;
  activate_1.generation := a.generation; activate_1.leaf := a.leaf;
  activate_1.last_turn := a.last_turn; activate_1.last_node := a.last_node;
  select e.seq, e.at into last from everyword.event e where e.agent = a.key order by e.seq desc limit 1;
  activate_1.head := greatest(a.head, coalesce(last.seq, 0));
  activate_1.last_at := case when activate_1.head = last.seq then last.at else 0 end;
  if activate_1.head = 0 and a.generation is null then
    activate_1.turns := '{}'; activate_1.messages := '{}'; activate_1.kept := '{}'; activate_1.events := '{}';
    if not exists (select from everyword.message m where m.agent = a.key)
       and not exists (select from everyword.kept k where k.agent = a.key)
       and not exists (select from everyword.turn t where t.agent = a.key) then return; end if;
  end if;
  activate_1.turns := array(select row(t.agent, t.turn, t.request, t.kind, t.generation, t.node, t.message_id, t.status,
      t.accepted, t.accepted_at, t.attempt, t.chunks, t.reason, t.error, t.detail, t.finish_reason, t.usage,
      t.ended_at, t.hook_due, t.part, t.first_seq)::everyword.turn_row_1
    from (select * from everyword.turn where agent = a.key and ended_at is null
      union all
      (select * from everyword.turn where agent = a.key and ended_at is not null order by turn desc limit p_recent)) as t
    order by t.turn);
  activate_1.messages := array(select row(m.agent, m.node, m.parent, m.id, m.role, m.body, m.draft, m.at)
    ::everyword.message_row_1 from everyword.message m where m.agent = a.key order by m.node);
  activate_1.kept := array(select row(k.agent, k.kind, k.key, k.body)::everyword.kept_row_1
    from everyword.kept k where k.agent = a.key order by k.kind, k.key);
  activate_1.events := '{}';
  select min(t.first_seq) into first from everyword.turn t where t.agent = a.key and t.ended_at is null;
  if first is not null then
    activate_1.events := array(select row(e.seq, e.at, e.kind, e.turn, e.more, e.body)::everyword.event_row_1
      from everyword.event e join everyword.turn t on t.agent = e.agent and t.turn = e.turn and t.ended_at is null
      where e.agent = a.key and e.seq >= first and e.kind = any (p_replayed) order by e.seq);
  end if;
end $$;

create function everyword.release_1(p_node bigint, p_generation int, p_roots bigint[], p_terms bigint[])
returns void language plpgsql as $$
begin
  perform everyword.check_fence_1(p_node, p_generation);
  update everyword.agent a set node = null from unnest(p_roots, p_terms) as r (root, term)
    where a.key = r.root and a.node = p_node and a.term = r.term;
end $$;

-- Take roots of no live node that have an agent that is due. Return the wake times of all agents below them.
create function everyword.claim_1(p_node bigint, p_generation int, p_until bigint, p_limit int)
returns table (id text, at bigint, root bigint, term bigint) language plpgsql as $$
#variable_conflict use_column
begin
  perform everyword.check_fence_1(p_node, p_generation);
  return query
    with due as (
      select distinct r.key from (
        select a.root from everyword.wake w join everyword.agent a on a.key = w.agent
          join everyword.agent r on r.key = a.root
          where w.at <= p_until and (r.node is null or (r.node <> p_node and not everyword.is_live(r.node)))
          order by w.at, w.agent limit p_limit
      ) as d join everyword.agent r on r.key = d.root
    ), free as (
      select r.key from everyword.agent r where r.key in (select key from due)
        and (r.node is null or not everyword.is_live(r.node)) for update skip locked
    ), taken as (
      update everyword.agent r set node = p_node, term = r.term + 1 from free where r.key = free.key
        returning r.key, r.term
    )
    select a.id, w.at, taken.key, taken.term from taken join everyword.agent a on a.root = taken.key
      join everyword.wake w on w.agent = a.key order by w.at;
end $$;

-- Delete an agent and everything below it. The rows that stay keep old holders of leases out.
create function everyword.destroy_1(p_node bigint, p_generation int, p_key bigint, p_epoch bigint, p_below text)
returns bool language plpgsql as $$
declare keys bigint[]; is_root bool; own record;
begin
  perform everyword.check_fence_1(p_node, p_generation);
  select a.id, a.root, a.term into own from everyword.agent a join everyword.agent r on r.key = a.root
    where a.key = p_key and a.epoch = p_epoch and r.node = p_node for update of a;
  if not found then return false; end if;
  is_root := own.root = p_key;
  keys := array(select p_key union all (select key from everyword.agent where starts_with(id, p_below)
    and root = own.root and key <> p_key order by key));
  delete from everyword.event where agent = any (keys);
  delete from everyword.replaced_state where agent = any (keys);
  delete from everyword.pruned_states where agent = any (keys);
  delete from everyword.turn where agent = any (keys);
  delete from everyword.message where agent = any (keys);
  delete from everyword.kept where agent = any (keys);
  delete from everyword.wake where agent = any (keys);
  delete from everyword.database where agent = any (keys);  -- before the pages: waits for a write that is under way
  delete from everyword.page where agent = any (keys);
  -- New rows, because agents are listed in the order of their creation.
  with gone as (delete from everyword.agent where key = any (keys) returning *),
    top as (select nextval(pg_get_serial_sequence('everyword.agent', 'key')) as key)
  insert into everyword.agent (key, id, root, epoch, node, term)
    select case when g.key = p_key then top.key else nextval(pg_get_serial_sequence('everyword.agent', 'key')) end,
      g.id, case when is_root then top.key else g.root end, g.epoch + 1, g.node, g.term
    from gone g, top order by g.key;
  return true;
end $$;

-- Nodes -----------------------------------------------------------------------------------------------------------

create function everyword.register_1(p_name text, p_url text, p_version int, p_lease interval, out id bigint)
language plpgsql as $$
begin
  insert into everyword.node (name, url, version, state, until)
    values (p_name, p_url, p_version, 'up', clock_timestamp() + p_lease) returning node.id into register_1.id;
  insert into everyword.fence (node, lane) select register_1.id, generate_series(0, 2);
  delete from everyword.node n where n.state = 'gone' and n.until < clock_timestamp() - interval '1 day';
  delete from everyword.fence f where not exists (select from everyword.node n where n.id = f.node);
end $$;

-- A new connection that writes: waits for the writes of the old one, and refuses those that have not begun.
create function everyword.take_fence_1(p_node bigint, p_lane int, out generation int) language sql as $$
  update everyword.fence set generation = generation + 1, backend = pg_backend_pid()
    where node = p_node and lane = p_lane and not is_gone returning generation;
$$;

-- One row for each node; none of them is `p_node` if it was declared gone. Times in milliseconds.
create function everyword.heartbeat_1(p_node bigint, p_lease interval)
returns table (id bigint, name text, url text, version int, state text, since bigint, left_ms bigint, now_ms bigint, started_ms bigint)
language plpgsql as $$
#variable_conflict use_column
begin
  update everyword.node set until = clock_timestamp() + p_lease where id = p_node and state <> 'gone';
  return query select n.id, n.name, n.url, n.version, n.state, everyword.ms(n.since),
    everyword.ms(n.until) - everyword.ms(clock_timestamp()), everyword.ms(clock_timestamp()),
    everyword.ms(pg_postmaster_start_time())
    from everyword.node n where n.state <> 'gone' order by n.id;
end $$;

create function everyword.ms(p_at timestamptz) returns bigint language sql immutable as $$
  select (extract(epoch from p_at) * 1000)::bigint;
$$;

-- Declare a node gone whose lease is over. Waits for its writes that are under way.
create function everyword.declare_gone_1(p_node bigint) returns bool language plpgsql as $$
begin
  perform 1 from everyword.node where id = p_node and state <> 'gone' and until < clock_timestamp() for update;
  if not found then return false; end if;
  update everyword.fence set is_gone = true where node = p_node;
  update everyword.node set state = 'gone' where id = p_node;
  return true;
end $$;

-- A node that ends: its agents are free at once.
create function everyword.leave_1(p_node bigint) returns void language plpgsql as $$
begin
  update everyword.fence set is_gone = true where node = p_node;
  update everyword.node set state = 'gone', until = clock_timestamp() where id = p_node;
  update everyword.agent set node = null where node = p_node;
end $$;

create function everyword.append_with_rows_1(
  p_node bigint, p_generation int, p_keys bigint[], p_epochs bigint[], p_roots bigint[], p_terms bigint[],
  e_agent bigint[], e_seq bigint[], e_part int[], e_epoch int[], e_at bigint[], e_kind text[], e_turn bigint[],
  e_more int[], e_body bytea[], s_agent bigint[], s_seq bigint[], s_at bigint[],
  h_agent bigint[], h_seq bigint[], r_agent bigint[], r_node bigint[], cleared bigint[],
  turns everyword.turn_row_1[], messages everyword.message_row_1[], keeps everyword.kept_row_1[],
  drops everyword.kept_row_1[], agents everyword.agent_row_1[], w_agent bigint[], w_at bigint[], unwoken bigint[]
) returns bigint[] language plpgsql as $$
declare lost bigint[];
begin
  lost := everyword.append_1(p_node, p_generation, p_keys, p_epochs, p_roots, p_terms,
    e_agent, e_seq, e_part, e_epoch, e_at, e_kind, e_turn, e_more, e_body);
  if lost is null then
    perform everyword.put_rows_1(h_agent, h_seq, r_agent, r_node, cleared, turns, messages, keeps, drops, agents,
      w_agent, w_at, unwoken);
    if s_agent <> '{}' then perform everyword.replace_states_1(s_agent, s_seq, s_at); end if;
  end if;
  return lost;
end $$;

-- Replace the projections of an agent. Where the chunks of its turns are is seen from the events. Return false if nothing
-- was written, because the agent has another owner or another epoch.
create function everyword.replace_rows_1(
  p_node bigint, p_generation int, p_key bigint, p_epoch bigint, p_root bigint, p_term bigint,
  h_agent bigint[], h_seq bigint[], r_agent bigint[], r_node bigint[], cleared bigint[],
  turns everyword.turn_row_1[], messages everyword.message_row_1[], keeps everyword.kept_row_1[],
  drops everyword.kept_row_1[], agents everyword.agent_row_1[], w_agent bigint[], w_at bigint[], unwoken bigint[]
) returns bool language plpgsql as $$
begin
  perform everyword.check_fence_1(p_node, p_generation);
  perform 1 from everyword.agent where key = p_key for update;
  if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return false; end if;
  delete from everyword.turn where agent = p_key;
  delete from everyword.message where agent = p_key;
  delete from everyword.kept where agent = p_key;
  delete from everyword.wake where agent = p_key;
  update everyword.agent set generation = null, leaf = null, last_turn = null, last_node = null where key = p_key;
  perform everyword.put_rows_1(h_agent, h_seq, r_agent, r_node, cleared, turns, messages, keeps, drops, agents,
    w_agent, w_at, unwoken);
  update everyword.turn t set part = e.part, first_seq = e.first from (
    select turn, max(part) as part, min(seq - more) as first from everyword.event
      where agent = p_key and turn is not null group by turn
  ) as e where t.agent = p_key and t.turn = e.turn;
  return true;
end $$;

-- Databases of agents ---------------------------------------------------------------------------------------------

create function everyword.holds_lease_1(p_node bigint, p_key bigint, p_epoch bigint, p_root bigint, p_term bigint)
returns bool language sql as $$
  select exists (select from everyword.agent where key = p_key and epoch = p_epoch)
    and exists (select from everyword.agent where key = p_root and node = p_node and term = p_term);
$$;

-- Open the database of an agent: wait for a write of its pages, and refuse those of all earlier openings. Return the
-- number of the opening; null if the agent has another owner or another epoch.
create function everyword.open_database_1(
  p_node bigint, p_lane int, p_fence int, p_key bigint, p_epoch bigint, p_root bigint, p_term bigint, out opening bigint
) language plpgsql as $$
begin
  perform everyword.check_lane_1(p_node, p_lane, p_fence);
  perform 1 from everyword.database where agent = p_key for no key update;
  if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return; end if;
  insert into everyword.database as d (agent, generation) values (p_key, 1)
    on conflict (agent) do update set generation = d.generation + 1 returning d.generation into opening;
end $$;

-- Write the pages that a statement has changed; the database has `p_count` pages now. Return false if nothing was
-- written, because the agent has another owner or its database was opened again.
create function everyword.put_pages_1(
  p_node bigint, p_lane int, p_fence int, p_key bigint, p_epoch bigint, p_root bigint, p_term bigint,
  p_opening bigint, p_count int, p_numbers int[], p_bodies bytea[]
) returns bool language plpgsql as $$
begin
  perform everyword.check_lane_1(p_node, p_lane, p_fence);
  perform 1 from everyword.database where agent = p_key and generation = p_opening for no key update;
  if not found then return false; end if;
  -- After the lock: a new owner that has not opened the database yet will wait for this transaction when it does.
  if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return false; end if;
  insert into everyword.page (agent, number, body) select p_key, * from unnest(p_numbers, p_bodies)
    on conflict (agent, number) do update set body = excluded.body;
  delete from everyword.page where agent = p_key and number >= p_count;
  return true;
end $$;
