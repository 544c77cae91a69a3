// Checks for `errand doctor` whether pages can be rendered: a browser, and a kernel that supports its sandbox.
import type { Finding, Machine } from '../../../runtime/machine.ts';
import type { WebSettings } from '../settings.ts';
import { browserPaths } from './find.ts';

const off = 'set web.browser.sandbox to false in config.json only where you trust the pages';

export function examineBrowser({ browser }: WebSettings, machine: Machine): Finding {
  if (browser.cdpUrl !== undefined)
    return { name: 'browser', state: 'ok', text: 'uses a running browser (web.browser.cdpUrl)' };
  const paths = browser.path === undefined ? browserPaths(machine.platform) : [browser.path];
  const path = paths.find((one) => machine.has(one));
  if (path === undefined) {
    return {
      name: 'browser',
      state: 'note',
      text: 'none found: pages are read without scripts, and screenshots are unavailable',
      hint: 'Install Chrome or Chromium, or set web.browser.path.',
    };
  }
  if (!browser.sandbox) {
    return {
      name: 'browser',
      state: 'note',
      text: `${path}, without its sandbox (web.browser.sandbox is off)`,
      hint: 'A hostile page could access everything this user can access. Render only pages you trust.',
    };
  }
  const why = sandboxFault(machine);
  if (why === undefined) return { name: 'browser', state: 'ok', text: `${path}, in its sandbox` };
  return {
    name: 'browser',
    state: 'note',
    text: `${path}, but ${why.text}: rendering will fail`,
    hint: `${why.hint}; ${off}.`,
  };
}

/** Why Chromium cannot create its sandbox here. Undefined if no obstacle was found. */
function sandboxFault(machine: Machine): { text: string; hint: string } | undefined {
  if (machine.platform !== 'linux') return undefined;
  if (machine.isRoot)
    return {
      text: 'Chromium cannot use its sandbox as root',
      hint: 'Run the server as another user',
    };
  const value = (path: string) => machine.read(`/proc/sys/${path}`)?.trim();
  if (
    value('kernel/unprivileged_userns_clone') === '0' ||
    value('user/max_user_namespaces') === '0'
  )
    return {
      text: 'this kernel has user namespaces disabled, which its sandbox needs',
      hint: 'sysctl kernel.unprivileged_userns_clone=1 (or user.max_user_namespaces=10000)',
    };
  if (value('kernel/apparmor_restrict_unprivileged_userns') === '1')
    return {
      text: 'AppArmor may block user namespaces, which its sandbox needs',
      hint: 'Use a browser with an AppArmor profile (a distribution package), or sysctl kernel.apparmor_restrict_unprivileged_userns=0',
    };
  return undefined;
}
