// A Chromium for tests, as `web.browser` settings: the machine's own, or the one from npm. If neither starts, the reason.
import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { browserPaths } from '../../src/kinds/web/browser/find.ts';
import { cached } from './cache.ts';

export interface TestBrowser {
  path: string;
  sandbox: boolean;
  args: string[];
}

export async function findChromium(): Promise<TestBrowser | { reason: string }> {
  const reasons: string[] = [];
  const candidates = [
    ...browserPaths().map((path) => () => ({ path, args: [] as string[] })),
    // The npm package contains only the old headless mode.
    async () => ({ path: await npmChromium(), args: ['--headless=shell'] }),
  ];
  for (const candidate of candidates) {
    try {
      const { path, args } = await candidate();
      execFileSync(path, ['--version', '--no-sandbox'], { stdio: 'pipe', timeout: 60_000 });
      // Not every test machine lets a browser create its sandbox.
      return { path, args, sandbox: false };
    } catch (error) {
      const { code, stderr, message } = error as NodeJS.ErrnoException & { stderr?: Buffer };
      if (code !== 'ENOENT') reasons.push(stderr?.toString().trim().split('\n')[0] || message);
    }
  }
  return { reason: `no browser can start here: ${reasons.at(-1) ?? 'none is installed'}` };
}

/** For tests about other features: their result must not depend on an installed browser. */
export const withoutBrowser = { path: '/nonexistent/browser' };

/** Why tests that need a browser are skipped, or false. */
export const browserSkip = (found: TestBrowser | { reason: string }): string | false =>
  'reason' in found ? found.reason : false;

async function npmChromium(): Promise<string> {
  const manifest = join(
    dirname(createRequire(import.meta.url).resolve('@sparticuz/chromium')),
    '../package.json',
  );
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
  const folder = await cached(`chromium-${version}`, async (target) => {
    const { TMPDIR } = process.env;
    // The package unpacks into the temp folder.
    process.env.TMPDIR = target;
    try {
      const { default: chromium } = await import('@sparticuz/chromium');
      chmodSync(await chromium.executablePath(), 0o755);
    } finally {
      if (TMPDIR === undefined) delete process.env.TMPDIR;
      else process.env.TMPDIR = TMPDIR;
    }
  });
  return join(folder, 'chromium');
}
