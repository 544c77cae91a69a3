// Times, durations and sizes as people read them.
const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;

export function duration(ms: number | undefined): string {
  if (ms === undefined) return '–';
  // Clocks of two machines may differ: a wait is never negative.
  const value = Math.max(0, ms);
  if (value < second) return `${Math.round(value)}ms`;
  if (value < 10 * second) return `${(value / second).toFixed(1)}s`;
  if (value < minute) return `${Math.floor(value / second)}s`;
  if (value < hour) return pair(value, [minute, 'm'], [second, 's']);
  if (value < day) return pair(value, [hour, 'h'], [minute, 'm']);
  return pair(value, [day, 'd'], [hour, 'h']);
}

type Unit = [ms: number, symbol: string];

function pair(value: number, [large, l]: Unit, [small, s]: Unit): string {
  const rest = Math.floor((value % large) / small);
  return `${Math.floor(value / large)}${l}${rest === 0 ? '' : ` ${rest}${s}`}`;
}

/** Age in one unit: it changes rarely, so that columns stay calm. */
export function age(ms: number): string {
  const value = Math.max(0, ms);
  if (value < minute) return `${Math.floor(value / second)}s`;
  if (value < hour) return `${Math.floor(value / minute)}m`;
  if (value < day) return `${Math.floor(value / hour)}h`;
  return `${Math.floor(value / day)}d`;
}

const sizeUnits = ['B', 'kB', 'MB', 'GB', 'TB'];

export function bytes(value: number): string {
  let unit = 0;
  let rest = value;
  for (; rest >= 1000 && unit < sizeUnits.length - 1; unit++) rest /= 1000;
  return `${unit === 0 || rest >= 100 ? Math.round(rest) : rest.toFixed(1)} ${sizeUnits[unit]}`;
}

const numbers = new Intl.NumberFormat('en-US');
export const count = (value: number): string => numbers.format(value);

const times = new Intl.DateTimeFormat(undefined, { timeStyle: 'medium' });
const dates = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

export function localTime(iso: string, now: number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return iso;
  return new Date(at).toDateString() === new Date(now).toDateString()
    ? times.format(at)
    : dates.format(at);
}

export function plural(n: number, one: string, many = `${one}s`): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}
