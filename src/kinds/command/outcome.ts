// Derives the outcome of an attempt from its records: the exit code and signal, and why the server ended it, if it did.
// An end that nobody observed is `lost`, never a guess.
import type { Job, JobError } from '../../jobs/job.ts';
import type { Outcome } from '../../jobs/kind.ts';
import type { EndNote, EndReason } from './process/end-reason.ts';
import type { ExitRecord, LaunchFolder } from './process/folder.ts';
import { droppedBytes, outputBytes } from './process/limits.ts';

interface EndRecord {
  job: Job;
  folder: LaunchFolder;
  record: ExitRecord | undefined;
  endNote: EndNote | undefined;
  survivors: number[];
  leftBehind: number[];
  memoryPeakBytes: number;
  startedAt: number | undefined;
  now: number;
}

export function outcomeOf(end: EndRecord): Outcome {
  const { record, endNote } = end;
  const facts = factsOf(end);
  // The command may have ended on its own just before the reason was recorded. A zero exit code after our signal is not a
  // success: a timeout that looks completed silently loses work.
  const endedItself = record !== undefined && endNote !== undefined && record.at < endNote.at;
  if (endNote && endNote.reason !== 'lost' && !endedItself)
    return endedByUs(endNote.reason, end, facts);
  if (!record) {
    return {
      type: 'lost',
      message:
        'The end was not observed: the wrapper was killed (out of memory, kill -9, or the machine went down).',
      facts,
    };
  }
  if (record.exitCode === 0) return { type: 'completed', facts };
  return { type: 'failed', error: failure(record), facts };
}

function endedByUs(
  reason: Exclude<EndReason, 'lost'>,
  end: EndRecord,
  facts: Record<string, unknown>,
): Outcome {
  const { job } = end;
  switch (reason) {
    case 'cancel':
      return { type: 'cancelled', facts, ...survivorError(end) };
    case 'timeout':
      return {
        type: 'timed_out',
        error: {
          code: 'timeout',
          message: `The command ran longer than its timeout of ${(job.timeoutMs ?? 0) / 1000} s and was stopped.`,
          hint: 'Its output is still available with read_output. Start it again with a larger timeoutMs.',
        },
        facts,
      };
    case 'outputLimit':
    case 'totalOutputLimit':
      return {
        type: 'failed',
        retry: false,
        error: {
          code: 'outputLimit',
          message:
            reason === 'totalOutputLimit'
              ? 'Total output limit exceeded. This job was stopped because it was producing the most output.'
              : 'The command exceeded its output limit and was stopped.',
          hint: 'Its log is complete (read_output). Print less, or raise maxOutputBytes or maxOutputTotalBytes.',
          data: { outputBytes: facts.outputBytes },
        },
        facts,
      };
  }
}

function survivorError({ survivors }: EndRecord): { error?: JobError } {
  if (survivors.length === 0) return {};
  return {
    error: {
      code: 'survivors',
      message: `These processes could not be killed: ${survivors.join(', ')}.`,
      hint: 'They are blocked in the kernel or belong to another user.',
    },
  };
}

function failure({ exitCode, signal }: ExitRecord): JobError {
  if (signal) {
    return {
      code: 'signal',
      message: `The command was killed by ${signal}.`,
      hint: 'read_output with mode errors or tail shows what it printed before.',
    };
  }
  const errorsHint = { hint: 'read_output with mode errors shows the relevant lines.' };
  if (exitCode === 127)
    return {
      code: 'commandNotFound',
      message: 'The command was not found (exit code 127).',
      ...errorsHint,
    };
  if (exitCode === 126)
    return {
      code: 'notExecutable',
      message: 'The command is not executable (exit code 126).',
      ...errorsHint,
    };
  return {
    code: 'exitCode',
    message: `The command failed with exit code ${exitCode}.`,
    ...errorsHint,
  };
}

function factsOf(end: EndRecord): Record<string, unknown> {
  const { record, startedAt, survivors, leftBehind, memoryPeakBytes } = end;
  const endedAt = record?.at ?? end.now;
  const dropped = droppedBytes(end.folder);
  return {
    exitCode: record?.exitCode ?? null,
    signal: record?.signal ?? null,
    ...(record ? { cpuUserMs: record.cpuUserMs, cpuSystemMs: record.cpuSystemMs } : {}),
    ...(startedAt === undefined ? {} : { runMs: Math.max(Math.round(endedAt - startedAt), 0) }),
    outputBytes: outputBytes(end.folder),
    ...(dropped > 0 ? { droppedBytes: dropped } : {}),
    ...(memoryPeakBytes > 0 ? { memoryPeakBytes } : {}),
    ...(survivors.length > 0 ? { survivors } : {}),
    ...(leftBehind.length > 0 ? { leftBehind } : {}),
  };
}
