// Brief job views for MCP. Most clients pass the complete structured response to their model, so these views omit fields
// that a model rarely needs for its next decision. get_job with `details` returns everything.
import { z } from 'zod';
import { isFinal } from './job.ts';
import type { Jobs } from './jobs.ts';
import type { jobLine, JobView } from '../contracts/jobs.ts';

const rarelyNeeded = new Set([
  'action',
  'attempts',
  'cost',
  'kind',
  'latestLine',
  'name',
  'output',
  'parentId',
  'pinned',
  'priority',
  'queue',
  'summary',
  'tags',
  'waitingForInput',
  'timings',
  'visibility',
]);
const maxSummaryChars = 80;

export const briefJobSchema = z.looseObject({ id: z.string(), status: z.string() });

type BriefJob = Record<string, unknown> & { id: string; status: string };

/** For a started, changed or awaited job: the caller knows the job and needs only its state. */
export function briefJob(jobs: Jobs, view: JobView): BriefJob {
  const details = new Set(jobs.findKind(view.kind)?.details);
  const shown = Object.entries(view).filter(
    ([name, value]) =>
      !rarelyNeeded.has(name) && !details.has(name) && hasContent(value) && name !== 'error',
  );
  const { id, attempts } = view;
  return {
    id,
    ...Object.fromEntries(shown),
    status: presentStatus(view),
    ...(attempts.number > 1 ? { attempt: attempts.number } : {}),
    ...briefError(view),
    ...briefOutput(view),
  };
}

/** For a job requested by id: its state plus what identifies it. */
export function briefJobDetails(jobs: Jobs, view: JobView): BriefJob {
  const { kind, name, summary, timings } = view;
  return {
    ...briefJob(jobs, view),
    kind,
    ...(name ? { name } : {}),
    ...(summary ? { summary: shorten(summary) } : {}),
    ...(timings.runMs === undefined ? {} : { runMs: timings.runMs }),
  };
}

export function briefLine({ id, kind, status, ...line }: z.infer<typeof jobLine>): BriefJob {
  const { name, summary, stage, queue, exitCode, error } = line;
  const more = { name, stage, queue, exitCode, error: error === 'exitCode' ? undefined : error };
  return {
    id,
    kind,
    status,
    ...Object.fromEntries(Object.entries(more).filter(([, value]) => hasContent(value))),
    ...(summary ? { summary: shorten(summary) } : {}),
    createdAt: line.createdAt.replace(/\.\d+Z$/, 'Z'),
  };
}

/** A command that waits for input is reported as input_required even before the stored status changes. */
export function presentStatus(view: Record<string, unknown>): string {
  const isWaiting = view.status === 'running' && view.waitingForInput === true;
  return isWaiting ? 'input_required' : String(view.status);
}

/** Omits an error that only repeats a field, such as the exit code. */
function briefError(view: JobView): Record<string, unknown> {
  const { error } = view;
  return error && !hasContent(view[error.code]) ? { error } : {};
}

function briefOutput(view: JobView): Record<string, unknown> {
  const { output, latestLine } = view as {
    output?: { text: string; next: number };
    latestLine?: string;
  };
  if (!output) return latestLine === undefined ? {} : { line: latestLine };
  return { output: output.text, ...(isFinal(view.status) ? {} : { next: output.next }) };
}

const hasContent = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  value !== false &&
  !(Array.isArray(value) && value.length === 0);

const shorten = (text: string): string =>
  text.length <= maxSummaryChars ? text : `${text.slice(0, maxSummaryChars - 1)}…`;
