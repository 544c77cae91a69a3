// Opens a URL in the person's browser, if this machine has one.
import { childProcess } from '../../runtime/packages.ts';
import type { Program } from './program.ts';

/** An opener that still runs after this time has found a browser: some stay open as long as the browser. */
const maxOpenMs = 2000;

/** Returns false if no browser could be opened. */
export async function openBrowser(program: Program, url: string): Promise<boolean> {
  const opener = findOpener(program);
  if (opener === undefined) return false;
  const { clock } = program;
  const child = childProcess().spawn(opener, [url], { detached: true, stdio: 'ignore' });
  const ended = new Promise<boolean>((resolve) => {
    child.once('error', () => resolve(false));
    child.once('exit', (code) => resolve(code === 0));
  });
  child.unref();
  return Promise.race([ended, clock.sleep(maxOpenMs).then(() => true)]);
}

/** `BROWSER` names a program, as in other tools. Over SSH or without a display there is no browser to open. */
function findOpener({ env, platform }: Program): string | undefined {
  if (env.BROWSER !== undefined && env.BROWSER !== '') return env.BROWSER;
  if (platform === 'darwin') return 'open';
  if (env.WSL_DISTRO_NAME !== undefined) return 'wslview';
  const hasDisplay = [env.DISPLAY, env.WAYLAND_DISPLAY].some(
    (text) => text !== undefined && text !== '',
  );
  return hasDisplay && env.SSH_CONNECTION === undefined ? 'xdg-open' : undefined;
}
