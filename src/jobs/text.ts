// Jobs in words, for a model or a person: the same as the structured answer, shorter. What a kind adds to a view it
// also puts into words.
import type { z } from 'zod';
import { durationText } from '../runtime/units.ts';
import type { Jobs } from './jobs.ts';
import type { JobView, jobLine } from './view.ts';

/** A page of jobs, a line each: what a model needs to pick one. */
export function pageText(page: {
  jobs: z.infer<typeof jobLine>[];
  nextCursor?: string | undefined;
}): string {
  if (page.jobs.length === 0) return 'No job fits.';
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

/** A few lines, the state first, so that it survives any truncation. */
export function jobText(jobs: Jobs, view: Record<string, unknown>): string {
  const { id, status, stage, kind, name, summary, error, progress, result } = view;
  const { state = [], facts = [], lines: own = [] } = wordsOf(jobs, view);
  const head = [
    `${String(id)} ${String(status)}${stage ? ` (${String(stage)})` : ''}`,
    `${String(kind)}${name ? ` "${String(name)}"` : ''}`,
    ...state,
  ];
  const lines = [head.join(' · ')];
  if (summary) lines.push(String(summary));
  const known = [...timeText(view), ...facts];
  if (known.length > 0) lines.push(known.join(' · '));
  lines.push(...own, ...waitingText(view));
  if (Array.isArray(view.undecodable))
    lines.push(`its stored row cannot be decoded: ${view.undecodable.join(', ')}`);
  if (view.diagnosis) lines.push(String(view.diagnosis));
  if (progress) lines.push(`progress: ${progressText(progress)}`);
  if (error) {
    const { code, message, hint } = error as { code: string; message: string; hint?: string };
    lines.push(`${code}: ${message}${hint ? ` ${hint}` : ''}`);
  }
  if (result !== undefined)
    lines.push(`result: ${JSON.stringify(result).slice(0, resultCharsMax)}`);
  if (view.pinned) lines.push('pinned: no limit of retention removes it');
  return lines.join('\n');
}

/** A row that could not be decoded lacks what its kind would speak of. */
function wordsOf(jobs: Jobs, view: Record<string, unknown>) {
  const kind = view.undecodable ? undefined : jobs.findKind(String(view.kind));
  return kind?.words?.(view) ?? {};
}

const resultCharsMax = 2000;

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

/** In words where it is counted; a worker may report anything. */
function progressText(progress: object): string {
  const { done, total, unit, message, ...others } = progress as Record<string, unknown>;
  if (typeof done !== 'number' || Object.keys(others).length > 0) return JSON.stringify(progress);
  const count = [done, ...(typeof total === 'number' ? ['of', total] : []), unit].filter(isGiven);
  return [count.join(' '), message].filter(isGiven).map(String).join(', ');
}

const isGiven = (value: unknown): boolean => value !== undefined && value !== null;
