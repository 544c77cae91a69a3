// A Chromium for tests that needs no system package of its own: the machine's, or the one that npm brought. Where
// neither can start, the reason.
import { execFileSync } from 'node:child_process';
import { browserPaths } from '../../src/kinds/web/browser/find.ts';

export async function chromiumPath(): Promise<string | { reason: string }> {
  const paths = [...browserPaths()];
  const reasons: string[] = [];
  try {
    const { default: chromium } = await import('@sparticuz/chromium');
    paths.push(await chromium.executablePath());
  } catch (error) {
    reasons.push((error as Error).message);
  }
  for (const path of paths) {
    try {
      execFileSync(path, ['--version', '--no-sandbox'], { stdio: 'pipe', timeout: 20_000 });
      return path;
    } catch (error) {
      const { code, stderr, message } = error as NodeJS.ErrnoException & { stderr?: Buffer };
      if (code !== 'ENOENT') reasons.push(stderr?.toString().trim().split('\n')[0] || message);
    }
  }
  return { reason: reasons.at(-1) ?? 'none is installed' };
}
