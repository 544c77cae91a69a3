// The head of a job: its state, facts, error, progress, and what can be done with it.
import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import { problemText } from '../api.ts';
import { asCommand, asCurl, asToolCall } from '../copy-as.ts';
import { bytes, duration } from '../format.ts';
import { actionsOf, runAction, type JobAction } from '../job-actions.ts';
import { kindHref } from '../kind-links.ts';
import { now } from '../now.ts';
import { go, hrefOf } from '../router.ts';
import { mayRun } from '../session.ts';
import { isFinal, type Job } from '../types.ts';
import { CopyButton, copyText } from './copy.tsx';
import { Confirm } from './dialog.tsx';
import { StatusMark } from './status.tsx';
import { Time } from './time.tsx';
import { showToast } from './toast.tsx';

interface HeadProps {
  job: Job;
  isPane: boolean;
  isGone: boolean;
  onChanged(): void;
}

export function JobHead({ job, isPane, isGone, onChanged }: HeadProps) {
  const [busy, setBusy] = useState<string | undefined>(undefined);
  const [asked, setAsked] = useState<JobAction | undefined>(undefined);
  const run = async (action: JobAction) => {
    setAsked(undefined);
    setBusy(action.name);
    try {
      const newId = await runAction(action, job);
      if (newId !== undefined) go(`/jobs/${newId}`);
      else if (action.name === 'delete') {
        showToast('The job was deleted.');
        go('/jobs');
      } else onChanged();
    } catch (error) {
      showToast(problemText(error), { isError: true });
    } finally {
      setBusy(undefined);
    }
  };
  return (
    <header class="job-head">
      <div class="job-title">
        <StatusMark status={job.status} stage={job.stage} exitCode={job.exitCode} />
        <h1>{job.name ?? job.summary ?? job.id}</h1>
        {isPane ? (
          <a class="close" href={hrefOf(`/jobs${location.search}`)} aria-label="Close the job">
            ×
          </a>
        ) : null}
      </div>
      {job.name !== undefined && job.summary !== undefined ? (
        <code class="summary">{job.summary}</code>
      ) : null}
      <Facts job={job} />
      <div class="actions">
        {mayRun.value && !isGone
          ? actionsOf(job).map((action) => (
              <button
                key={action.name}
                type="button"
                class={action.isPrimary ? 'primary' : ''}
                disabled={busy !== undefined}
                onClick={() => (action.isDangerous ? setAsked(action) : void run(action))}
              >
                {action.label}
              </button>
            ))
          : null}
        <CopyButton text={hrefOf(`/jobs/${job.id}`)} label="Copy link" />
        <CopyAs job={job} />
      </div>
      {asked ? (
        <Confirm
          title="Delete this job?"
          verb="Delete"
          isDangerous
          onConfirm={() => void run(asked)}
          onClose={() => setAsked(undefined)}
        >
          <p>
            <strong>{job.name ?? job.id}</strong> with its output, result and history. You cannot
            undo this.
          </p>
        </Confirm>
      ) : null}
    </header>
  );
}

function CopyAs({ job }: { job: Job }) {
  const forms = { command: asCommand, curl: asCurl, tool: asToolCall };
  return (
    <select
      aria-label="Copy as"
      value=""
      onChange={(event) => {
        const form = forms[event.currentTarget.value as keyof typeof forms];
        event.currentTarget.value = '';
        void copyText(form(job)).then((isDone) =>
          showToast(isDone ? 'Copied.' : 'The browser does not allow copying here.', {
            isError: !isDone,
          }),
        );
      }}
    >
      <option value="" disabled>
        Copy as…
      </option>
      <option value="command">Command</option>
      <option value="curl">curl</option>
      <option value="tool">Tool call</option>
    </select>
  );
}

function Facts({ job }: { job: Job }) {
  const { timings, attempts } = job;
  const isRunning = job.status === 'running' || job.status === 'input_required';
  const run =
    timings.startedAt === undefined
      ? undefined
      : isRunning
        ? now.value - Date.parse(timings.startedAt)
        : timings.runMs;
  const facts: [label: string, value: ComponentChildren][] = [
    ['Created', <Time at={timings.createdAt} />],
    ...(run === undefined
      ? []
      : [[isRunning ? 'Running for' : 'Ran', duration(run)] as [string, string]]),
    ...(typeof job.exitCode === 'number'
      ? [['Exit code', String(job.exitCode)] as [string, string]]
      : []),
    ...(typeof job.signal === 'string' ? [['Signal', job.signal] as [string, string]] : []),
    ...(attempts.max > 1 || attempts.number > 1
      ? [
          ['Attempt', `${attempts.number} of ${Math.max(attempts.max, attempts.number)}`] as [
            string,
            string,
          ],
        ]
      : []),
    ['Kind', <KindLink job={job} />],
    ['Queue', job.queue],
    ...(job.owner === undefined ? [] : [['Owner', job.owner] as [string, string]]),
    ...(job.cwd === undefined
      ? []
      : [['In', <code>{job.cwd}</code>] as [string, ComponentChildren]]),
    ...(typeof job.maxMemoryBytes === 'number'
      ? [['Memory', bytes(job.maxMemoryBytes)] as [string, string]]
      : []),
    ['Id', <code>{job.id}</code>],
  ];
  return (
    <>
      <dl class="facts">
        {facts.map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
        {(job.tags ?? []).map((tag) => (
          <div key={tag}>
            <dt class="off-screen">Tag</dt>
            <dd>
              <a class="tag" href={hrefOf(`/jobs?q=${encodeURIComponent(`tag:${tag}`)}`)}>
                {tag}
              </a>
            </dd>
          </div>
        ))}
      </dl>
      {job.error ? (
        <div class="job-error">
          <strong>{job.error.message}</strong> {/* The relevant lines are shown below. */}
          {job.error.code === 'exitCode' ? null : job.error.hint}
        </div>
      ) : null}
      {job.status === 'queued' && job.diagnosis !== undefined ? (
        <p class="notice">{job.diagnosis}</p>
      ) : null}
      <Progress job={job} />
    </>
  );
}

function KindLink({ job }: { job: Job }) {
  const text = job.action === undefined ? job.kind : `${job.kind} · ${job.action}`;
  const href = kindHref(job);
  return href === undefined ? <>{text}</> : <a href={href}>{text}</a>;
}

function Progress({ job: { progress, latestLine, status } }: { job: Job }) {
  if (isFinal(status)) return null;
  const done = Number(progress?.done ?? progress?.completed);
  const total = Number(progress?.total);
  return (
    <>
      {done >= 0 && total > 0 ? (
        <div class="progress">
          <progress value={done} max={total} aria-label="Progress" /> {done} of {total}
        </div>
      ) : null}
      {latestLine === undefined ? null : <code class="latest">{latestLine}</code>}
    </>
  );
}
