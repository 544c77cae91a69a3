// The whole server in this process, without interfaces: tests call operations directly.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { createApp, kinds, type App } from '../../src/app.ts';
import { loadConfig } from '../../src/config.ts';
import { openHome } from '../../src/home.ts';
import type { CallContext, Caller, Origin } from '../../src/operation.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { createLog, silentLog } from '../../src/runtime/log.ts';
import { tempFolder } from './folder.ts';

export interface TestApp {
  app: App;
  home: string;
  call<T = Record<string, unknown>>(name: string, input?: unknown, more?: CallMore): Promise<T>;
  stream(
    name: string,
    input: unknown,
    signal: AbortSignal,
  ): ReturnType<App['operations']['stream']>;
}

export interface CallMore {
  origin?: Origin;
  caller?: Partial<Caller>;
  signal?: AbortSignal;
  maxResponseBytes?: number;
  progress?: CallContext['progress'];
}

export async function startApp(
  t: TestContext,
  settings: Record<string, unknown> = {},
  more: { env?: Record<string, string>; home?: string } = {},
): Promise<TestApp> {
  const home = more.home ?? join(tempFolder(t), 'home');
  mkdirSync(home, { recursive: true, mode: 0o700 });
  writeFileSync(join(home, 'config.json'), JSON.stringify(settings));
  const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...more.env };
  const config = loadConfig({ home, sections: kinds }, env);
  const log = process.env.ERRAND_TEST_LOG ? createLog('debug') : silentLog;
  const app = await createApp({
    config,
    home: openHome(home),
    clock: systemClock,
    log,
    baseUrl: () => undefined,
    openBaseUrl: () => Promise.reject(new Error('this app has no HTTP listener')),
  });
  await app.start();
  t.after(async () => {
    // Removes everything that a failed test left running.
    for (const job of await app.jobs.ledger.running())
      await app.operations.call('cancel_job', { id: job.id }, context()).catch(() => {});
    await app.stop();
  });
  const context = (call: CallMore = {}): CallContext => ({
    caller: {
      owner: 'me',
      scopes: new Set(['read', 'run', 'admin']),
      admin: true,
      local: true,
      ...call.caller,
    },
    signal: call.signal ?? new AbortController().signal,
    ...(call.maxResponseBytes === undefined ? {} : { maxResponseBytes: call.maxResponseBytes }),
    ...(call.origin ? { origin: call.origin } : {}),
    ...(call.progress ? { progress: call.progress } : {}),
  });
  return {
    app,
    home,
    call: <T>(name: string, input: unknown, call?: CallMore) =>
      app.operations.call(name, input, context(call)) as Promise<T>,
    stream: (name, input, signal) => app.operations.stream(name, input, context({ signal })),
  };
}
