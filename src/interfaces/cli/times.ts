// Parses durations and times as people type them, and formats ages.
import { AppError } from '../../errors.ts';
import { kebab } from './schema.ts';

/** Parses `30s`, `5m`, `2h`, `1d`, `250ms`, or a bare number in `unitMs`. */
export function durationMs(text: string, unitMs: number): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text.trim());
  if (!match)
    throw new AppError('invalidInput', `${text} is not a valid duration. Write 30s, 5m, 2h or 1d.`);
  const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };
  return Math.round(Number(match[1]) * (match[2] ? units[match[2]]! : unitMs));
}

/** How long ago something was: `now`, `12s ago`, `3m ago`, `5h ago`, `2d ago`. */
export function ageText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 1) return 'now';
  if (seconds < 60) return `${seconds}s ago`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes}m ago`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}h ago` : `${Math.floor(hours / 24)}d ago`;
}

/** Fields that refer to the past: `1h` means an hour ago. In other fields it means in an hour. */
const pastFields = new Set(['since', 'before']);

/**
 * Converts a time to ISO 8601. A time without a zone is local. A time of day without a date is the next one, or the last one
 * for fields that refer to the past. The server checks what begins with a date.
 */
export function parseTime(field: string, text: string, now: number): string {
  const isPast = pastFields.has(field);
  if (/^\d+(\.\d+)?(ms|s|m|h|d)$/.test(text)) {
    const ms = durationMs(text, 1000);
    return new Date(isPast ? now - ms : now + ms).toISOString();
  }
  if (/^([01]?\d|2[0-3]):[0-5]\d(:[0-5]\d)?$/.test(text)) return timeOfDay(text, now, isPast);
  if (!/^\d{4}-/.test(text))
    throw new AppError('invalidInput', `--${kebab(field)}: ${text} is not a valid time.`, {
      hint: 'Write 2h, 08:00 or "2026-01-31 08:00".',
    });
  if (!/^\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?)?$/.test(text)) return text;
  const local = new Date(text.length === 10 ? `${text}T00:00` : text.replace(' ', 'T'));
  return Number.isNaN(local.getTime()) ? text : local.toISOString();
}

function timeOfDay(text: string, now: number, isPast: boolean): string {
  const [hours, minutes, seconds = 0] = text.split(':').map(Number) as [number, number, number?];
  const time = new Date(now);
  time.setHours(hours, minutes, seconds, 0);
  if (!isPast && time.getTime() <= now) time.setDate(time.getDate() + 1);
  if (isPast && time.getTime() > now) time.setDate(time.getDate() - 1);
  return time.toISOString();
}
