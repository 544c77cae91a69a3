// The types of decide(): the facts it accepts and the decisions it returns.
import type { Intent } from '../store/store.ts';
import type { Job, Progress } from './job.ts';
import type { Status } from '../contracts/jobs.ts';
import type { Outcome } from './kind.ts';

export type Fact =
  | { type: 'started'; holder: string; node: string | null; stage?: string }
  | { type: 'ended'; attemptId: string; outcome: Outcome; random: number }
  | { type: 'lost'; attemptId: string; random: number; message?: string }
  | { type: 'cancel'; by: string; reason?: string; graceMs?: number }
  /** The running attempt did not stop in time after a cancel, so it is declared ended. */
  | { type: 'forceCancel' }
  | { type: 'expired' }
  /** The job row cannot be decoded, so the job can never run. */
  | { type: 'undecodable' }
  | { type: 'retry'; by: string }
  /** A new attempt of an ended job, even of a completed one. Its kind decides when that makes sense. */
  | { type: 'reopen'; by: string }
  | { type: 'dependencyMet' }
  | { type: 'dependencyFailed'; jobId: string; status: Status }
  | {
      type: 'report';
      attemptId: string;
      progress?: Progress;
      stage?: string;
      facts?: Record<string, unknown>;
      notice?: string;
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
  /** Facts and result of the archived attempt, if they are newer than the row. */
  archiveFacts?: Record<string, unknown>;
  archiveResult?: unknown;
  /** Archive the current attempt because a new one begins. */
  archive?: boolean;
}

/** The fact does not or no longer applies. `message` tells the caller why. */
export interface Refusal {
  refused: 'stale' | 'final' | 'wrongState';
  message: string;
}

export type DecideResult = Decision | Refusal;

export const isRefused = (result: DecideResult): result is Refusal => 'refused' in result;

export const stale = { refused: 'stale', message: 'This attempt has already ended.' } as const;
