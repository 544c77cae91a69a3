// Statistics over time from get_stats, with empty steps filled and series of several queues added up.
interface Percentiles {
  p50: number;
  p95: number;
}

interface Point {
  at: string;
  submitted: number;
  completed: number;
  failed: number;
  cancelled: number;
  timedOut: number;
  queued: number;
  queuedMs?: Percentiles;
  runMs?: Percentiles;
}

export interface Series {
  kind: string;
  queue: string;
  points: Point[];
}

export interface Stats {
  stepMs: number;
  from: string;
  to: string;
  series: Series[];
}

export type CountName = 'submitted' | 'completed' | 'failed' | 'cancelled' | 'timedOut' | 'queued';

/** The beginnings of all steps, in seconds. */
export function stepsOf({ from, to, stepMs }: Stats): number[] {
  const first = Math.floor(Date.parse(from) / stepMs) * stepMs;
  const steps: number[] = [];
  for (let at = first; at < Date.parse(to); at += stepMs) steps.push(at / 1000);
  return steps;
}

const pointsByStep = (points: readonly Point[]): Map<number, Point> =>
  new Map(points.map((point) => [Date.parse(point.at) / 1000, point]));

/** Sums of a count over the given series, one value per step. */
export function sumsOf(
  stats: Stats,
  series: readonly Series[],
  names: readonly CountName[],
): number[] {
  const maps = series.map(({ points }) => pointsByStep(points));
  return stepsOf(stats).map((step) => {
    let sum = 0;
    for (const map of maps) {
      const point = map.get(step);
      if (point) for (const name of names) sum += point[name];
    }
    return sum;
  });
}

/** How many jobs waited. The current step has no sample at first. */
export function queuedOf(stats: Stats, series: readonly Series[]): (number | null)[] {
  const values = sumsOf(stats, series, ['queued']);
  return values.map((value, i) => (value === 0 && i === values.length - 1 ? null : value));
}

/** Percentiles of one series in seconds; null where nothing ended. */
export function secondsOf(
  stats: Stats,
  { points }: Series,
  name: 'queuedMs' | 'runMs',
  percentile: keyof Percentiles,
): (number | null)[] {
  const map = pointsByStep(points);
  return stepsOf(stats).map((step) => {
    const value = map.get(step)?.[name]?.[percentile];
    return value === undefined ? null : value / 1000;
  });
}

export const total = (values: readonly number[]): number =>
  values.reduce((sum, one) => sum + one, 0);
