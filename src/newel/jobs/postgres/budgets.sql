-- What some jobs may spend together, and how many requests a model server gets at a time, from all machines.

create table newel.budgets (
  name text primary key,
  max_cost double precision,
  max_tokens bigint,
  cost double precision not null default 0,
  tokens bigint not null default 0
);

create table newel.requests (
  id text primary key,
  server text not null,
  worker text not null,
  begun timestamptz not null default clock_timestamp()
);
create index requests_by_server on newel.requests (server);

create function newel.set_budget(p_name text, p_max_cost double precision, p_max_tokens bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into newel.budgets (name, max_cost, max_tokens) values (p_name, p_max_cost, p_max_tokens)
    on conflict (name) do nothing;
end $$;

-- Whether a request may be made now; `p_slots` is how many at a time, null for any number. Those of workers that are silent do not count.
create function newel.begin_request(p_id text, p_server text, p_worker text, p_slots integer)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if p_slots is not null then
    perform pg_advisory_xact_lock(hashtextextended(p_server, 1852143469));
    delete from newel.requests where server = p_server
      and worker not in (select name from newel.workers where expires > clock_timestamp());
    if (select count(*) from newel.requests where server = p_server and id <> p_id) >= p_slots then
      return false;
    end if;
  end if;
  insert into newel.requests (id, server, worker) values (p_id, p_server, p_worker) on conflict (id) do nothing;
  return true;
end $$;

-- Counts what a request has cost, once, however often it is told.
create function newel.end_request(p_id text, p_budget text, p_cost double precision, p_tokens bigint)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  delete from newel.requests where id = p_id;
  if found then
    update newel.budgets set cost = cost + p_cost, tokens = tokens + p_tokens where name = p_budget;
  end if;
end $$;

revoke all on all functions in schema newel from public;
