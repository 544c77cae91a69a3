// Durations and times as people type them: short durations, and the local times that tables show.
import { AppError } from '../../errors.ts';

/** `30s`, `5m`, `2h`, `1d`, `250ms`, or a bare number of `unitMs`. */
export function durationMs(text: string, unitMs: number): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text.trim());
  if (!match)
    throw new AppError('invalidInput', `${text} is not a duration: write 30s, 5m, 2h or 1d.`);
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  return Math.round(Number(match[1]) * (match[2] ? units[match[2]]! : unitMs));
}

/** Fields that look back: `1h` is an hour ago. Elsewhere it is in an hour. */
const pastFields = new Set(['since', 'before']);

/** A time without a zone is local, as tables show it. What is no time stays as it is: the field's own error says so. */
export function wireTime(field: string, text: string, now: number): string {
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(text)) {
    const ms = durationMs(text, 1000);
    return new Date(pastFields.has(field) ? now - ms : now + ms).toISOString();
  }
  if (!/^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?$/.test(text)) return text;
  const local = new Date(text.length === 10 ? `${text}T00:00` : text.replace(' ', 'T'));
  return Number.isNaN(local.getTime()) ? text : local.toISOString();
}
