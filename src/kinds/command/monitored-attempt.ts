// A running attempt as the monitor and the guard see it.
import type { EndReason } from './process/end-reason.ts';
import type { LaunchFolder } from './process/folder.ts';
import type { Identity } from '../../runtime/process-identity.ts';

export interface MonitoredAttempt {
  attemptId: string;
  folder: LaunchFolder;
  /** The path of `folder.out`, computed once. */
  outPath: string;
  /** Known once the wrapper has written its claim. */
  wrapper: Identity | undefined;
  maxOutputBytes: number;
  ring: boolean;
  /** stdout and stderr are separate files. */
  split: boolean;
  /** Set if the command has an input to write to. */
  inputPath: string | undefined;
  startedAt: number;
  deadlineAt: number | null;
  /** In a cluster: without a server for this long, the guard ends the attempt, because another node may run the job by then. */
  maxAloneMs: number | null;
  memoryPeakBytes: number;
  waiting: boolean;
  /** Ends the attempt for this reason. */
  end(reason: EndReason): void;
  /** Called when the command starts or stops waiting for input. */
  onWaiting(waiting: boolean): void;
}
