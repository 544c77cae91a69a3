// The container engine of this machine: which one answers, in plain words why none does, and the removal of a container
// whose client was killed.
import { execFile } from 'node:child_process';
import type { Clock } from '../../runtime/clock.ts';
import { containerName, engineEnvironment } from './recipe.ts';
import type { EndpointRow } from './store.ts';

const engineCheckMs = 30_000;

export class Engines {
  private readonly clock: Clock;
  readonly secret: (name: string) => string | undefined;
  private last: { found: Engine; at: number } | undefined;

  constructor(clock: Clock, secret: (name: string) => string | undefined) {
    this.clock = clock;
    this.secret = secret;
  }

  /** The program to call; undefined while none is known to answer. */
  command(): string | undefined {
    const found = this.last?.found;
    return found && 'command' in found ? found.command : undefined;
  }

  /** Asks again, but not all the time. */
  async check(): Promise<void> {
    const now = this.clock.now();
    if (this.last && now - this.last.at < engineCheckMs) return;
    this.last = { found: await findEngine(engineEnvironment(this)), at: now };
  }

  /** Why this endpoint can have no workers here, in plain words. */
  missingReason(endpoint: EndpointRow): string | undefined {
    const { recipe } = endpoint.spec;
    if (recipe && 'image' in recipe && this.last && 'missing' in this.last.found) {
      return `It runs the image ${recipe.image}, but no container engine answers (${this.last.found.missing}). Start docker or podman; the jobs wait.`;
    }
    return undefined;
  }

  /** The container lives on when the program that started it is killed: whoever is done with it takes it away. */
  async removeContainer(workerId: string): Promise<void> {
    await this.check();
    const command = this.command();
    if (!command) return;
    const args = ['rm', '--force', containerName(workerId)];
    await callEngine(command, args, engineEnvironment(this));
  }
}

type Engine = { command: string } | { missing: string };

/** The container engine that answers, or in plain words why none does. */
async function findEngine(env: Record<string, string>): Promise<Engine> {
  const reasons: string[] = [];
  for (const command of ['docker', 'podman']) {
    const reason = await asksEngine(command, env);
    if (reason === undefined) return { command };
    reasons.push(`${command}: ${reason}`);
  }
  return { missing: reasons.join('; ') };
}

const engineTimeoutMs = 10_000;

/** A question that both programs take and only a working engine answers. */
function asksEngine(command: string, env: Record<string, string>): Promise<string | undefined> {
  return callEngine(command, ['ps', '--quiet'], env);
}

/** Undefined: done. Else why not, in a few words. */
function callEngine(
  command: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command, args, { timeout: engineTimeoutMs, env }, (error, _stdout, stderr) => {
      if (!error) return resolve(undefined);
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return resolve('not installed');
      resolve(stderr.trim().split('\n').at(-1)?.slice(0, 200) || 'does not answer');
    });
  });
}
