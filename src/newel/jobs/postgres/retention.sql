-- Deletes what has ended. A job goes in one transaction, which notes the name of its snapshots: if a process dies before
-- it has removed them from the store, another one does it later. Locks are taken in this order: jobs, fleets.

-- Names of snapshots in the store: a job, or the start of a fleet, that the database does not have any more.
create table newel.removals (
  name text primary key,
  created timestamptz not null default clock_timestamp(),
  due timestamptz not null default clock_timestamp()
);
create index removals_due on newel.removals (due);
create index jobs_ended on newel.jobs (updated) where state in ('done', 'failed', 'cancelled');

-- Drops a fleet without jobs. Its jobs share a start, which goes with it, unless jobs that need it may still be submitted: for a day.
create function newel.drop_fleet(p_fleet text) returns void language plpgsql as $$
begin
  perform from newel.fleets where id = p_fleet
    and (submitted >= total or created < clock_timestamp() - interval '1 day') for update;
  if not found or exists (select from newel.jobs where fleet = p_fleet) then
    return;
  end if;
  insert into newel.removals (name) values ('start-' || p_fleet) on conflict do nothing;
  delete from newel.budgets where name = p_fleet;
  delete from newel.fleets where id = p_fleet;
end $$;

-- Deletes those of the jobs that have ended; returns how many.
create function newel.delete_jobs(p_jobs text[])
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_numbers bigint[];
  v_fleets text[];
begin
  select array_agg(n), array_agg(distinct fleet) into v_numbers, v_fleets from (
    select n, fleet from newel.jobs
      where id = any (p_jobs) and state in ('done', 'failed', 'cancelled') order by n for update
  ) as ended;
  insert into newel.removals (name) select id from newel.jobs where n = any (v_numbers) on conflict do nothing;
  delete from newel.events where job = any (v_numbers);
  delete from newel.jobs where n = any (v_numbers);
  perform newel.drop_fleet(f) from (select unnest(v_fleets) as f order by 1) as fleets where f is not null;
  return coalesce(cardinality(v_numbers), 0);
end $$;

create or replace function newel.purge(p_job text)
returns boolean language sql security definer set search_path = pg_catalog, pg_temp as $$
  select newel.delete_jobs(array[p_job]) > 0
$$;

-- The jobs that have ended before that many seconds; those of a fleet once all of it has.
create function newel.ended_jobs(p_seconds double precision) returns setof text language sql stable as $$
  with ended as materialized (
    select f.id from newel.fleets f where not exists (
      select from newel.jobs j where j.fleet = f.id
        and (j.state not in ('done', 'failed', 'cancelled') or j.updated > clock_timestamp() - make_interval(secs => p_seconds))
    )
  )
  select j.id from newel.jobs j
    where j.state in ('done', 'failed', 'cancelled') and j.updated <= clock_timestamp() - make_interval(secs => p_seconds)
      and (j.fleet is null or j.fleet in (select id from ended))
    order by j.updated
$$;

-- Deletes some of them, and fleets that never got a job; returns how many jobs. Call it again until it returns 0.
create function newel.delete_ended(p_seconds double precision, p_limit integer)
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform newel.drop_fleet(id) from (
    select id from newel.fleets f where created < clock_timestamp() - interval '1 day'
      and not exists (select from newel.jobs where fleet = f.id) order by id
  ) as empty;
  return newel.delete_jobs(array(
    select id from newel.jobs where id in (select newel.ended_jobs(p_seconds) limit p_limit) order by n for update skip locked
  ));
end $$;

-- The same for workers, who may delete nothing that is younger than a day.
create function newel.expire(p_days integer, p_limit integer)
returns integer language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  return newel.delete_ended(greatest(p_days, 1) * 86400.0, p_limit);
end $$;

-- Names whose snapshots the caller is to remove from the store. Others get them only if it does not say within ten minutes that it has.
create function newel.claim_removals(p_limit integer)
returns setof text language sql security definer set search_path = pg_catalog, pg_temp as $$
  update newel.removals set due = clock_timestamp() + interval '10 minutes' where name in (
    select name from newel.removals where due <= clock_timestamp() order by due limit p_limit for update skip locked
  ) returning name
$$;

-- They are removed once more after a day: a worker that was believed dead may have stored a last snapshot since.
create function newel.finish_removals(p_names text[])
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from newel.removals where name = any (p_names) and created < clock_timestamp() - interval '1 day';
  update newel.removals set due = created + interval '1 day' where name = any (p_names);
end $$;

create or replace function newel.clean() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if pg_try_advisory_xact_lock(1852143468, 1) then
    perform absurd.cleanup_tasks(name, 60, 10000) from newel.task_queues;
    delete from newel.workers where seen < clock_timestamp() - interval '1 day';
    delete from newel.requests r where begun < clock_timestamp() - interval '1 day'
      and not exists (select from newel.workers where name = r.worker and expires > clock_timestamp());
  end if;
end $$;

revoke all on all functions in schema newel from public;
