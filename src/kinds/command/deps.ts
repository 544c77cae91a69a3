// The dependencies of the command kind, created once in index.ts.
import type { Job } from '../../jobs/job.ts';
import type { Jobs } from '../../jobs/jobs.ts';
import type { Clock } from '../../runtime/clock.ts';
import type { AttemptMonitor } from './attempt-monitor.ts';
import type { Environments } from './environments.ts';
import type { JobFiles } from './files.ts';
import type { Policy } from './policy.ts';
import type { HttpProbe } from './probe.ts';
import type { Terminals } from './process/terminal.ts';
import type { Secrets } from './secrets.ts';
import type { CommandSettings } from './settings.ts';
import type { History } from './store/history.ts';

export interface CommandDeps {
  jobs: Jobs;
  clock: Clock;
  settings: CommandSettings;
  files: JobFiles;
  monitor: AttemptMonitor;
  history: History;
  policy: Policy;
  secrets: Secrets;
  environments: Environments;
  mask(jobId: string, text: string): string;
  node: string;
  /** Reads a variable from the server's environment. */
  serverValue(name: string): string | undefined;
  probe: HttpProbe;
  terminals: Terminals;
  /** Reads the current state of the job. */
  find(id: string): Promise<Job>;
  /** Watches a job that another node runs. */
  watchThere(
    id: string,
    until: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<{ reason?: string; detail?: unknown }>;
}
