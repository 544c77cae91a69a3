// Circuit breaker per host: consecutive failures pause a host, and too many pauses give it up. The state is also stored,
// so that it survives a restart.
import type { Clock } from '../../../../runtime/clock.ts';
import type { HostRow } from '../../store/rows.ts';
import type { Result } from '../visit/result.ts';

interface HealthOptions {
  clock: Clock;
  maxFailures: number;
  restMs: number;
  maxRests: number;
  onRest(host: string, until: number): void;
}

type Health = Omit<HostRow, 'queued'>;

export class HostHealth {
  private readonly options: HealthOptions;
  private readonly hosts = new Map<string, Health>();

  constructor(options: HealthOptions) {
    this.options = options;
  }

  load(row: HostRow): void {
    const { host, readyAt, failures, rests } = row;
    if (failures > 0 || rests > 0) this.hosts.set(host, { host, readyAt, failures, rests });
  }

  isGivenUp(host: string): boolean {
    return (this.hosts.get(host)?.rests ?? 0) > this.options.maxRests;
  }

  /** Returns the host's row if it changed and must be stored. */
  note(host: string, signal: Result['host']): Health | undefined {
    if (signal === 'unknown') return undefined;
    const before = this.hosts.get(host);
    if (signal === 'works') {
      if (!before) return undefined;
      this.hosts.delete(host);
      return { host, readyAt: 0, failures: 0, rests: 0 };
    }
    const now = this.options.clock.now();
    const health = before ?? { host, readyAt: 0, failures: 0, rests: 0 };
    this.hosts.set(host, health);
    if (signal !== 'fails') {
      health.readyAt = Math.max(health.readyAt, now + signal.restMs);
      this.options.onRest(host, health.readyAt);
      return { ...health };
    }
    health.failures++;
    // Requests that were running when a pause began do not count towards the next one.
    if (health.failures < this.options.maxFailures || health.readyAt > now) return { ...health };
    health.failures = 0;
    health.rests++;
    health.readyAt = now + this.options.restMs;
    this.options.onRest(host, health.readyAt);
    return { ...health };
  }
}
