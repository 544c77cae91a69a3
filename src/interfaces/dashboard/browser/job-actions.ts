// What can be done with a job in its current state. The server decides; this only hides what it would reject.
import { post, remove } from './api.ts';
import { isFinal, type Job } from './types.ts';

export interface JobAction {
  name: 'cancel' | 'retry' | 'rerun' | 'pin' | 'delete';
  label: string;
  isPrimary?: boolean;
  isDangerous?: boolean;
}

/** Escrow jobs end and repeat only by their own rules. */
const isEscrow = ({ kind }: Job): boolean => kind === 'escrow';

export function actionsOf(job: Job): JobAction[] {
  const isOver = isFinal(job.status);
  const canRetry = isOver && job.status !== 'completed' && !isEscrow(job);
  return [
    ...(canRetry ? [{ name: 'retry', label: 'Retry', isPrimary: true } as const] : []),
    ...(isOver ? [] : [{ name: 'cancel', label: job.cancelling ? 'Kill now' : 'Cancel' } as const]),
    ...(isOver && !isEscrow(job)
      ? [{ name: 'rerun', label: 'Run again', isPrimary: !canRetry } as const]
      : []),
    ...(isOver ? [{ name: 'pin', label: job.pinned ? 'Unpin' : 'Pin' } as const] : []),
    ...(isOver && !job.pinned && !isEscrow(job)
      ? [{ name: 'delete', label: 'Delete…', isDangerous: true } as const]
      : []),
  ];
}

/** Returns the id of a new job, if the action started one. */
export async function runAction({ name }: JobAction, job: Job): Promise<string | undefined> {
  const path = `api/jobs/${encodeURIComponent(job.id)}`;
  switch (name) {
    case 'cancel':
      // A second click does not wait for the grace period.
      await post(`${path}/cancel`, {
        reason: 'dashboard',
        ...(job.cancelling ? { graceMs: 0 } : {}),
      });
      return undefined;
    case 'retry':
      await post(`${path}/retry`);
      return undefined;
    case 'rerun':
      return (await post<{ id: string }>(`${path}/rerun`)).id;
    case 'pin':
      await post(`${path}/pin`, { pinned: job.pinned !== true });
      return undefined;
    case 'delete':
      await remove(path);
      return undefined;
  }
}
