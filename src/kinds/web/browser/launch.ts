// Starts the browser program. A server that runs as root starts it as an unprivileged user, because Chromium refuses to
// run its sandbox as root. When the program cannot start, the error quotes the program's own message.
import { mkdir, writeFile } from 'node:fs/promises';
import { accessSync, constants, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Browser as Chromium } from 'playwright-core';
import { AppError } from '../../../errors.ts';
import type { EgressProxy } from '../../../runtime/egress/index.ts';
import type { WebSettings } from '../settings.ts';
import { findBrowser } from './find.ts';

interface LaunchOptions {
  settings: WebSettings['browser'];
  proxy: EgressProxy;
  /** The start script of the unprivileged browser is written here. */
  folder: string;
}

const launchMs = 30_000;
/** The user `nobody` and its group, on every Linux distribution. */
const nobody = 65_534;
const setprivPaths = ['/usr/bin/setpriv', '/bin/setpriv'];
const maxQuotedLines = 3;

export async function launchBrowser(options: LaunchOptions): Promise<Chromium> {
  const { settings, proxy, folder } = options;
  const { chromium } = await loadPlaywright();
  const program = findBrowser(settings.path);
  const { url: server, username, password } = proxy;
  try {
    return await chromium.launch({
      executablePath: await startProgram(program, settings.sandbox, folder),
      headless: true,
      timeout: launchMs,
      chromiumSandbox: settings.sandbox,
      proxy: { server, username, password, bypass: '<-loopback>' },
      handleSIGINT: false,
      handleSIGTERM: false,
      handleSIGHUP: false,
      args: [
        '--disable-quic',
        '--force-webrtc-ip-handling-policy=disable_non_proxied_udp',
        '--disable-dev-shm-usage',
        ...settings.args,
      ],
    });
  } catch (error) {
    throw startError(program, error as Error);
  }
}

export async function loadPlaywright(): Promise<typeof import('playwright-core')> {
  try {
    return await import('playwright-core');
  } catch (error) {
    throw new AppError('noBrowser', 'The package playwright-core, which drives browsers, is not installed.', {
      hint: 'Run `npm install playwright-core` where Errand is installed, then try again.',
      cause: error,
    }); // prettier-ignore
  }
}

/** The program to execute: the browser itself, or as root a script that starts it as `nobody`. */
async function startProgram(program: string, sandbox: boolean, folder: string): Promise<string> {
  const setpriv = setprivPaths.find(isExecutable);
  if (process.getuid?.() !== 0 || setpriv === undefined) return program;
  // Without a sandbox the browser also runs as root, so a program that `nobody` cannot read still works.
  if (!sandbox && !isOpenToOthers(program)) return program;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, 'browser-as-nobody.sh');
  await writeFile(path, startScript(program, setpriv), { mode: 0o700 });
  return path;
}

/**
 * The driver creates the profile folder as root, so the script gives it to `nobody` first. The browser gets a clean
 * environment: the server's may contain secrets.
 */
function startScript(program: string, setpriv: string): string {
  return `#!/bin/sh
for arg; do
  case $arg in --user-data-dir=*) profile=\${arg#*=}; chown -R ${nobody}:${nobody} "$profile" ;; esac
done
exec env -i PATH="$PATH" LANG="$LANG" TZ="$TZ" HOME="$profile" TMPDIR="\${TMPDIR:-/tmp}" \\
  ${setpriv} --reuid=${nobody} --regid=${nobody} --clear-groups -- ${quoted(program)} "$@"
`;
}

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Whether every folder on the way and the program itself may be read and executed by other users. */
function isOpenToOthers(program: string): boolean {
  for (let path = program; path !== dirname(path); path = dirname(path))
    if ((statSync(path).mode & 0o001) === 0) return false;
  return (statSync(program).mode & 0o004) !== 0;
}

function startError(program: string, error: Error): AppError {
  const own = ownMessage(error.message);
  const isSandbox = /sandbox/i.test(own) || /sandboxing failed/i.test(error.message);
  return new AppError('noBrowser', `The browser ${program} cannot start: ${own}`, {
    hint: isSandbox
      ? 'Run the server as a user who may create a sandbox (a normal user, with user namespaces enabled), or set web.browser.sandbox to false in config.json. Without the sandbox, pages run with the rights of the browser process.'
      : 'Run the program by hand to see more, or set web.browser.path in config.json to another browser. Pages that work without scripts need no browser: omit `render`.',
    cause: error,
  });
}

/** What the program printed to stderr before it ended; the driver logs it line by line. */
function ownMessage(log: string): string {
  const printed = [...log.matchAll(/\[pid=\d+\]\[err\] (.*)/g)]
    .map(([, line]) => cleanLine(line!))
    .filter((line) => line !== '');
  const serious = printed.filter((line) => /error|fatal|fail|not supported|sandbox/i.test(line));
  const lines = (serious.length > 0 ? serious : printed).slice(-maxQuotedLines);
  return lines.length > 0 ? lines.join(' ').slice(0, 600) : cleanLine(log.split('\n')[0]!);
}

function cleanLine(line: string): string {
  return line
    .replaceAll(/\u001B\[[\d;]*m/g, '') // oxlint-disable-line no-control-regex -- colours of the driver's log
    .replace(/^\[[\d:/.]+:\w+:[^\]]*\] /, '')
    .trim()
    .slice(0, 300);
}
