-- Each call of the engine is one of these functions, and so one transaction. They run with the rights of the owner: roles
-- need no right to change a table. Locks are taken in this order: queues, jobs, runs; `claim` waits for no lock.

create function newel.lock_queue(p_queue text) returns void language plpgsql as $$
begin
  perform pg_advisory_xact_lock(hashtextextended(p_queue, 1852143468));
end $$;

create function newel.task_queue(p_labels text[]) returns text language plpgsql as $$
declare
  v_labels text[];
  v_name text;
begin
  select coalesce(array_agg(distinct l order by l), '{}') into v_labels from unnest(p_labels) as l;
  select name into v_name from newel.task_queues where labels = v_labels;
  if found then
    return v_name;
  end if;
  v_name := 'newel';
  if v_labels <> '{}' then
    v_name := 'newel_' || left(encode(sha256(convert_to(to_jsonb(v_labels)::text, 'UTF8')), 'hex'), 16);
  end if;
  perform pg_advisory_xact_lock(1852143468);
  if exists (select from newel.task_queues where name = v_name) then
    return v_name;
  end if;
  perform absurd.create_queue(v_name);
  -- Each claim and renewal leaves dead rows: vacuum after a fixed number of them, however long the history is.
  execute format('alter table absurd.%I set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)', 'r_' || v_name);
  execute format('alter table absurd.%I set (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000)', 't_' || v_name);
  insert into newel.task_queues (name, labels) values (v_name, v_labels);
  return v_name;
end $$;

-- Makes the oldest queued job of a queue runnable, unless one runs or asks there. The caller holds the queue's lock.
create function newel.advance(p_queue text) returns void language plpgsql as $$
declare
  v_head record;
  v_other record;
  v_task uuid;
begin
  select n, task, task_queue into v_head from newel.jobs
    where queue = p_queue and state = 'queued' order by n limit 1;
  if not found then
    return;
  end if;
  -- A job that was submitted again is older than one that is runnable already.
  for v_other in
    select n, task, task_queue from newel.jobs
      where queue = p_queue and state = 'queued' and task is not null and n <> v_head.n for update
  loop
    perform absurd.cancel_task(v_other.task_queue, v_other.task);
    update newel.jobs set task = null where n = v_other.n;
  end loop;
  if v_head.task is not null
    or exists (select from newel.jobs where queue = p_queue and state in ('running', 'asking'))
  then
    return;
  end if;
  select task_id into v_task
    from absurd.spawn_task(v_head.task_queue, 'job', jsonb_build_object('n', v_head.n), '{}');
  update newel.jobs set task = v_task, due = clock_timestamp() where n = v_head.n;
end $$;

create function newel.set_state(p_n bigint, p_state text, p_reason text) returns void language plpgsql as $$
begin
  update newel.jobs
    set state = p_state, reason = p_reason, updated = clock_timestamp(), task = null where n = p_n;
end $$;

-- The job of a valid lease; no row if it is lost. It stays locked, so that a claim by another worker comes before or after.
create function newel.fence(p_job text, p_run uuid, p_extend boolean, p_lease integer)
  returns table (n bigint, cancelled text) language plpgsql as $$
declare
  v_task_queue text;
begin
  select j.n, j.cancelled, j.task_queue into n, cancelled, v_task_queue from newel.jobs j
    where j.id = p_job and j.run = p_run and j.state = 'running' for no key update;
  if not found then
    return;
  end if;
  if p_extend then
    begin
      perform absurd.extend_claim(v_task_queue, p_run, p_lease);
    exception when sqlstate 'AB001' or sqlstate 'AB002' or raise_exception then
      return;
    end;
  end if;
  return next;
end $$;

-- Adds events after `p_expect`; returns the number of the last one in the journal, which is another if that does not match.
create function newel.add_events(p_n bigint, p_expect integer, p_events bytea[])
  returns integer language plpgsql as $$
declare
  v_last integer;
  v_count integer := cardinality(p_events);
begin
  select coalesce(max(seq), 0) into v_last from newel.events where job = p_n;
  if v_last = p_expect then
    insert into newel.events (job, seq, data)
      select p_n, v_last + o, d from unnest(p_events) with ordinality as t(d, o);
    return v_last + v_count;
  end if;
  -- The answer to an earlier try was lost: the events are there.
  if v_last = p_expect + v_count
    and p_events = (select array_agg(data order by seq) from newel.events where job = p_n and seq > p_expect)
  then
    return v_last;
  end if;
  return -1 - v_last;
end $$;

create function newel.submit(
  p_id text, p_key text, p_kind text, p_queue text, p_labels text[], p_params bytea
) returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_job record;
  v_queue text;
begin
  loop
    select queue into v_queue from newel.jobs where key = p_key;
    if found then
      perform newel.lock_queue(v_queue);
      select n, id, state into v_job from newel.jobs where key = p_key for update;
      if found then
        if v_job.state in ('waiting', 'asking') then
          perform newel.set_state(v_job.n, 'queued', '');
          update newel.jobs set attempts = 0 where n = v_job.n;
          perform newel.advance(v_queue);
        end if;
        return v_job.id;
      end if;
    end if;
    perform newel.lock_queue(p_queue);
    insert into newel.jobs (id, key, kind, queue, task_queue, state, params)
      values (p_id, p_key, p_kind, p_queue, newel.task_queue(p_labels), 'queued', p_params)
      on conflict do nothing;
    if found then
      perform newel.advance(p_queue);
      return p_id;
    elsif exists (select from newel.jobs where id = p_id) then
      return p_id;  -- the answer to an earlier try was lost
    end if;
  end loop;
end $$;

-- Whether a job waits for the machine that it ran on last: its folder is there. Others have it two seconds later.
create function newel.is_preferred_elsewhere(p_n bigint, p_machine text) returns boolean language sql as $$
  select exists (
    select from newel.jobs j join newel.task_queues q on q.name = j.task_queue
      join newel.workers w on w.machine = j.machine and w.labels @> q.labels
      where j.n = p_n and j.machine not in ('', p_machine) and j.due + interval '2 seconds' > clock_timestamp()
        and w.expires > clock_timestamp() and not w.draining
        and w.slots > (select count(*) from newel.jobs r where r.worker = w.name and r.state = 'running')
  )
$$;

-- Takes what absurd has leased over, or returns it: true if the job is this worker's.
create function newel.take(
  p_task_queue text, p_run uuid, p_task uuid, p_n bigint, p_worker text, p_machine text, p_queues text[]
) returns boolean language plpgsql as $$
declare
  v_job record;
begin
  select j.task, j.state, j.cancelled, j.queue, j.due into v_job from newel.jobs j
    where j.n = p_n for update skip locked;
  if not found then
    if exists (select from newel.jobs where n = p_n) then  -- another transaction is changing it
      perform absurd.schedule_run(p_task_queue, p_run, clock_timestamp());
    else
      perform absurd.complete_run(p_task_queue, p_run);
    end if;
  elsif v_job.task is distinct from p_task or v_job.state not in ('queued', 'running') then
    perform absurd.complete_run(p_task_queue, p_run);
  elsif v_job.cancelled is not null then  -- its worker died before it ended it
    if pg_try_advisory_xact_lock(hashtextextended(v_job.queue, 1852143468)) then
      perform absurd.complete_run(p_task_queue, p_run);
      perform newel.set_state(p_n, 'cancelled', v_job.cancelled);
      perform newel.advance(v_job.queue);
    else
      perform absurd.schedule_run(p_task_queue, p_run, clock_timestamp());
    end if;
  elsif p_queues is not null and v_job.queue <> all (p_queues) then
    perform absurd.schedule_run(p_task_queue, p_run, v_job.due);
  elsif newel.is_preferred_elsewhere(p_n, p_machine) then
    perform absurd.schedule_run(p_task_queue, p_run, clock_timestamp());
  else
    update newel.jobs
      set state = 'running', run = p_run, attempts = attempts + 1, updated = clock_timestamp(),
          worker = p_worker, machine = p_machine
      where n = p_n;
    return true;
  end if;
  return false;
end $$;

create function newel.claim(
  p_worker text, p_machine text, p_labels text[], p_lease integer, p_free integer, p_queues text[]
) returns table (
  job text, kind text, queue text, params bytea, attempt integer, seq integer, run uuid
) language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_queue record;
  v_run record;
  v_left integer := p_free;
begin
  for v_queue in  -- first what few workers can run
    select q.name from newel.task_queues q where q.labels <@ p_labels order by cardinality(q.labels) desc, q.name
  loop
    exit when v_left <= 0;
    for v_run in  -- absurd does not know the queues: look at more of its tasks then
      select c.run_id, c.task_id, (c.params ->> 'n')::bigint as n
        from absurd.claim_task(v_queue.name, p_worker, p_lease, case when p_queues is null then v_left else 1000 end) c
    loop
      if v_left <= 0 then
        perform absurd.schedule_run(v_queue.name, v_run.run_id, (select j.due from newel.jobs j where j.n = v_run.n));
      elsif newel.take(v_queue.name, v_run.run_id, v_run.task_id, v_run.n, p_worker, p_machine, p_queues) then
        v_left := v_left - 1;
        return query
          select j.id, j.kind, j.queue, j.params, j.attempts,
                 coalesce((select max(e.seq) from newel.events e where e.job = j.n), 0), j.run
            from newel.jobs j where j.n = v_run.n;
      end if;
    end loop;
  end loop;
end $$;

-- Many appends in one transaction, each with its own outcome: the number of the last event; or a negative one, -1 minus the
-- number of events that there are; or null with the reason of a cancellation, or without one if the lease is lost.
create function newel.append(
  p_jobs text[], p_runs uuid[], p_extend boolean[], p_expect integer[], p_counts integer[], p_events bytea[],
  p_lease integer
) returns table (entry integer, seq integer, cancelled text)
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_entry record;
  v_job record;
begin
  for v_entry in
    select t.*, (sum(c) over (order by o))::integer as last
      from unnest(p_jobs, p_runs, p_extend, p_expect, p_counts) with ordinality as t(j, u, x, e, c, o) order by j, o
  loop
    entry := v_entry.o;
    seq := null;
    cancelled := null;
    select f.n, f.cancelled into v_job from newel.fence(v_entry.j, v_entry.u, v_entry.x, p_lease) f;
    if found and v_job.cancelled is not null then
      cancelled := v_job.cancelled;
    elsif found then
      seq := newel.add_events(v_job.n, v_entry.e, p_events[v_entry.last - v_entry.c + 1 : v_entry.last]);
    end if;
    return next;
  end loop;
end $$;

-- The jobs whose lease is lost, and those that are cancelled. Extends the leases that are to be extended.
create function newel.renew(p_jobs text[], p_runs uuid[], p_extend boolean[], p_lease integer)
returns setof text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_lease record;
begin
  return query
    select t.j from unnest(p_jobs, p_runs) as t(j, u)
      where not exists (
        select from newel.jobs x where x.id = t.j and x.run = t.u and x.state = 'running' and x.cancelled is null
      );
  for v_lease in select * from unnest(p_jobs, p_runs, p_extend) as t(j, u, x) where x order by j loop
    perform newel.fence(v_lease.j, v_lease.u, true, p_lease);
    if not found then
      return next v_lease.j;
    end if;
  end loop;
end $$;

-- False if the lease is lost.
create function newel.finish(p_job text, p_run uuid, p_state text, p_reason text, p_delay double precision)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_job record;
  v_due timestamptz := clock_timestamp() + make_interval(secs => p_delay);
begin
  perform newel.lock_queue(queue) from newel.jobs where id = p_job;
  select n, queue, task, task_queue, state, cancelled into v_job from newel.jobs
    where id = p_job and run = p_run for update;
  if not found then
    return false;
  elsif v_job.state <> 'running' then
    return true;  -- the answer to an earlier try was lost
  end if;
  begin
    if p_state = 'retry' and v_job.cancelled is null then
      perform absurd.fail_run(v_job.task_queue, p_run, '{}', v_due);
      perform newel.set_state(v_job.n, 'queued', p_reason);
      update newel.jobs set task = v_job.task, due = v_due where n = v_job.n;
    else
      perform absurd.complete_run(v_job.task_queue, p_run);
      perform newel.set_state(
        v_job.n, case when v_job.cancelled is null then p_state else 'cancelled' end, coalesce(v_job.cancelled, p_reason)
      );
    end if;
  exception when sqlstate 'AB001' or sqlstate 'AB002' or raise_exception then
    return false;
  end;
  perform newel.advance(v_job.queue);
  return true;
end $$;

-- Queues the running jobs of a worker that closes again. It has not died: no attempt has failed.
create function newel.release(p_jobs text[], p_runs uuid[])
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_lease record;
begin
  for v_lease in select j, u from unnest(p_jobs, p_runs) as t(j, u) join newel.jobs x on x.id = j order by x.queue loop
    if newel.finish(v_lease.j, v_lease.u, 'retry', '', 0) then
      update newel.jobs set attempts = 0 where id = v_lease.j and run = v_lease.u and state = 'queued';
    end if;
  end loop;
end $$;

create function newel.cancel(p_job text, p_reason text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_job record;
begin
  perform newel.lock_queue(queue) from newel.jobs where id = p_job;
  select n, queue, state, task, task_queue into v_job from newel.jobs where id = p_job for update;
  if not found or v_job.state in ('done', 'failed', 'cancelled') then
    return false;
  elsif v_job.state = 'running' then
    update newel.jobs set cancelled = coalesce(cancelled, p_reason) where n = v_job.n;
  else
    if v_job.task is not null then
      perform absurd.cancel_task(v_job.task_queue, v_job.task);
    end if;
    perform newel.set_state(v_job.n, 'cancelled', p_reason);
    perform newel.advance(v_job.queue);
  end if;
  return true;
end $$;

create function newel.suspend(p_jobs text[], p_reason text)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_job record;
begin
  perform newel.lock_queue(q) from (select distinct queue as q from newel.jobs where id = any (p_jobs) order by 1) s;
  for v_job in
    select n, queue, task, task_queue from newel.jobs where id = any (p_jobs) and state = 'queued' for update
  loop
    if v_job.task is not null then
      perform absurd.cancel_task(v_job.task_queue, v_job.task);
    end if;
    perform newel.set_state(v_job.n, 'waiting', p_reason);
  end loop;
  perform newel.advance(q) from (select distinct queue as q from newel.jobs where id = any (p_jobs) order by 1) s;
end $$;

-- As `add_events`; null while the job is queued or running.
create function newel.annotate(p_job text, p_expect integer, p_events bytea[], p_state text, p_reason text)
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_job record;
  v_last integer;
begin
  perform newel.lock_queue(queue) from newel.jobs where id = p_job;
  select n, queue, state into v_job from newel.jobs
    where id = p_job and state not in ('queued', 'running') for update;
  if not found then
    return null;
  end if;
  v_last := newel.add_events(v_job.n, p_expect, p_events);
  if v_last >= 0 and p_state is not null and v_job.state in ('waiting', 'asking') then
    perform newel.set_state(v_job.n, p_state, p_reason);
    perform newel.advance(v_job.queue);
  end if;
  return v_last;
end $$;

create function newel.purge(p_job text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_n bigint;
begin
  delete from newel.jobs where id = p_job and state in ('done', 'failed', 'cancelled') returning n into v_n;
  delete from newel.events where job = v_n;
  return v_n is not null;
end $$;

-- Says that a worker lives, for as long as a lease; and now and then removes what is of no use any more.
create function newel.heartbeat(
  p_name text, p_machine text, p_version text, p_labels text[], p_slots integer, p_lease double precision
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  insert into newel.workers (name, machine, version, labels, slots, seen, expires)
    values (p_name, p_machine, p_version, p_labels, p_slots, v_now, v_now + make_interval(secs => p_lease))
    on conflict (name) do update set seen = excluded.seen, expires = excluded.expires;
end $$;

create function newel.clean() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if pg_try_advisory_xact_lock(1852143468, 1) then
    perform absurd.cleanup_tasks(name, 60, 10000) from newel.task_queues;
    delete from newel.workers where seen < clock_timestamp() - interval '1 day';
  end if;
end $$;

create function newel.drain(p_worker text)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  update newel.workers set draining = true where name = p_worker;
  return found;
end $$;

revoke all on all functions in schema newel from public;
