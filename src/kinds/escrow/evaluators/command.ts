// The command rule: the operator's check runs as a command job with the deliverable on its standard input; the exit code
// decides. A caller names a check and never sends a command line.
import { isFinal } from '../../../jobs/job.ts';
import type { Jobs } from '../../../jobs/jobs.ts';
import { ownValue } from '../../../runtime/by-name.ts';
import type { EscrowSettings } from '../settings.ts';
import type { RunCheck } from './runner.ts';

/** Check jobs belong to the operator: neither party can change them. */
const checkOwner = 'owner';

export function commandChecks(jobs: Jobs, settings: EscrowSettings, folder: string): RunCheck {
  return async ({ jobId, n, attempt, check, content }) => {
    const known = ownValue(settings.checks, check);
    // Each node has its own settings: a node with this check takes over.
    if (!known) return { waiting: `check ${check} is not configured on this node` };
    const { command, cwd, timeoutMs, labels } = known;
    const { job } = await jobs.submit({
      kind: 'command',
      input: {
        command,
        cwd: cwd ?? folder,
        callerEnv: {},
        env: {},
        secrets: [],
        stdin: { text: content.toString('utf8') },
        streams: 'merged',
      },
      owner: checkOwner,
      name: `check ${check}`,
      parentId: jobId,
      labels,
      timeoutMs,
      idempotencyKey: `escrow-check/${jobId}/${n}/${attempt}/${check}`,
    });
    if (!isFinal(job.status)) return { waiting: `check ${check} is running as ${job.id}` };
    const { exitCode } = job.facts as { exitCode?: number | null };
    if (job.status === 'completed') return { exitCode: 0, jobId: job.id };
    return { exitCode: typeof exitCode === 'number' ? exitCode : null, jobId: job.id };
  };
}
