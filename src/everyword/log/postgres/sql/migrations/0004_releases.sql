-- Releases side by side: something new is written only when every live node knows it, and from then on no node that does
-- not know it can join (N-6). An insert into `node` and the lock of `raise_oldest_1` wait for each other.

create function everyword.register_2(p_name text, p_url text, p_version int, p_lease interval, out id bigint)
language plpgsql as $$
declare needed int;
begin
  id := everyword.register_1(p_name, p_url, p_version, p_lease);
  select oldest into needed from everyword.store;  -- after the insert, which waits for a `raise_oldest_1` under way
  if p_version < needed then
    raise exception 'the database is used by nodes of a newer release: version % is needed, and this node knows %', needed,
      p_version using errcode = 'EW003';
  end if;
end $$;

-- Return whether every live node knows the version; if so, nodes that do not are refused from now on.
create function everyword.raise_oldest_1(p_version int) returns bool language plpgsql as $$
begin
  perform 1 from everyword.store for update;  -- first: a step of retention may hold it, and heartbeats need the other
  lock table everyword.node in share row exclusive mode;
  if exists (select from everyword.node where state <> 'gone' and version < p_version) then return false; end if;
  update everyword.store set oldest = p_version where oldest < p_version;
  return true;
end $$;
