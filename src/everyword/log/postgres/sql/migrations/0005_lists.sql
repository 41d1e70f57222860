-- Lists over all agents. Each row shows a kept row; triggers write it in the transaction of the kept row, so that nodes of
-- the release before, which do not know the lists, need no other functions. The first line of the body of such a kept row
-- has what is selected and sorted by, between tabs; JSON follows, which the database does not read.

create table everyword.conversation (
  agent    bigint primary key,
  id       text collate "C" not null unique,
  kind     text not null,
  status   text not null,
  archived bool not null,
  updated  bigint not null,
  owner    text collate "C" not null,  -- empty: none
  changed  bigint not null,            -- by the database's clock: other nodes look for what is new
  body     bytea not null
) with (fillfactor = 70);
create index conversation_by_owner on everyword.conversation (owner, archived, updated, id);
create index conversation_by_time on everyword.conversation (archived, updated, id);
create index conversation_by_status on everyword.conversation (status, owner, updated, id) where status <> 'idle';
create index conversation_by_change on everyword.conversation (changed);

-- Calls that wait for an approval (kind `waiting`) or got one (`settled`). `root` is the id of the conversation's agent.
create table everyword.approval (
  agent   bigint not null,
  kind    text not null,
  key     text collate "C" not null,
  id      text collate "C" not null,
  root    text collate "C" not null,
  at      bigint not null,
  body    bytea not null,
  primary key (agent, kind, key)
);
create index approval_by_time on everyword.approval (kind, at, id, key);
create index approval_by_root on everyword.approval (root, kind, at, id, key);

-- Agents of which a row of a list was removed or whose calls changed, for an hour. `owner` is that of the conversation that
-- was deleted last.
create table everyword.list_change (id text collate "C" primary key, changed bigint not null, owner text collate "C");
create index list_change_by_time on everyword.list_change (changed);

create function everyword.first_line(p_body bytea) returns text[] language sql immutable as $$
  select string_to_array(convert_from(substring(p_body from 1 for position('\x0a'::bytea in p_body) - 1), 'UTF8'), E'\t');
$$;

-- A change is noted with another time than the one before it, also in the same millisecond: nodes compare the times.
create function everyword.note_list_change(p_id text, p_owner text default null) returns void language sql as $$
  insert into everyword.list_change as c (id, changed, owner) values (p_id, everyword.ms(clock_timestamp()), p_owner)
    on conflict (id) do update set
      changed = greatest(excluded.changed, c.changed + 1), owner = coalesce(excluded.owner, c.owner);
$$;

create function everyword.put_list_row() returns trigger language plpgsql as $$
declare a record; line text[]; root_id text;
begin
  select key, id, root into a from everyword.agent where key = new.agent;
  line := everyword.first_line(new.body);
  if new.kind = 'conversation' then
    if a.root = a.key then
      insert into everyword.conversation as c (agent, id, kind, status, archived, updated, owner, changed, body)
        values (a.key, a.id, split_part(a.id, '/', 1), line[1], line[2] = '1', line[3]::bigint, coalesce(line[4], ''),
          everyword.ms(clock_timestamp()), new.body)
        on conflict (agent) do update set (status, archived, updated, owner, changed, body) = row (
          excluded.status, excluded.archived, excluded.updated, excluded.owner,
          greatest(excluded.changed, c.changed + 1), excluded.body);
    end if;
    return new;
  end if;
  root_id := (select id from everyword.agent where key = a.root);
  if new.kind = 'waiting' and line[1] is distinct from 'waiting' then
    delete from everyword.approval where agent = new.agent and kind = new.kind and key = new.key;
  else
    insert into everyword.approval (agent, kind, key, id, root, at, body)
      values (a.key, new.kind, new.key, a.id, root_id, line[2]::bigint, new.body)
      on conflict (agent, kind, key) do update set (at, body) = row (excluded.at, excluded.body);
  end if;
  perform everyword.note_list_change(root_id);
  return case when new.kind = 'settled' then null else new end;  -- settled calls are listed, and not kept
end $$;

create function everyword.remove_list_row() returns trigger language plpgsql as $$
begin
  if old.kind = 'conversation' then
    perform everyword.note_list_change(id, owner) from everyword.conversation where agent = old.agent;
    delete from everyword.conversation where agent = old.agent;
  else
    perform everyword.note_list_change(root) from everyword.approval
      where agent = old.agent and kind = old.kind and key = old.key;
    delete from everyword.approval where agent = old.agent and kind = old.kind and key = old.key;
  end if;
  return null;
end $$;

-- Kept rows are only written by `insert … on conflict`, which calls this for rows that exist, too.
create trigger put_list_row before insert on everyword.kept
  for each row when (new.kind in ('conversation', 'waiting', 'settled')) execute function everyword.put_list_row();
create trigger remove_list_row after delete on everyword.kept
  for each row when (old.kind in ('conversation', 'waiting')) execute function everyword.remove_list_row();

-- A destroyed agent gets a new row: the old one takes what is only listed with it.
create function everyword.remove_listed() returns trigger language plpgsql as $$
begin
  delete from everyword.approval where agent = old.key;
  return null;
end $$;
create trigger remove_listed after delete on everyword.agent for each row execute function everyword.remove_listed();

-- As `replace_rows_1`, for the rows that are only listed as well.
create function everyword.replace_rows_2(
  p_node bigint, p_generation int, p_key bigint, p_epoch bigint, p_root bigint, p_term bigint,
  h_agent bigint[], h_seq bigint[], r_agent bigint[], r_node bigint[], cleared bigint[],
  turns everyword.turn_row_1[], messages everyword.message_row_1[], keeps everyword.kept_row_1[],
  drops everyword.kept_row_1[], agents everyword.agent_row_1[], w_agent bigint[], w_at bigint[], unwoken bigint[]
) returns bool language plpgsql as $$
begin
  perform everyword.check_fence_1(p_node, p_generation);
  perform 1 from everyword.agent where key = p_key for update;
  if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return false; end if;
  delete from everyword.approval where agent = p_key;
  return everyword.replace_rows_1(p_node, p_generation, p_key, p_epoch, p_root, p_term, h_agent, h_seq, r_agent, r_node,
    cleared, turns, messages, keeps, drops, agents, w_agent, w_at, unwoken);
end $$;

-- The present time, and agents whose lists changed since a time of the same clock; one row without an agent at least.
-- `owner` is null if the conversation was not deleted. Commits that were under way at that time may become visible later:
-- the caller asks for some seconds more.
create function everyword.lists_changed_1(p_since bigint)
returns table (now_ms bigint, id text, is_listed bool, at bigint, owner text) language plpgsql as $$
#variable_conflict use_column
declare now bigint := everyword.ms(clock_timestamp());
begin
  -- Locked rows are left to another look: their writer may wait for rows that this one deletes.
  delete from everyword.list_change where id in (
    select id from everyword.list_change where changed < now - 3600000 for update skip locked);
  return query select now, null::text, null::bool, null::bigint, null::text
    union all select now, id, true, changed, null from everyword.conversation where changed >= p_since
    union all select now, id, false, changed, owner from everyword.list_change where changed >= p_since;
end $$;
