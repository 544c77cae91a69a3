// Shows a notification on the desktop of this machine, with the program that the system has for it.
import { AppError } from '../errors.ts';
import { childProcess } from './packages.ts';

export interface Notice {
  title: string;
  text: string;
}

const maxTitleChars = 120;
const maxTextChars = 300;
const maxShowMs = 10_000;

/** Title and text are arguments, never part of a script. */
function programOf(platform: string, title: string, text: string): [string, string[]] {
  if (platform === 'darwin') {
    const script =
      'on run argv\ndisplay notification (item 2 of argv) with title (item 1 of argv)\nend run';
    return ['osascript', ['-e', script, title, text]];
  }
  return ['notify-send', ['--app-name=Errand', '--', title, text]];
}

/** Rejects if the notification could not be shown. */
export async function showNotification(
  notice: Notice,
  platform: string = process.platform,
): Promise<void> {
  if (platform === 'win32')
    throw new AppError('unsupported', 'Desktop notifications are not supported on Windows.');
  const title = oneLine(notice.title, maxTitleChars);
  const text = oneLine(notice.text, maxTextChars);
  const [program, args] = programOf(platform, title, text);
  await new Promise<void>((resolve, reject) => {
    childProcess().execFile(
      program,
      args,
      { timeout: maxShowMs, killSignal: 'SIGKILL' },
      (error, _stdout, stderr) => (error ? reject(failureOf(program, error, stderr)) : resolve()),
    );
  });
}

function failureOf(program: string, error: Error & { code?: unknown }, stderr: string): AppError {
  if (error.code === 'ENOENT')
    return new AppError('unavailable', `${program} is not installed on the server's machine.`, {
      hint: 'On Debian and Ubuntu: apt install libnotify-bin.',
    });
  const why = stderr.trim().split('\n')[0] || 'it timed out';
  return new AppError('unavailable', `${program} failed: ${why}.`, {
    hint: 'The server needs the desktop session of its user (DBUS_SESSION_BUS_ADDRESS).',
  });
}

const oneLine = (text: string, maxChars: number): string =>
  text.replaceAll(/[\s\p{Cc}]+/gu, ' ').slice(0, maxChars);
