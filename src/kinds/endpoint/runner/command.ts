// Runs a command per job: input as JSON on stdin, result as JSON on stdout. Numbers keep all their digits.
import { spawn } from 'node:child_process';
import { systemClock } from '../../../runtime/clock.ts';
import { parseJson, parseLenientJson } from '../../../runtime/json.ts';
import { signalGroup } from '../../../runtime/process-identity.ts';
import { postedOf, type Handler, type Posted } from './handlers.ts';

const maxStdoutBytes = 256 * 1024 * 1024;
const maxStderrChars = 4000;
const killAfterMs = 5000;

export function commandHandler(
  command: readonly string[],
  env: Record<string, string | undefined>,
): Handler {
  return {
    // The command may support numbers that JavaScript would round.
    parse: parseJson,
    run: (job, { signal }) =>
      new Promise<Posted>((done) => {
        const [file, ...args] = command;
        const child = spawn(file!, args, {
          detached: true,
          stdio: ['pipe', 'pipe', 'pipe'],
          env: { ...env, ERRAND_JOB_ID: job.id },
        });
        const out: Buffer[] = [];
        let bytes = 0;
        let errors = '';
        const group = (name: NodeJS.Signals) => signalGroup(child.pid ?? 0, name);
        let cancelKill = () => {};
        const stop = () => {
          group('SIGTERM');
          cancelKill = systemClock.after(killAfterMs, () => group('SIGKILL'));
        };
        signal.addEventListener('abort', stop, { once: true });
        child.stdout.on('data', (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes <= maxStdoutBytes) out.push(chunk);
          else group('SIGKILL');
        });
        child.stderr.on('data', (chunk: Buffer) => {
          errors = (errors + chunk.toString('utf8')).slice(-maxStderrChars);
          process.stderr.write(chunk);
        });
        child.stdin.on('error', () => {});
        child.stdin.end(JSON.stringify(job.input ?? null));
        child.on('error', (error) =>
          done({ error: `${file} could not be started: ${error.message}` }),
        );
        // `exit`, not `close`: a process that it left behind may keep the pipes open forever.
        child.on('exit', (code, name) =>
          setImmediate(() => {
            signal.removeEventListener('abort', stop);
            // From here on, another process may get the pid.
            cancelKill();
            group('SIGKILL');
            done(commandResult({ code, name, errors, text: Buffer.concat(out).toString('utf8') }));
          }),
        );
      }),
  };
}

function commandResult(end: {
  code: number | null;
  name: NodeJS.Signals | null;
  text: string;
  errors: string;
}): Posted {
  const { value, chatter } = resultOf(end.text);
  if (value !== undefined && chatter !== '') process.stdout.write(chatter);
  const kept = value === undefined ? {} : { output: value };
  if (end.code !== 0) {
    const how = end.code === null ? `was killed by ${end.name}` : `exited with code ${end.code}`;
    return { error: `The command ${how}. ${end.errors.trim()}`.trim(), ...kept };
  }
  if (value !== undefined) return postedOf(value);
  if (end.text.trim() === '') return { error: 'The command exited 0 without a result on stdout.' };
  const shown = end.text.slice(0, 500);
  return { error: `The command exited 0 but its stdout is not JSON: ${shown}`, output: end.text };
}

/**
 * The whole output if it is JSON, otherwise its last line, so that verbose programs still have a result. The rest
 * is log.
 */
function resultOf(text: string): { value: unknown; chatter: string } {
  const whole = parsed(text);
  if (whole !== undefined) return { value: whole, chatter: '' };
  const trimmed = text.trimEnd();
  const start = trimmed.lastIndexOf('\n') + 1;
  return { value: parsed(trimmed.slice(start)), chatter: trimmed.slice(0, start) };
}

function parsed(text: string): unknown {
  try {
    return parseLenientJson(text);
  } catch {
    // nested too deep to be serialized again as JSON
    return undefined;
  }
}
