// From what is on record to the job's end: exit code and signal as they were, and why we ended it if we did.
// An end that nobody saw is `lost`, never a guess.
import type { Job, JobError } from '../../jobs/job.ts';
import type { Outcome } from '../../jobs/kind.ts';
import type { Ending, EndingReason } from './process/ending.ts';
import type { ExitRecord, LaunchFolder } from './process/folder.ts';
import { droppedBytes, outputBytes } from './process/limits.ts';

export interface EndFacts {
  job: Job;
  folder: LaunchFolder;
  record: ExitRecord | undefined;
  ending: Ending | undefined;
  survivors: number[];
  leftBehind: number[];
  memoryPeakBytes: number;
  startedAt: number | undefined;
  now: number;
}

export function outcomeOf(end: EndFacts): Outcome {
  const { record, ending } = end;
  const facts = factsOf(end);
  // It may have ended by itself in the moment before we noted ours. A good exit after our signal is no success: a
  // timeout that looks completed is how work is silently lost.
  const byItself = record !== undefined && ending !== undefined && record.at < ending.at;
  if (ending && ending.reason !== 'lost' && !byItself) return endedByUs(ending.reason, end, facts);
  if (!record) {
    return {
      type: 'lost',
      message:
        'Its end was not seen: the wrapper was killed (out of memory, kill -9, or the machine went down).',
      facts,
    };
  }
  if (record.exitCode === 0) return { type: 'completed', facts };
  return { type: 'failed', error: failure(record), facts };
}

function endedByUs(
  reason: Exclude<EndingReason, 'lost'>,
  end: EndFacts,
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
          message: `It ran longer than its ${(job.timeoutMs ?? 0) / 1000} s and was ended.`,
          hint: 'What it printed is there (read_output). Start it again with a larger timeoutMs.',
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
              ? 'All jobs together printed more than they may, this one most of late; it was ended.'
              : 'It printed more than it may and was ended.',
          hint: 'Its log is intact (read_output). Print less, or raise outputBytesMax / outputTotalBytesMax.',
          data: { outputBytes: facts.outputBytes },
        },
        facts,
      };
  }
}

function survivorError({ survivors }: EndFacts): { error?: JobError } {
  if (survivors.length === 0) return {};
  return {
    error: {
      code: 'survivors',
      message: `Processes that could not be ended: ${survivors.join(', ')}.`,
      hint: 'They hang in the kernel or belong to another user.',
    },
  };
}

function failure({ exitCode, signal }: ExitRecord): JobError {
  if (signal) {
    return {
      code: 'signal',
      message: `The command was ended by ${signal}.`,
      hint: 'read_output with mode errors or tail shows what it said before.',
    };
  }
  const said = { hint: 'read_output with mode errors shows the lines that matter.' };
  if (exitCode === 127)
    return {
      code: 'commandNotFound',
      message: 'The command was not found (exit code 127).',
      ...said,
    };
  if (exitCode === 126)
    return {
      code: 'notExecutable',
      message: 'The command may not be executed (exit code 126).',
      ...said,
    };
  return { code: 'exitCode', message: `The command ended with exit code ${exitCode}.`, ...said };
}

function factsOf(end: EndFacts): Record<string, unknown> {
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
