// A command server in this process, with short check intervals, and helpers for its operations.
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { startApp, type CallMore, type TestApp } from '../../helpers/app.ts';

export interface View {
  id: string;
  status: string;
  stage?: string;
  exitCode: number | null;
  signal: string | null;
  existing?: boolean;
  hint?: string;
  output?: { text: string; from: number; next: number };
  error?: { code: string; message: string; hint?: string };
  [more: string]: unknown;
}
export interface Reading {
  mode: string;
  status: string;
  exitCode: number | null;
  text: string;
  from: number;
  next: number;
  size: number;
  omitted?: { bytes?: number; reason: string };
  matches?: number;
  streams?: { stream: string; next: number }[];
}

export const programs = join(import.meta.dirname, '../../fixtures/programs');
export const quick = { checkMs: 50, killGraceMs: 300 };

export async function start(
  t: TestContext,
  command: object = {},
  env: Record<string, string> = {},
  server: object = {},
) {
  const settings = { command: { ...quick, ...command }, server };
  const { app, ...rest } = await startApp(t, settings, { env });
  return { app, ...rest, ...helpers({ app, ...rest }) };
}

function helpers({ call }: TestApp) {
  const run = (input: object, more?: CallMore) =>
    call<View>('run_command', { waitMs: 20_000, ...input }, more);
  return {
    run,
    background: (input: object, more?: CallMore) => run({ waitMs: 0, ...input }, more),
    read: (id: string, input: object = {}) => call<Reading>('read_output', { id, ...input }),
    get: (id: string) => call<View>('get_job', { id }),
    cancel: (id: string) => call<View>('cancel_job', { id }),
    wait: (id: string, more: object = {}) =>
      call<{ done: boolean; reached: { reason: string; detail?: unknown }[]; jobs: View[] }>(
        'wait_for_jobs',
        { ids: [id], timeoutMs: 20_000, ...more },
      ),
  };
}
