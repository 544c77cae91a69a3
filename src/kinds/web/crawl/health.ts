// The health of hosts within a crawl: failures in a row rest a host, some rests give it up. Kept in the store too, so
// that a restart does not forget what a site asked for.
import type { Clock } from '../../../runtime/clock.ts';
import type { HostRow } from './rows.ts';
import type { Result } from './result.ts';

export interface HealthOptions {
  clock: Clock;
  failuresMax: number;
  restMs: number;
  restsMax: number;
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
    return (this.hosts.get(host)?.rests ?? 0) > this.options.restsMax;
  }

  /** The host's row when it must be written. */
  note(host: string, sign: Result['host']): Health | undefined {
    if (sign === 'unknown') return undefined;
    const before = this.hosts.get(host);
    if (sign === 'works') {
      if (!before) return undefined;
      this.hosts.delete(host);
      return { host, readyAt: 0, failures: 0, rests: 0 };
    }
    const now = this.options.clock.now();
    const health = before ?? { host, readyAt: 0, failures: 0, rests: 0 };
    this.hosts.set(host, health);
    if (sign !== 'fails') {
      health.readyAt = Math.max(health.readyAt, now + sign.restMs);
      this.options.onRest(host, health.readyAt);
      return { ...health };
    }
    health.failures++;
    // Requests that were under way when a rest began do not count towards the next one.
    if (health.failures < this.options.failuresMax || health.readyAt > now) return { ...health };
    health.failures = 0;
    health.rests++;
    health.readyAt = now + this.options.restMs;
    this.options.onRest(host, health.readyAt);
    return { ...health };
  }
}
