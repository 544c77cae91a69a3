// Runs the commands of other programs: `claude mcp add …`, `codex --version`.
import { childProcess } from '../runtime/packages.ts';
import { findProgram } from './find.ts';
import type { UserPlace } from './table.ts';

const maxCommandMs = 60_000;
const maxOutputBytes = 1024 * 1024;

interface CommandResult {
  ok: boolean;
  output: string;
}

/** The program does not see Errand's own variables, which may contain a key. */
export function runProgram(
  place: UserPlace,
  program: string,
  args: readonly string[],
): Promise<CommandResult> {
  const path = findProgram(place, program);
  if (path === undefined)
    return Promise.resolve({ ok: false, output: `${program} is not on the PATH` });
  const env = Object.fromEntries(
    Object.entries(place.env).filter(([name]) => !name.startsWith('ERRAND_')),
  );
  return new Promise((resolve) => {
    const child = childProcess().execFile(
      path,
      args,
      {
        cwd: place.cwd,
        env,
        timeout: maxCommandMs,
        maxBuffer: maxOutputBytes,
        killSignal: 'SIGKILL',
      },
      (error, stdout, stderr) =>
        resolve({ ok: error === null, output: `${stdout}${stderr}`.trim() }),
    );
    child.stdin?.end();
  });
}

/** The version of an installed client, if it has a command that prints it. */
export async function versionOf(
  place: UserPlace,
  program: string | undefined,
): Promise<string | undefined> {
  if (program === undefined || findProgram(place, program) === undefined) return undefined;
  const { ok, output } = await runProgram(place, program, ['--version']);
  return ok ? /\d+\.\d+[\w.-]*/.exec(output)?.[0] : undefined;
}
