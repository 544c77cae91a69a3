// Finds the container engine of this machine, reports why none responds, and removes containers whose client was
// killed.
import { execFile } from 'node:child_process';
import type { Clock } from '../../../runtime/clock.ts';
import { containerName, engineEnvironment } from './recipe.ts';
import type { EndpointRow } from '../store/endpoints.ts';

const engineCheckMs = 30_000;

export class Engines {
  private readonly clock: Clock;
  readonly secret: (name: string) => string | undefined;
  private last: { found: Engine; at: number } | undefined;

  constructor(clock: Clock, secret: (name: string) => string | undefined) {
    this.clock = clock;
    this.secret = secret;
  }

  /** The program to run; undefined until an engine has responded. */
  command(): string | undefined {
    const found = this.last?.found;
    return found && 'command' in found ? found.command : undefined;
  }

  /** Checks again, at a limited rate. */
  async check(): Promise<void> {
    const now = this.clock.now();
    if (this.last && now - this.last.at < engineCheckMs) return;
    this.last = { found: await findEngine(engineEnvironment(this)), at: now };
  }

  /** Why this endpoint cannot have workers on this machine. */
  missingReason(endpoint: EndpointRow): string | undefined {
    const { recipe } = endpoint.spec;
    if (recipe && 'image' in recipe && this.last && 'missing' in this.last.found) {
      return `The endpoint runs the image ${recipe.image}, but no container engine responds (${this.last.found.missing}). Start docker or podman. Its jobs wait until then.`;
    }
    return undefined;
  }

  /** The container keeps running when the program that started it is killed, so it must be removed explicitly. */
  async removeContainer(workerId: string): Promise<void> {
    await this.check();
    const command = this.command();
    if (!command) return;
    const args = ['rm', '--force', containerName(workerId)];
    await callEngine(command, args, engineEnvironment(this));
  }
}

type Engine = { command: string } | { missing: string };

/** Returns the container engine that responds, or why none does. */
async function findEngine(env: Record<string, string>): Promise<Engine> {
  const reasons: string[] = [];
  for (const command of ['docker', 'podman']) {
    const reason = await probeEngine(command, env);
    if (reason === undefined) return { command };
    reasons.push(`${command}: ${reason}`);
  }
  return { missing: reasons.join('; ') };
}

const engineTimeoutMs = 10_000;

/** A request that both programs accept and only a running engine fulfills. */
function probeEngine(command: string, env: Record<string, string>): Promise<string | undefined> {
  return callEngine(command, ['ps', '--quiet'], env);
}

/** Returns undefined on success, otherwise the reason. */
function callEngine(
  command: string,
  args: readonly string[],
  env: Record<string, string>,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    execFile(command, args, { timeout: engineTimeoutMs, env }, (error, _stdout, stderr) => {
      if (!error) return resolve(undefined);
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return resolve('not installed');
      resolve(stderr.trim().split('\n').at(-1)?.slice(0, 200) || 'does not respond');
    });
  });
}
