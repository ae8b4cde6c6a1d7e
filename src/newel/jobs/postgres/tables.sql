-- Jobs, their journals and the workers. What is runnable is also a task of the schema absurd, which leases it.

-- The tasks of one set of labels are in one task queue of absurd: a worker claims from those whose labels it has.
create table newel.task_queues (
  name text primary key,
  labels text[] not null unique
);

create table newel.jobs (
  n bigint generated always as identity primary key,
  id text not null unique,
  key text unique,
  kind text not null,
  queue text not null,
  task_queue text not null references newel.task_queues,
  state text not null,
  attempts integer not null default 0,
  due timestamptz not null default clock_timestamp(),  -- since when, or from when on, it can be claimed
  cancelled text,
  reason text not null default '',
  worker text not null default '',
  machine text not null default '',
  created timestamptz not null default clock_timestamp(),
  updated timestamptz not null default clock_timestamp(),
  task uuid,  -- absurd's task of a job that is the head of its queue, or runs
  run uuid,   -- absurd's run of the last claim; it fences earlier ones
  params bytea not null
);
create index jobs_live on newel.jobs (queue, n) where state in ('queued', 'running', 'asking');
create index jobs_by_state on newel.jobs (state, n);
create index jobs_running on newel.jobs (worker) where state = 'running';

create table newel.events (
  job bigint not null,
  seq integer not null,
  data bytea not null,
  primary key (job, seq)
);

create table newel.workers (
  name text primary key,
  machine text not null,
  version text not null,
  labels text[] not null,
  slots integer not null,
  draining boolean not null default false,
  seen timestamptz not null,
  expires timestamptz not null
);
