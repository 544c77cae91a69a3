// Times in the reader's zone, with UTC on hover.
import { age, duration, localTime } from '../format.ts';
import { now } from '../now.ts';

export function Time({ at }: { at: string }) {
  return (
    <time dateTime={at} title={utcText(at)}>
      {localTime(at, now.value)}
    </time>
  );
}

export function Age({ at }: { at: string }) {
  return (
    <time dateTime={at} title={`${localTime(at, 0)} · ${utcText(at)}`}>
      {age(now.value - Date.parse(at))}
    </time>
  );
}

/** The run time, which grows while the job runs. */
export function RunTime({ ms, since }: { ms?: number | undefined; since?: string | undefined }) {
  return <>{duration(since === undefined ? ms : now.value - Date.parse(since))}</>;
}

export const utcText = (at: string): string =>
  `${at.replace('T', ' ').replace(/\.?\d*Z$/, '')} UTC`;
