// Job views as short text for models and people. A kind describes the fields that it adds to a view.
import type { z } from 'zod';
import { durationText } from '../runtime/units.ts';
import { presentStatus } from './brief-view.ts';
import type { Jobs } from './jobs.ts';
import type { JobView, jobLine } from '../contracts/jobs.ts';

/** A page of jobs, one line each, with what a model needs to choose one. */
export function pageText(page: {
  jobs: z.infer<typeof jobLine>[];
  nextCursor?: string | undefined;
}): string {
  if (page.jobs.length === 0) return 'No jobs match.';
  const lines = page.jobs.map(({ id, status, kind, name, summary, createdAt, error }) =>
    [
      `${id} ${status}${typeof error === 'string' ? ` (${error})` : ''}`,
      `${kind}${name ? ` "${name}"` : ''}`,
      createdAt.replace(/\.\d+Z$/, 'Z'),
      ...(summary ? [summary.replaceAll(/\s+/g, ' ')] : []),
    ].join(' · '),
  );
  return [...lines, ...(page.nextCursor ? [`more: cursor ${page.nextCursor}`] : [])].join('\n');
}

/** A few lines with the state first, so that it survives truncation. */
export function jobText(jobs: Jobs, view: Record<string, unknown>): string {
  const { id, stage, kind, name, summary, error, progress, result } = view;
  const { state = [], facts = [], lines: own = [] } = describeByKind(jobs, view);
  const head = [
    `${String(id)} ${presentStatus(view)}${stage ? ` (${String(stage)})` : ''}`,
    `${String(kind)}${name ? ` "${String(name)}"` : ''}`,
    ...(view.cancelling ? ['cancelling'] : []),
    ...state,
  ];
  const lines = [head.join(' · ')];
  if (summary) lines.push(String(summary));
  const known = [...timeText(view), ...facts];
  if (known.length > 0) lines.push(known.join(' · '));
  lines.push(...own, ...waitingText(view));
  if (Array.isArray(view.undecodable))
    lines.push(`the stored row cannot be decoded: ${view.undecodable.join(', ')}`);
  if (view.diagnosis) lines.push(String(view.diagnosis));
  if (progress) lines.push(`progress: ${progressText(progress)}`);
  if (error) {
    const { code, message, hint } = error as { code: string; message: string; hint?: string };
    lines.push(`${code}: ${message}${hint ? ` ${hint}` : ''}`);
  }
  if (result !== undefined)
    lines.push(`result: ${JSON.stringify(result).slice(0, maxResultChars)}`);
  if (view.pinned) lines.push('pinned: exempt from retention');
  return lines.join('\n');
}

/** The output excerpt of a response, on separate lines below the state. */
export function outputText(view: Record<string, unknown>): string {
  const { output, outputError, latestLine, expectedRemainingMs } = view as {
    output?: { text: string };
    outputError?: string;
    latestLine?: string;
    expectedRemainingMs?: number;
  };
  if (outputError) return `\nThe output is not readable: ${outputError}`;
  if (output) return `\n${output.text.trimEnd()}`;
  const expected =
    expectedRemainingMs === undefined
      ? ''
      : `\nexpected to run ${durationText(expectedRemainingMs)} more, from earlier runs`;
  return (latestLine === undefined ? '' : `\n${latestLine}`) + expected;
}

/** An undecodable row lacks the fields that its kind describes. */
function describeByKind(jobs: Jobs, view: Record<string, unknown>) {
  const kind = view.undecodable ? undefined : jobs.findKind(String(view.kind));
  return kind?.describe?.(view) ?? {};
}

const maxResultChars = 2000;

function waitingText({ runAt, after }: Record<string, unknown>): string[] {
  return [
    ...(Array.isArray(after) ? [`waits for ${after.join(', ')}`] : []),
    ...(typeof runAt === 'string' ? [`not before ${runAt}`] : []),
  ];
}

function timeText(view: Record<string, unknown>): string[] {
  const { runMs, finishedAt } = (view.timings ?? {}) as JobView['timings'];
  return runMs === undefined
    ? []
    : [`${finishedAt ? 'ran' : 'running for'} ${durationText(runMs)}`];
}

/** Formats counted progress. Other progress is shown as JSON, because workers may report anything. */
function progressText(progress: object): string {
  const { done, total, unit, message, ...others } = progress as Record<string, unknown>;
  if (typeof done !== 'number' || Object.keys(others).length > 0) return JSON.stringify(progress);
  const count = [done, ...(typeof total === 'number' ? ['of', total] : []), unit].filter(isGiven);
  return [count.join(' '), message].filter(isGiven).map(String).join(', ');
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;
