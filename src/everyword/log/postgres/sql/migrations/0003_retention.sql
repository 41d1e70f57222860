-- Attach rather than create as a partition: it lets reads and writes go on.
create function everyword.make_day_1(p_day int) returns void language plpgsql as $$
begin
  perform 1 from everyword.store for update;
  if exists (select from everyword.day where day = p_day) then return; end if;
  execute format('create table everyword.event_%s (like everyword.event including all)', p_day);
  execute format('alter table everyword.event_%s alter column body set storage external', p_day);
  execute format('alter table everyword.event attach partition everyword.event_%s for values in (%s)', p_day, p_day);
  insert into everyword.day (day) values (p_day);
end $$;

-- Drop a day all of whose turns ended before `p_before`; return how many events that were, null if there are others.
create function everyword.drop_day_1(p_day int, p_before bigint) returns bigint language plpgsql as $$
declare dropped bigint;
begin
  if exists (select from everyword.turn where part = p_day and not is_pruned and kind <> 'rsm'
             and (ended_at is null or ended_at >= p_before)) then return null; end if;
  select coalesce(sum(chunks), 0) into dropped from everyword.turn
    where part = p_day and not is_pruned and kind <> 'rsm';
  update everyword.turn set is_pruned = true where part = p_day and not is_pruned and kind <> 'rsm';
  execute format('drop table everyword.event_%s', p_day);
  delete from everyword.day where day = p_day;
  return dropped;
end $$;

create function everyword.prune_states_1(p_before bigint, p_limit int) returns bigint language sql as $$
  with old as (
    delete from everyword.replaced_state s using (
      select agent, seq from everyword.replaced_state where at < p_before order by at, agent, seq limit p_limit
    ) as o where s.agent = o.agent and s.seq = o.seq returning s.agent, s.seq
  ), gone as (
    delete from everyword.event e using old where e.agent = old.agent and e.seq = old.seq and e.part = 0
      and e.kind = 'state.set' returning e.agent
  ), counted as (
    insert into everyword.pruned_states as p (agent, states) select agent, count(*) from gone group by agent
      on conflict (agent) do update set states = p.states + excluded.states
  )
  select count(*) from gone;
$$;

-- Delete about `p_limit` chunks of turns of one part that ended before `p_before`, oldest first.
create function everyword.prune_chunks_1(p_part int, p_before bigint, p_limit bigint) returns bigint language plpgsql as $$
declare t record; e record; deleted bigint := 0; is_whole bool;
begin
  for t in select agent, turn, first_seq from everyword.turn where part = p_part and ended_at < p_before
      and not is_pruned and kind <> 'rsm' order by ended_at, agent, turn loop
    exit when deleted >= p_limit;
    is_whole := true;
    for e in select seq, more from everyword.event where agent = t.agent and seq >= t.first_seq and part = p_part
        and turn = t.turn and kind = 'chunk' order by seq loop
      if deleted >= p_limit then is_whole := false; exit; end if;
      delete from everyword.event where agent = t.agent and seq = e.seq and part = p_part;
      deleted := deleted + e.more + 1;
    end loop;
    if is_whole then
      update everyword.turn set is_pruned = true where agent = t.agent and turn = t.turn;
    end if;
  end loop;
  return deleted;
end $$;

create function everyword.erase_streams_1(p_agent text, p_until bigint, p_limit int) returns int language plpgsql as $$
declare t record; erased int := 0;
begin
  for t in select s.agent, s.turn, s.first_seq from everyword.turn s join everyword.agent a on a.key = s.agent
      where a.id = p_agent and s.kind = 'rsm' and s.ended_at <= p_until and not s.is_pruned
      order by s.turn limit p_limit loop
    delete from everyword.event where agent = t.agent and seq >= t.first_seq and part = 0 and turn = t.turn
      and kind = 'chunk';
    update everyword.turn set is_pruned = true where agent = t.agent and turn = t.turn;
    erased := erased + 1;
  end loop;
  if erased > 0 then update everyword.agent set head = head where id = p_agent; end if;  -- a new version for the views
  return erased;
end $$;
