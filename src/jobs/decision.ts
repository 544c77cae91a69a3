// The words of decide(): what may be brought to a job, and what is answered.
import type { Intent } from '../store/store.ts';
import type { Job, Progress, Status } from './job.ts';
import type { Outcome } from './kind.ts';

export type Fact =
  | { type: 'started'; holder: string; node: string | null; stage?: string }
  | { type: 'ended'; attemptId: string; outcome: Outcome; random: number }
  | { type: 'lost'; attemptId: string; random: number; message?: string }
  | { type: 'cancel'; by: string; reason?: string; graceMs?: number }
  /** The running attempt did not stop in time after a cancel: it is declared over. */
  | { type: 'forceCancel' }
  | { type: 'expired' }
  /** Its row cannot be decoded, so it can never run. */
  | { type: 'undecodable' }
  | { type: 'retry'; by: string }
  | { type: 'dependencyMet' }
  | { type: 'dependencyFailed'; jobId: string; status: Status }
  | {
      type: 'report';
      attemptId: string;
      progress?: Progress;
      stage?: string;
      facts?: Record<string, unknown>;
    }
  | { type: 'input'; attemptId: string; needed: boolean; message?: string };

export interface NewEvent {
  type: string;
  data: Record<string, unknown>;
}

export interface Decision {
  patch: Partial<Job>;
  events: NewEvent[];
  intents: Intent[];
  /** Facts and result of the attempt that is archived, where they are newer than the row. */
  archiveFacts?: Record<string, unknown>;
  archiveResult?: unknown;
  /** Keep the present attempt's row, because a new one begins. */
  archive?: boolean;
}

/** `refused`: the fact does not apply (any more); the reason is for the caller who brought it. */
export type Verdict = Decision | { refused: 'stale' | 'final' | 'wrongState'; message: string };

export const isRefused = (v: Verdict): v is Extract<Verdict, { refused: string }> => 'refused' in v;

export const stale = { refused: 'stale', message: 'This attempt is over.' } as const;
